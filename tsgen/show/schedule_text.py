"""The schedule table as text, in the layout of NVIDIA's TaskManager."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.diagnostics.formats.snippet import width
from tsgen.show.table import GUARDS, Cell, Column, ScheduleTable, Section

_ABBREVIATION_WIDTH = 11  # `->ConsWai`, `ProdCmt->`: the arrows stand outside of the words


def schedule_text(table: ScheduleTable) -> str:
    """The table, with a legend of the tags that occur in it."""
    bodies = [[_body(c) for s in table.sections for c in (row[i] for row in s.rows) if c] for i in _range(table)]
    positions = [
        max((len(c.position) for s in table.sections for c in (row[i] for row in s.rows) if c), default=0)
        for i in _range(table)
    ]
    widths = [
        max([width(heading(c)), *(width(b) + p + 4 for b in body)])
        for c, body, p in zip(table.columns, bodies, positions, strict=True)
    ]
    total = sum(widths) + 3 * len(widths) + 1
    out = ["=" * total, _line([f"{heading(c):^{w}}" for c, w in zip(table.columns, widths, strict=True)])]
    for s in table.sections:
        out += ["", *_banner(table, s, total), ""]
        out += [
            _line([_cell(c, w, p) for c, w, p in zip(row, widths, positions, strict=True)]).rstrip() for row in s.rows
        ]
    return "\n".join([*out, "=" * total, *legend(table)]) + "\n"


def heading(c: Column) -> str:
    """`load [8:9)`: a task and its warps."""
    return f"{c.task} " + " ".join(f"[{first}:{last + 1})" for first, last in c.warps)


def _range(table: ScheduleTable) -> range:
    return range(len(table.columns))


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _banner(table: ScheduleTable, s: Section, total: int) -> Iterator[str]:
    words = f">   {s.name}   <"
    yield f"{words:=^{total}}"
    if s.name == "Loop":
        yield from (f"  {c.task}: {c.loop}, iteration i of n" for c in table.columns if c.loop)


def _cell(c: Cell | None, w: int, position: int) -> str:
    if c is None:
        return " " * w
    body = _body(c)
    return body + " " * (w - width(body) - 4 - position) + f" {c.guards:<2} {c.position:>{position}}"


def _body(c: Cell) -> str:
    indent = "  " * c.depth
    if not c.action:
        return indent + c.target
    action = c.action if c.action.startswith(("->", "<-")) else f"  {c.action}"
    return f"{indent}{c.target:<8} {action:<{_ABBREVIATION_WIDTH}} {c.detail}".rstrip()


def legend(table: ScheduleTable) -> Iterator[str]:
    """What the tags and positions of a table mean."""
    cells = [c for column in table.columns for c in column.cells]
    used = {letter for c in cells for letter in c.guards}
    if used:
        yield "Guards: " + "  ".join(f"{k} = {v}" for k, v in GUARDS.items() if k in used)
    if table.rings:
        yield "Rings:  " + "  ".join(f"{name}: {stages} stages {kind}" for name, kind, stages in table.rings)
        yield "The last column is the position in the ring, from the task's first tile on; its stage is that modulo"
        yield "the stages. i is the iteration of the loop and n the number of its iterations."
