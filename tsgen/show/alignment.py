"""Rows for the cells of a schedule table: a wait stands in the row of the commit that it waits for."""

from __future__ import annotations

from collections.abc import Sequence

from tsgen.show.table import HEAD, SECTIONS, TAIL, Cell, Column, Section


def align(columns: Sequence[Column]) -> tuple[Section, ...]:
    """The rows of all columns, by section; a section without rows is left out."""
    layout = _Alignment(columns)
    by_name = [(name, layout.section(index)) for index, name in enumerate(SECTIONS)]
    looped = any(c.loop for c in columns)
    return tuple(Section(name if looped or name != "Head" else "Steps", rows) for name, rows in by_name if rows)


class _Alignment:
    """Lays the columns' cells out in rows, section by section."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = columns
        self.cursors = [0] * len(columns)
        self.commits: dict[str, int] = {}  # placed so far, by ring
        self.waits: dict[tuple[int, str], int] = {}  # placed so far, by column and ring

    def section(self, index: int) -> tuple[tuple[Cell | None, ...], ...]:
        """The rows of a section. Cells without a section may stand in Head, Loop and Tail, at the latest in Tail."""
        rows: list[tuple[Cell | None, ...]] = []
        while True:
            row = self._row(index)
            if not any(row):
                forced = self._forced(index)
                if forced is None:
                    return tuple(rows)
                row = [self._take(i) if i == forced else None for i in range(len(self.columns))]
            rows.append(tuple(row))

    def _row(self, index: int) -> list[Cell | None]:
        """One cell of each column that nothing holds up; commits first, so that their waits fit into the same row."""
        row: list[Cell | None] = [None] * len(self.columns)
        for pass_over_waits in (False, True):
            for i in range(len(self.columns)):
                cell = self._next(i, index)
                if row[i] is None and cell is not None and _is(cell, "wait") == pass_over_waits:
                    row[i] = None if self._held_up(i, cell, index) else self._take(i)
        return row

    def _next(self, column: int, index: int) -> Cell | None:
        cells = self.columns[column].cells
        if self.cursors[column] == len(cells):
            return None
        cell = cells[self.cursors[column]]
        floats = cell.section is None and HEAD <= index <= TAIL
        return cell if cell.section == index or floats else None

    def _held_up(self, column: int, cell: Cell, index: int) -> bool:
        """Whether a cell is a wait whose commit is still to come, in this section or (without a section) anywhere."""
        if cell.sync is None or cell.sync[1] != "wait":
            return False
        ring_name = cell.sync[0]
        if self.waits.get((column, ring_name), 0) < self.commits.get(ring_name, 0):
            return False
        return any(
            c.sync == (ring_name, "commit") and (cell.section is None or c.section in (index, None))
            for i, other in enumerate(self.columns)
            if i != column
            for c in other.cells[self.cursors[i] :]
        )

    def _forced(self, index: int) -> int | None:
        """The first column with a held-up cell that can wait no longer."""
        for i in range(len(self.columns)):
            cell = self._next(i, index)
            if cell is not None and (cell.section is not None or index == TAIL):
                return i
        return None

    def _take(self, column: int) -> Cell:
        cell = self.columns[column].cells[self.cursors[column]]
        self.cursors[column] += 1
        if cell.sync is not None and cell.sync[1] == "commit":
            self.commits[cell.sync[0]] = self.commits.get(cell.sync[0], 0) + 1
        elif cell.sync is not None and cell.sync[1] == "wait":
            key = (column, cell.sync[0])
            self.waits[key] = self.waits.get(key, 0) + 1
        return cell


def _is(cell: Cell, method: str) -> bool:
    return cell.sync is not None and cell.sync[1] == method
