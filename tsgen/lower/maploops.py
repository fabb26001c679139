"""The statements of a map in their loops over this thread's rows and columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tsgen.diagnostics import Span
from tsgen.lower.elementwise import Shape
from tsgen.lower.errors import refuse


@dataclass(frozen=True)
class Line:
    """One printed statement. `name` is the temporary or the view that it assigns, `view` a tile that it goes over."""

    shape: Shape
    text: str
    name: str
    temporary: bool
    view: str | None
    width: int  # columns of the tile; 0 for those that go over none
    of_rows: bool  # something in it belongs to a row

    def mentions(self, name: str) -> bool:
        return re.search(rf"(?<![\w.]){re.escape(name)}\b", self.text.partition(" = ")[2]) is not None


@dataclass(frozen=True)
class Columns:
    """What the loops over columns run over: the head of a loop over a view, or a part that the caller names."""

    part: str | None

    def loop(self, group: list[Line]) -> str:
        view = next((x.view for x in group if x.view is not None), None)
        return f"for c in {self.part or f'columns({view})'}:"


def nest(lines: list[Line], rows: int, columns: Columns, span: Span) -> Iterator[str]:
    """The statements in order: rows outside where something is said of rows, else columns outside.

    With rows outside the first row's maxima hide the second's shuffles. Without, what belongs to a column (a bias) is
    loaded once for all rows.
    """
    yield from (x.text for x in lines if x.shape == "scalar")
    rest = [x for x in lines if x.shape != "scalar"]
    groups = list(_groups(rest, span))
    if not any(x.of_rows for x in rest):
        for group in groups:
            yield columns.loop(group)
            yield from (f"    {x.text}" for x in group if x.shape == "col")
            yield f"    for r in cutlass.range_constexpr({rows}):"
            yield from (f"        {x.text}" for x in group if x.shape == "tile")
        return
    yield f"for r in cutlass.range_constexpr({rows}):"
    for group in groups:
        if group[0].shape == "row":
            yield from (f"    {x.text}" for x in group)
        else:
            yield f"    {columns.loop(group)}"
            yield from (f"        {x.text}" for x in group)


def _groups(lines: list[Line], span: Span) -> Iterator[list[Line]]:
    """Runs of statements that share a loop: of rows, or over the columns of tiles of one width."""
    start = 0
    while start < len(lines):
        over_rows = lines[start].shape == "row"
        end, width = start, 0
        while end < len(lines) and (lines[end].shape == "row") == over_rows:
            if width and lines[end].width not in (0, width):
                break
            width = width or lines[end].width
            end += 1
        group = lines[start:end]
        yield group if over_rows else [*_again(lines, start, group, span), *group]
        start = end


def _again(lines: list[Line], start: int, group: list[Line], span: Span) -> list[Line]:
    """Temporaries of earlier loops over columns that this one reads: each element is computed again."""
    needed: list[Line] = []
    for i in range(start - 1, -1, -1):
        x = lines[i]
        if not x.temporary or x.shape not in ("tile", "col") or not any(y.mentions(x.name) for y in [*needed, *group]):
            continue
        changed = next((y.name for y in lines[i:start] if not y.temporary and x.mentions(y.name)), None)
        if changed is not None:
            refuse(f"the temporary `{x.name}` after `{changed}` has changed", span, "make it a field")
        needed.insert(0, x)
    return needed
