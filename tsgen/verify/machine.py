"""The abstract machine that the verifier runs: agents, barriers, memory cells, and the instructions between them.

An *agent* is a set of warps that behave alike: a task instance in one CTA, its elected warp apart from the others where
the difference matters, or one warp of a task whose warps touch different windows or are the lanes of a ring.
Instructions are plain tuples, their first item an opcode; `tsgen.verify.code` writes them, `tsgen.verify.run` executes
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tsgen.diagnostics import Span
from tsgen.frozen import frozen
from tsgen.model.expr import Expr, Scalar
from tsgen.model.kernel import Kernel, Task, TaskInstance
from tsgen.verify.spans import Box, Place, have_common, spans
from tsgen.verify.symbols import Linear, Symbols
from tsgen.verify.windows import TensorWindow, meet

# opcodes; the layout of each instruction stands behind it, `ref` is an index into System.steps
(
    WAIT,  # base, slots, stages, stride, lag, flags, ref   phase p // stages - lag of barrier base + p % stages
    TRY,  # base, slots, stages, stride, lag, ref           the same test without blocking
    ARRIVE,  # bases, slots, stages, stride, units, carry, opposite, lag, own, ref
    ARM,  # bases, slots, stages, stride, units, bytes, ref
    ACCESS,  # items, transfers, engine, ref
    BRACKET,  # checks, ref
    COMPLETE,  # engine, n, ref                          all but the last n groups of the engine are complete
    NAMED_ARRIVE,  # barrier, slot, units, ref
    NAMED_WAIT,  # barrier, slot, ref
    LOOP_INIT,  # ref
    LOOP,  # linear, step, exit, last, ref
    END_LOOP,  # head
    TILE_INIT,  # first, ref
    TILE,  # stride, queue, skip, value, exit, ref      the tile is skipped if the condition has the value
    END_TILE,  # stride, head
    SKIPPABLE,  # exit, ref
    GUARD,  # kind, period, start, head, exit, ref
    WHEN,  # condition, value, exit, ref
    SKIP,  # slots, linear, tile offset, ref
    GRID_WAIT,  # ref
    GRID_LAUNCH,  # ref
    GRID_NEEDED,  # tensor, ref
    END,
) = range(23)

# engines of accesses and completions
SYNC, TX, BULK, CP_ASYNC, WGMMA, TCGEN05, TMEM_LD, TMEM_ST, BULK_WRITE, CP_OPEN = range(10)  # bulk: its sources
ENGINES = 10
ENGINE_NUMBERS = {
    "generic": SYNC,
    "tx": TX,
    "bulk": BULK,
    "cp_async": CP_ASYNC,
    "wgmma": WGMMA,
    "tcgen05": TCGEN05,
    "tcgen05_ld": TMEM_LD,
    "tcgen05_st": TMEM_ST,
    "cp_open": CP_OPEN,  # cp.async that fills an async pipeline: it is in no group yet
    "bulk_write": BULK_WRITE,  # what a bulk store writes: it is on its way when the source is free already
}
ENGINE_NAMES = {v: k for k, v in ENGINE_NUMBERS.items()}

# flags of a wait
MARK, EARLY = 1, 2  # its passing must be known to whoever completes the next phase; it may skip phases
TRIED = 4  # tries of the same agent may have answered it

# what an arrival carries beside what the agent knows
CARRY_NOTHING, CARRY_UMMA, CARRY_CP_ASYNC = range(3)

FIRST, LAST, EVERY = range(3)

Instruction = tuple[Any, ...]  # an opcode and its operands, as listed above


# what a read asks of its window: nothing, or that some of it, or all of it, was written before
ANYTHING, SOME, ALL = range(3)


TILES = 8  # that a `skip` passes over at once
TENSOR = -2  # instead of a slot: the cell is a tensor


class Item(NamedTuple):
    """One access of a work. The cell is `base + (position of slot - back) % stages`; slot -1 has position 0. Of a
    tensor (slot -2), `boxes` is an index into System.windows, and `back` says whether the window moves with tiles (1)
    and iterations (2)."""

    base: int
    stages: int
    slot: int
    back: int
    write: bool
    boxes: tuple[int, ...]  # indices into System.boxes, by iteration
    settle: int  # the iteration from which on they repeat
    spread: str | None  # accesses of equal spread and box touch the same elements in the same threads
    needs: tuple[int, ...] = (ANYTHING,)  # of a read, by iteration as the boxes, or always the same


@frozen
class StepInfo:
    """Where an instruction comes from."""

    text: str
    span: Span
    agent: int
    resource: str | None
    method: str


@dataclass
class Agent:
    """`warps` of them behave alike; `twin`: an access of one of them can race with the same access of another."""

    task: Task
    instance: TaskInstance
    cta: int
    kind: str  # all; lead and rest; warp or lane: one of the task's warps, a lane of its rings
    warps: int
    lane: int
    twin: bool
    code: list[Instruction] = field(default_factory=list)
    period: int = 1  # windows, and conditions that are tables, repeat after that many iterations,
    settle: int = 0  # from this one on
    windows: int = 1  # the period of the windows alone
    loop: tuple[int, int] = (-1, -1)  # pcs of LOOP and END_LOOP
    values: tuple[int, int] = (0, 1)  # of the loop variable: the first and the step, where they are numbers
    queries: dict[int, int] = field(default_factory=dict)  # unknown -> last pc that asks for it
    asks: dict[int, int] = field(default_factory=dict)  # condition -> last pc that asks for it
    skips: frozenset[int] = frozenset()  # the condition of its tile loop
    guards: tuple[tuple[int, int, int], ...] = ()  # kind, period, start of its guards
    looks_back: int = 0  # of so many tiles before it skips the stages
    slots: list[int] = field(default_factory=list)  # its positions
    groups: dict[int, int] = field(default_factory=dict)  # engine -> most groups that a completion leaves in flight
    watched: dict[int, int] = field(default_factory=dict)  # positions of stages that it must read -> a step that waits

    def value(self, iteration: int) -> int:
        """The loop variable in an iteration: what tells the outcomes of a condition apart."""
        return self.values[0] + iteration * self.values[1]

    @property
    def elected(self) -> bool:
        """Whether it has the warp that does what one warp of the task does."""
        return self.lane == 0

    @property
    def name(self) -> str:
        return self.task.name if self.task.each is None else f"{self.task.name}[{self.instance.index}]"


@frozen
class BarrierInfo:
    """One mbarrier or named barrier: `need` arrivals complete a phase."""

    resource: str
    instance: int
    side: str  # full, empty, named
    stage: int
    cta: int
    need: int
    transactions: bool


@frozen
class FieldInfo:
    """Memory that cells belong to. `private`: registers of one agent. A tensor has no field."""

    resource: str
    instance: int
    field: str
    private: bool

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.field}" if self.field else self.resource


@frozen
class Ring:
    """A pipelined resource instance: which barriers guard it. Bases are indices of stage 0, by CTA."""

    resource: str
    instance: int
    stages: int
    full: tuple[int, ...]
    empty: tuple[int, ...]
    stride: int  # positions that share a lane differ by multiples of it


@frozen
class Condition:
    """A `when` or `skip_if`, `key` in words: the environment chooses the outcome, for each place that it may depend on,
    unless `test` computes it."""

    key: str
    per_iteration: bool
    per_tile: bool
    per_cta: bool
    test: Test | None
    variable: str = "iteration"  # what a reader calls the iteration that an outcome depends on
    asked: tuple[Expr, tuple[tuple[str, Scalar], ...]] | None = None  # what it says, with `#` for the loop variable
    same: int = -1  # the index of the one that stands for all that say the same
    turned: bool = False  # it says the contrary of that one


@frozen
class Test:
    """A comparison with zero, or a combination: `op` in < <= > >= == != and or not turn."""

    op: str
    form: Linear | None = None
    loop: int = 0  # coefficient of the loop variable
    parts: tuple[Test, ...] = ()
    turn: tuple[bool, ...] = ()  # of `turn`: the outcomes of one iteration after the other, over and over


@dataclass
class System:
    """Everything that does not change while the machine runs."""

    kernel: Kernel
    symbols: Symbols
    ctas: int
    agents: list[Agent] = field(default_factory=list)
    barriers: list[BarrierInfo] = field(default_factory=list)
    rings: list[Ring] = field(default_factory=list)
    fields: list[FieldInfo] = field(default_factory=list)
    cells: int = 0
    cell_field: list[int] = field(default_factory=list)
    cell_stage: list[int] = field(default_factory=list)
    aliases: dict[int, tuple[int, ...]] = field(default_factory=dict)  # cell -> cells with common bytes
    steps: list[StepInfo] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    slots: int = 0
    start: list[int] = field(default_factory=list)  # slot -> first position
    slot_ring: list[int] = field(default_factory=list)  # slot -> ring, -1 for a named barrier
    pdl: bool = False
    pairs: bool = False  # CTAs 2n and 2n + 1 share MMAs
    named_users: list[tuple[int, int]] = field(default_factory=list)  # slot, named barrier
    ring_slots: dict[int, list[int]] = field(default_factory=dict)  # slots that move, by ring
    cell_users: list[set[int]] = field(default_factory=list)  # agents that touch a cell or its aliases
    cell_writers: list[set[int]] = field(default_factory=list)
    value_users: dict[int, set[int]] = field(default_factory=dict)  # barrier -> agents that must know its completions
    sole: dict[int, int] = field(default_factory=dict)  # barrier -> the agent whose own arrivals alone complete it
    reached: set[int] = field(default_factory=set)  # first barriers of rings that somebody arrives at
    fixed_rings: frozenset[int] = frozenset()  # rings whose stages are not interchangeable: their bytes are shared
    freed: frozenset[int] = frozenset()  # cells of tensor memory
    freeing: list[tuple[int, ...]] = field(default_factory=list)  # by agent: who frees the tensor memory it touches
    drained: list[tuple[int, ...]] = field(default_factory=list)  # by agent: barriers that MMAs release and it acquires
    read_cells: frozenset[int] = frozenset()  # cells of which a read wants to know whether they were written
    turning: dict[int, int] = field(default_factory=dict)  # cell -> ring, where each turn of the ring writes anew
    boxes: list[Box] = field(default_factory=lambda: [()])
    ranges: dict[int, Place] = field(default_factory=dict)
    _box_index: dict[Box, int] = field(default_factory=lambda: {(): 0})
    _relations: dict[tuple[int, ...], bool] = field(default_factory=dict)
    windows: list[TensorWindow] = field(default_factory=list)  # of tensors
    full: dict[tuple[int, ...], bool] = field(default_factory=dict)  # windows, a window, a cell: whether it is covered
    tile_unknowns: dict[str, int] = field(default_factory=dict)  # queue -> unknown: how many tiles a CTA gets

    def passed(self, unknown: int, times: int) -> int:
        """How many tiles a `skip` passes over by several times a number: as many, if it is the same in all of them."""
        return times if 0 < times <= TILES and not self.symbols.unknowns[unknown].per_tile else 1

    # ---- windows: relations between boxes, remembered --------------------------------------------------------

    def box(self, box: Box) -> int:
        """The index of a window."""
        index = self._box_index.get(box)
        if index is None:
            index = self._box_index[box] = len(self.boxes)
            self.boxes.append(box)
        return index

    def covers(self, a: int, b: int) -> bool:
        """Whether window a contains window b of the same cell."""
        found = self._relations.get((a, b))
        if found is None:
            x, y = self.boxes[a], self.boxes[b]
            inside = len(x) <= len(y) and all(p[0] <= q[0] and q[1] <= p[1] for p, q in zip(x, y, strict=False))
            found = self._relations[a, b] = not x or (bool(y) and inside)
        return found

    def overlaps(self, a: int, b: int) -> bool:
        """Whether two windows of one cell have an element in common."""
        if a == b or not a or not b:
            return True
        found = self._relations.get((a, b, 0))
        if found is None:
            pairs = zip(self.boxes[a], self.boxes[b], strict=False)
            found = self._relations[a, b, 0] = all(p[0] < q[1] and q[0] < p[1] for p, q in pairs)
        return found

    def meets(self, a: int, b: int) -> bool:
        """Whether two windows of a tensor certainly have an element in common, in one tile and iteration."""
        found = self._relations.get((a, b, 1, 1, 1))
        if found is None:
            found = self._relations[a, b, 1, 1, 1] = meet(self.windows[a], self.windows[b], self.kernel.env)
        return found

    def covers_bytes(self, cell: int, other: int, other_box: int) -> bool:
        """Whether a window of another cell lies in the bytes (columns of tensor memory) of a cell."""
        start, size = self.ranges[cell].start, self.ranges[cell].size
        return all(start <= a and b <= start + size for a, b in spans(self.ranges[other], self.boxes[other_box]))

    def share_bytes(self, cell: int, box: int, other: int, other_box: int) -> bool:
        """Whether windows of two cells have bytes (columns of tensor memory) in common."""
        key = (cell, box, other, other_box)
        found = self._relations.get(key)
        if found is None:
            mine, theirs = (spans(self.ranges[c], self.boxes[b]) for c, b in ((cell, box), (other, other_box)))
            found = self._relations[key] = have_common(mine, theirs)
        return found
