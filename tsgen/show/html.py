"""Self-contained HTML pages: the schedule table and the resource graph. No script, no external file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from tsgen.show.graph import Node, ResourceGraph
from tsgen.show.schedule_text import heading, legend
from tsgen.show.table import Cell, ScheduleTable

_STYLE = """
:root { color-scheme: light dark; font: 14px/1.45 system-ui, sans-serif; }
body { margin: 2rem; }
table { border-collapse: collapse; }
th, td { padding: .15rem .6rem; text-align: left; border-inline: 1px solid #8886; white-space: pre; }
td { font-family: ui-monospace, monospace; }
th { position: sticky; top: 0; background: Canvas; border-bottom: 2px solid #888; }
tr.section td { background: #8882; font: 600 1em system-ui, sans-serif; }
.k { color: #888; } .p { float: right; margin-left: 1rem; color: #888; }
i { font-style: normal; padding: 0 .2rem; border-radius: .2rem; background: hsl(var(--hue) 70% 50% / .22); }
svg text { font: 13px system-ui, sans-serif; fill: CanvasText; }
svg g text:first-of-type { font-weight: 600; }
svg rect { fill: hsl(var(--hue) 70% 50% / .18); stroke: #888; }
svg path { fill: none; stroke: #888; }
"""
_HUES = {"gmem": 210, "smem": 140, "tmem": 280, "pdl": 30, "group": 0}
_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 220, 66, 120, 26
_LINE, _MAX_LABEL = 17, 32


def schedule_html(table: ScheduleTable) -> str:
    """The schedule table; a step's text and line show on hovering."""
    head = "".join(f"<th>{escape(heading(c))}</th>" for c in table.columns)
    body = "".join(_sections(table))
    notes = "".join(f"<p>{escape(line)}</p>" for line in legend(table))
    return _page(
        _title(table.kernel, table.target, table.variant, "schedule"), f"<table><tr>{head}</tr>{body}</table>{notes}"
    )


def _sections(table: ScheduleTable) -> Iterator[str]:
    for s in table.sections:
        loops = "; ".join(f"{c.task}: {c.loop}" for c in table.columns if c.loop) if s.name == "Loop" else ""
        name = escape(s.name + (f" — {loops}" if loops else ""))
        yield f'<tr class="section"><td colspan="{len(table.columns)}">{name}</td></tr>'
        for row in s.rows:
            yield f"<tr>{''.join(_cell(c) for c in row)}</tr>"


def _cell(c: Cell | None) -> str:
    if c is None:
        return "<td></td>"
    tip = escape(f"line {c.line}: {c.text}", quote=True)
    right = " ".join(p for p in (c.guards, c.position) if p)
    words = f'{"  " * c.depth}<i style="--hue:{_hue(c.target)}">{escape(c.target)}</i> {escape(c.action)}'
    detail = f' <span class="k">{escape(c.detail)}</span>' if c.detail else ""
    return f'<td title="{tip}">{words}{detail}<span class="p">{escape(right)}</span></td>'


def _hue(target: str) -> int:
    """One hue for each resource, the same on every run."""
    return sum(ord(c) * (i + 7) for i, c in enumerate(target.partition("[")[0])) * 47 % 360


def graph_html(g: ResourceGraph) -> str:
    """The graph as an SVG drawing, sources on the left."""
    layers = _layers(g)
    at: dict[str, tuple[int, int]] = {}
    for x, names in enumerate(layers):
        for y, name in enumerate(names):
            at[name] = (x * (_BOX_WIDTH + _GAP_X), y * (_BOX_HEIGHT + _GAP_Y))
    width = len(layers) * (_BOX_WIDTH + _GAP_X) - _GAP_X
    height = max(map(len, layers), default=0) * (_BOX_HEIGHT + _GAP_Y)
    body = "".join([*_edges(g, at), *(_box(n, *at[n.name]) for n in g.nodes)])
    arrow = '<marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    arrow += '<path d="M0 0L8 4L0 8" style="fill:#888"/></marker>'
    svg = f'<svg width="{width + 4}" height="{height + 4}" viewBox="-2 -2 {width + 4} {height + 4}">'
    return _page(_title(g.kernel, g.target, g.variant, "graph"), f"{svg}<defs>{arrow}</defs>{body}</svg>")


def _layers(g: ResourceGraph) -> list[list[str]]:
    """Nodes by their longest distance from a source; edges that close a cycle are not followed."""
    ups: dict[str, list[str]] = {n.name: [] for n in g.nodes}
    for f in g.flows:
        ups[f.downstream].append(f.upstream)
    depth: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...]) -> int:
        if name not in depth:
            depth[name] = max((visit(u, (*path, name)) + 1 for u in ups[name] if u not in (*path, name)), default=0)
        return depth[name]

    layers: list[list[str]] = []
    for n in g.nodes:
        level = visit(n.name, ())
        layers += [[] for _ in range(level + 1 - len(layers))]
        layers[level].append(n.name)
    return layers


def _box(n: Node, x: int, y: int) -> str:
    lines = [n.name, *n.detail.split("; ")][:3]
    texts = [f'<text x="{x + 10}" y="{y + 20 + i * _LINE}">{escape(_short(t))}</text>' for i, t in enumerate(lines)]
    size = f'x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"'
    box = f'<rect {size} rx="6" style="--hue:{_HUES.get(n.kind, 0)}"/>'
    return f"<g><title>{escape(f'{n.kind}: {n.detail}')}</title>{box}{''.join(texts)}</g>"


def _edges(g: ResourceGraph, at: dict[str, tuple[int, int]]) -> Iterator[str]:
    for f in g.flows:
        (x0, y0), (x1, y1) = at[f.upstream], at[f.downstream]
        x0, y0, y1 = x0 + _BOX_WIDTH, y0 + _BOX_HEIGHT // 2, y1 + _BOX_HEIGHT // 2
        bend = max(40, abs(x1 - x0) // 2)
        yield f'<path d="M{x0} {y0}C{x0 + bend} {y0} {x1 - bend} {y1} {x1} {y1}" marker-end="url(#a)"/>'
        label = escape(", ".join(f.tasks))
        yield f'<text x="{(x0 + x1) // 2}" y="{(y0 + y1) // 2 - 5}" text-anchor="middle">{label}</text>'


def _short(text: str) -> str:
    return text if len(text) <= _MAX_LABEL else text[: _MAX_LABEL - 1] + "…"


def _title(kernel: str, target: str, variant: str | None, view: str) -> str:
    return f"{kernel} {view} ({target}{f', variant {variant}' if variant else ''})"


def _page(title: str, body: str) -> str:
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )
