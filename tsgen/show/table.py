"""What a schedule table holds: cells in columns, and the same cells laid out in the rows of sections."""

from __future__ import annotations

from dataclasses import dataclass

SECTIONS = ("Before the tiles", "Head", "Loop", "Tail", "After the tiles")
BEFORE, HEAD, LOOP, TAIL, AFTER = range(len(SECTIONS))

GUARDS = {"F": "first_iter", "L": "last_iter", "P": "every", "I": "when_true/when_false", "S": "skippable"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One step. `section` indexes SECTIONS, or is None in a task without a loop: then it flows with its data."""

    section: int | None
    target: str  # resource, tensor, group or engine, with its instance
    action: str  # TS's abbreviation, or the method
    detail: str  # the work's name and arguments
    guards: str  # letters of GUARDS
    position: str  # in the ring
    depth: int  # compile-time blocks around it
    line: int
    text: str
    derived: bool
    sync: tuple[str, str] | None = None  # (ring, method) of a pipeline step, for the alignment


@dataclass(frozen=True, slots=True)
class Column:
    task: str
    warps: tuple[tuple[int, int], ...]  # first and last, for each instance
    loop: str  # the domain loop in words, empty without one
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one section: a cell for each column, None where the task has nothing there."""

    name: str
    rows: tuple[tuple[Cell | None, ...], ...]


@dataclass(frozen=True, slots=True)
class ScheduleTable:
    kernel: str
    target: str
    variant: str | None
    columns: tuple[Column, ...]
    sections: tuple[Section, ...]
    rings: tuple[tuple[str, str, int], ...]  # ring, pipeline type, stages
