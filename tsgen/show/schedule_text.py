"""The schedule table as text, in the layout of NVIDIA's TaskManager."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.diagnostics.formats.full import counted
from tsgen.diagnostics.formats.snippet import width
from tsgen.show.table import GUARDS, Cell, Column, ScheduleTable, Section

_ABBREVIATION_WIDTH = 11  # `->ConsWai`, `ProdCmt->`: the arrows stand outside of the words


def schedule_text(table: ScheduleTable) -> str:
    """The table, with a legend of the tags that occur in it."""
    columns = [_Layout(c) for c in table.columns]
    total = sum(c.width for c in columns) + 3 * len(columns) + 1
    out = ["=" * total, _line([f"{heading(c.column):^{c.width}}" for c in columns])]
    for s in table.sections:
        out += ["", *_banner(table, s, total), ""]
        out += [_line([layout.cell(c) for layout, c in zip(columns, row, strict=True)]) for row in s.rows]
    return "\n".join([*out, "=" * total, *legend(table)]) + "\n"


class _Layout:
    """The widths of one task's column."""

    def __init__(self, column: Column) -> None:
        self.column = column
        steps = [c for c in column.cells if c.action]
        self.target = max((len(_target(c)) for c in steps), default=0)
        self.position = max((len(c.position) for c in steps), default=0)
        self.guards = max((len(c.guards) for c in column.cells), default=0)
        bodies = [width(self._body(c)) + self.guards + self.position + 2 for c in column.cells]
        self.width = max([width(heading(column)), *bodies])

    def cell(self, c: Cell | None) -> str:
        if c is None:
            return " " * self.width
        body = self._body(c)
        right = f"{c.guards:<{self.guards}} {c.position:>{self.position}}"
        return body + " " * (self.width - width(body) - len(right)) + right

    def _body(self, c: Cell) -> str:
        if not c.action:
            return _target(c)
        action = c.action if c.action.startswith(("->", "<-")) else f"  {c.action}"
        return f"{_target(c):<{self.target}} {action:<{_ABBREVIATION_WIDTH}} {c.detail}".rstrip()


def _target(c: Cell) -> str:
    return "  " * c.depth + c.target


def heading(c: Column) -> str:
    """`load [8:9)`: a task and its warps."""
    return f"{c.task} " + " ".join(f"[{first}:{last + 1})" for first, last in c.warps)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _banner(table: ScheduleTable, s: Section, total: int) -> Iterator[str]:
    words = f">   {s.name}   <"
    yield f"{words:=^{total}}"
    if s.name == "Loop":
        yield from (f"  {c.task}: {c.loop}, iteration i of n" for c in table.columns if c.loop)


def legend(table: ScheduleTable) -> Iterator[str]:
    """What the tags and positions of a table mean."""
    cells = [c for column in table.columns for c in column.cells]
    used = {letter for c in cells for letter in c.guards}
    if used:
        yield "Guards: " + "  ".join(f"{k} = {v}" for k, v in GUARDS.items() if k in used)
    if table.rings:
        yield "Rings:  " + "  ".join(f"{name}: {counted(stages, 'stage')} {kind}" for name, kind, stages in table.rings)
        yield "The last column is the position in the ring, from the task's first tile on; its stage is that modulo"
        yield "the stages. i is the iteration of the loop and n the number of its iterations."
