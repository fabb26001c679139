"""What changes while the machine runs. Knowledge is a bit set: one bit (a *token*) for each event that can matter
later.

An agent knows the tokens in its mask; an arrival hands its mask to the barrier, a wait takes the barrier's. So token
t is in the mask of agent a exactly if event t happens before a's next step in every execution.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tsgen.verify.machine import ENGINES, System

GRID = 1  # the token of a griddepcontrol.wait
ALWAYS = 2  # the token of what everybody knows


class Moment(NamedTuple):
    """When an agent comes to a window of a tensor: its tile and iteration, -1 where the window does not move."""

    agent: int
    tile: int
    iteration: int


class Record(NamedTuple):
    """An access that later ones may race with."""

    token: int
    agent: int
    write: bool
    box: int
    engine: int
    spread: str | None
    ref: int
    at: tuple[Moment, ...] | None = None  # of a tensor: when others that touch it come to its window

    def moment(self, a: int) -> Moment | None:
        """When an agent comes to the window; None if it cannot any more."""
        return next((m for m in self.at or () if m.agent == a), None)


class Wait(NamedTuple):
    """An agent passed a wait on the last complete phase of a barrier."""

    token: int
    agent: int
    ref: int


class Decision(NamedTuple):
    """Something the environment chooses: `kind` is value, condition or skip. A value has no iteration: there it counts
    how often it was chosen anew (`Shapes.part`)."""

    kind: str
    what: int  # unknown or condition
    tile: int
    cta: int
    iteration: int


class Problem(NamedTuple):
    """What went wrong: `kind` names it, `agent` did it at `ref`; the rest depends on the kind."""

    kind: str
    agent: int
    ref: int
    barrier: int = -1
    other: int = -1  # another agent
    other_ref: int = -1
    data: tuple[Any, ...] = ()


class Written(NamedTuple):
    """What was written of a cell: the last turn of its ring in which anything was, and the windows."""

    turn: int
    boxes: tuple[int, ...]


NOT_WRITTEN = Written(-1, ())
Path = Any  # None, or (path before, Decision, value): the decisions that led to a state, last first


class State:
    """The machine between two steps. Everything inside the lists is immutable, so that a copy is a copy of lists."""

    __slots__ = (
        "answered", "answers", "cells", "cost", "count", "current", "debts", "decided", "done", "engines", "exact",
        "iteration", "known", "last", "late", "left", "low", "merges", "path", "pc", "position", "previous", "skipped",
        "tile", "tokens", "transfer", "twin", "unanswered", "unread", "value", "waits", "written",
    )  # fmt: skip

    def __init__(self, system: System) -> None:
        agents, barriers = len(system.agents), len(system.barriers)
        self.pc = [0] * agents
        self.iteration = [0] * agents
        self.tile = [0] * agents
        self.skipped = [False] * agents
        self.known = [ALWAYS] * agents  # masks
        self.twin = [0] * agents  # tokens that all its warps together know: accesses by a sibling, completions
        self.engines: list[tuple[tuple[int, ...], ...]] = [_IDLE] * agents
        self.debts: list[tuple[tuple[int, int, Decision], ...]] = [()] * agents
        self.position = list(system.start)
        self.done = [0] * barriers  # complete phases
        self.count = [0] * barriers  # arrivals in the current phase
        self.transfer = [0] * barriers  # bytes announced and not yet written in the current phase
        self.current = [0] * barriers  # mask of the current phase
        self.last = [0] * barriers  # mask of the last complete phase
        self.value = [ALWAYS] * barriers  # token of the last completion
        self.previous = [ALWAYS] * barriers  # token of the one before
        self.waits: list[tuple[Wait, ...]] = [()] * barriers
        self.cells: list[tuple[Record, ...]] = [()] * system.cells
        self.answers = 0  # slots that a try has an answer for
        self.answered = 0  # steps that had the answer of a try, and steps that had none
        self.unanswered = 0
        self.unread = 0  # slots of stages that were waited for and must be read
        self.written: list[Written] = [NOT_WRITTEN] * system.cells
        self.tokens = 2
        self.low: dict[Decision, int] = {}  # least value of an unknown that is not decided yet
        self.left: dict[Decision, int] = {}  # of those that nobody asks for any more, if it was chosen
        self.exact: dict[Decision, int] = {}
        self.decided: dict[Decision, bool] = {}
        self.late: dict[tuple[int, int, int], int] = {}  # agent, unknown, tile: its value is another one, see Shapes
        self.cost = 0  # how often the environment chose to go on
        self.path: Path = None
        self.merges: frozenset[Any] = frozenset()  # shapes of states on the way here that were merged with others

    @property
    def open(self) -> dict[Decision, int]:
        """The least values of all unknowns that were never decided."""
        return {**self.left, **self.low}

    def copy(self) -> State:
        new = State.__new__(State)
        new.pc = self.pc[:]
        new.iteration = self.iteration[:]
        new.tile = self.tile[:]
        new.skipped = self.skipped[:]
        new.known = self.known[:]
        new.twin = self.twin[:]
        new.engines = self.engines[:]
        new.debts = self.debts[:]
        new.position = self.position[:]
        new.done = self.done[:]
        new.count = self.count[:]
        new.transfer = self.transfer[:]
        new.current = self.current[:]
        new.last = self.last[:]
        new.value = self.value[:]
        new.previous = self.previous[:]
        new.waits = self.waits[:]
        new.cells = self.cells[:]
        new.answers = self.answers
        new.answered = self.answered
        new.unanswered = self.unanswered
        new.unread = self.unread
        new.written = self.written[:]
        new.tokens = self.tokens
        new.low = self.low.copy()
        new.left = self.left.copy()
        new.exact = self.exact.copy()
        new.decided = self.decided.copy()
        new.late = self.late.copy()
        new.cost = self.cost
        new.path = self.path
        new.merges = self.merges
        return new


# by engine number: tokens of groups in flight, oldest first (bulk: then those whose source is free but not the rest)
_IDLE: tuple[tuple[int, ...], ...] = ((),) * ENGINES
