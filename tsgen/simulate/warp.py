"""One warp of a task in one CTA: it runs the task's schedule step by step, as a coroutine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tsgen.derive.unfold import Node
from tsgen.diagnostics import Span
from tsgen.model.expr import Expr, Placed, Ref
from tsgen.model.kernel import Task, TaskInstance, Work
from tsgen.model.steps import CallStep, DomainLoop, Guard, Skippable, TileLoop, When
from tsgen.simulate import ops, pipes, works
from tsgen.simulate.barriers import MBarrier, NamedBarrier, Signal
from tsgen.simulate.deal import Deal, deal_of
from tsgen.simulate.expressions import evaluate
from tsgen.simulate.memory import Array, Cell
from tsgen.simulate.scheduler import InOrder, Operation
from tsgen.simulate.windows import Value, whole_number

if TYPE_CHECKING:
    from tsgen.simulate.grid import Cluster

Wait = Iterator[Signal | None]  # None: can go on at once; a signal: not before it fires


@dataclass(frozen=True, slots=True)
class Site:
    """A step as a warp performs it, for messages and the timeline."""

    warp: Warp
    step: CallStep
    trip: int | None
    tile: int | None

    @property
    def span(self) -> Span:
        return self.step.span

    @property
    def where(self) -> str:
        """Trip and tile."""
        parts = [f"{name} {n}" for name, n in (("trip", self.trip), ("tile", self.tile)) if n is not None]
        return ", ".join(parts)

    @property
    def place(self) -> tuple[int, int, int]:
        """The grid, the tile and the CTA that the step is of."""
        w = self.warp
        return id(w.grid), w.cluster.index if self.tile is None else self.tile, w.cta

    @property
    def what(self) -> str:
        """The step with a place for whose it is."""
        trip = "" if self.trip is None else f", trip {self.trip}"
        text = self.step.text.replace("{", "{{").replace("}", "}}")
        return f"`{text}` of {{}} (line {self.step.span.line}{trip})"

    def __str__(self) -> str:
        return self.what.format(self.warp.name)


class Warp:
    """A coroutine over the steps of its task's schedule.

    `names` are what expressions may name: params, dims, scalars, axes, `let` values, loop variables, tokens, and
    `thread threads warp lane`. Loop variables whose bounds differ between lanes are arrays, with `active` lanes.
    """

    def __init__(self, cluster: Cluster, cta: int, task: Task, instance: TaskInstance, warp: int) -> None:
        self.cluster = cluster
        self.grid = cluster.grid
        self.kernel = cluster.grid.kernel
        self.layout = cluster.layout
        self.scheduler = cluster.grid.scheduler
        self.cta = cta
        self.task = task
        self.instance = instance
        self.warp = warp
        self.warps = instance.num_warps
        self.program = cluster.grid.uses.programs[task.name, instance.index]
        self.deal: Deal = deal_of(self.kernel, self.program, self.warps, instance.first_warp)
        self.task_name = task.name if task.each is None else f"{task.name}[{instance.index}]"
        place = f" in CTA {cta}" if len(self.layout.ctas) > 1 else ""
        self.whole_task = f"{self.task_name}{place}"
        self.name = f"{f'warp {warp} of ' if self.warps > 1 else ''}{self.task_name}{place}"
        self.column = f"{self.task_name}{f'.{warp}' if self.warps > 1 else ''}{f' CTA {cta}' if place else ''}"
        self.marks = (f"task {self.task_name}", f"warp {self.column}", f"CTA {cta}")
        self.row = f"{self.task_name}{f' warp {warp}' if self.warps > 1 else ''}"
        self.cost = 0.0  # cycles of the steps since it moved last
        self.positions = pipes.Positions(self)
        self.registers: dict[tuple[str, str], Cell] = {}
        self.scalars: dict[tuple[str, str], Value] = {}
        self.groups: dict[str, list[Operation]] = {"wgmma": [], "bulk": [], "cp_async": []}
        self.copies: list[Operation] = []  # by cp.async, that a commit may wait for
        self.ungrouped: list[Operation] = []  # those of them that are in no group yet
        self.reads: list[Operation] = []  # of bulk groups: their sources
        self.loads: list[Operation] = []  # of tensor memory
        self.stores: list[Operation] = []
        self.progress = Signal()  # an operation of this warp is done
        self.tensor_cores = InOrder(self.scheduler)
        self.umma = InOrder(self.scheduler)
        self.active: Array | None = None
        self.trip: int | None = None
        self.tile: int | None = None
        self.loop: tuple[int, int] | None = None  # iteration and trips of the domain loop
        self.skipped = False
        self.ended = False
        self.blocked_at: Site | None = None
        self.waits_on: Signal | None = None
        lane = np.arange(32)
        self.names: dict[str, Value] = {
            **cluster.names(cta),
            "warp": warp,
            "lane": lane,
            "thread": 32 * warp + lane,
            "threads": 32 * self.warps,
        }
        if task.each is not None:
            self.names[task.each.var] = instance.index
        self._body = self._run()

    # ---- as an actor -----------------------------------------------------------------------------------------------

    def move(self) -> None:
        self.blocked_at = None
        try:
            signal = next(self._body)
        except StopIteration:
            self.ended = True
            self.cluster.warp_ended(self)
            return
        if signal is None:
            self.scheduler.add(self)
        else:
            self.waits_on = signal
            signal.waiting.append(self._wake)

    @property
    def waits_for(self) -> str:
        """What a blocked warp waits for, in words."""
        match self.waits_on:
            case MBarrier() | NamedBarrier() as b:
                return f"{b.name}: {b.state} missing"
            case signal if signal is self.progress:
                return "an engine that does not finish"
        return "the grid before this one"

    def _wake(self) -> None:
        self.scheduler.wake(self)

    def take_cost(self) -> float:
        cost, self.cost = self.cost, 0.0
        return cost

    def site(self, step: CallStep) -> Site:
        return Site(self, step, self.trip, self.tile)

    @property
    def elected(self) -> bool:
        """Whether this warp has the thread that performs the task's elected steps."""
        return self.warp == 0

    # ---- expressions -----------------------------------------------------------------------------------------------

    def number(self, e: Expr, names: Mapping[str, Value] | None = None) -> Value:
        """The value of an expression of the schedule."""
        return evaluate(e, self.names if names is None else names, works.StepData(self, names))

    # ---- blocks ----------------------------------------------------------------------------------------------------

    def _run(self) -> Wait:
        yield from self._block(self.program)

    def _block(self, nodes: tuple[Node, ...]) -> Wait:
        for node in nodes:
            match node.step:
                case CallStep():
                    yield None
                    yield from self._call(node)
                case DomainLoop():
                    yield from self._loop(node, node.step)
                case TileLoop():
                    yield from self._tiles(node, node.step)
                case Guard():
                    if self._guard(node.step):
                        yield from self._block(node.body)
                case When():
                    holds = self._with(node, node.step.condition)
                    if bool(np.all(holds)) == node.step.value:  # type: ignore[call-overload]
                        yield from self._block(node.body)
                case Skippable():
                    if not self.skipped:
                        yield from self._block(node.body)

    def _with(self, node: Node, e: Placed) -> Value:
        """The value with the `for` indices of the node's place."""
        return self.number(e.expr, {**self.names, **node.env})

    def _loop(self, node: Node, step: DomainLoop) -> Wait:
        start, end, by = (self._with(node, e) for e in (step.start, step.end, step.step))
        if any(isinstance(v, np.ndarray) and v.ndim for v in (start, end, by)):
            yield from self._lanes(node, step, np.asarray(start), np.asarray(end), np.asarray(by))
            return
        self.positions.enter_loop(whole_number(start))
        values = range(whole_number(start), whole_number(end), whole_number(by))
        before = self.trip, self.loop
        for trip, value in enumerate(values):
            self.trip, self.loop = trip, (trip, len(values))
            self.names[step.var] = value
            yield from self._block(node.body)
        self.trip, self.loop = before
        self.names.pop(step.var, None)

    def _lanes(self, node: Node, step: DomainLoop, start: Array, end: Array, by: Array) -> Wait:
        """A loop whose bounds differ between lanes: all go round as long as one has an iteration left."""
        value = start + np.zeros(32, dtype=np.int64)
        before = self.trip, self.active
        self.trip = 0
        while True:
            active = value < end
            if not active.any():
                break
            self.active = active
            self.names[step.var] = value
            yield from self._block(node.body)
            value = value + by
            self.trip += 1
        self.trip, self.active = before
        self.names.pop(step.var, None)

    def _guard(self, guard: Guard) -> bool:
        assert self.loop is not None
        trip, trips = self.loop
        if guard.kind == "first_iter":
            return trip == 0
        if guard.kind == "last_iter":
            return trip == trips - 1
        return trip >= guard.start and (trip - guard.start) % guard.period == 0

    def _tiles(self, node: Node, step: TileLoop) -> Wait:
        first, stride = whole_number(self._with(node, step.first)), whole_number(self._with(node, step.stride))
        stream = self.cluster.tiles(self, step.queue, first, stride)
        for number in stream:
            self.tile = number
            self.names.update(self.cluster.tile_names(self.cta, number))
            self.skipped = step.skip_if is not None and bool(self._with(node, step.skip_if))
            yield from self._block(node.body)
        self.tile = None

    # ---- calls -----------------------------------------------------------------------------------------------------

    def _call(self, node: Node) -> Wait:
        step = node.step
        assert isinstance(step, CallStep)
        site = self.site(step)
        began = self.scheduler.now
        cost = self.scheduler.work(self, 0, 0, 0)
        match step.kind:
            case "work":
                work = self.kernel.work(step.target, step.method)
                if work is not None:
                    self._note(site)
                    act = ops.perform(self, work, node, site)
                    cost = self.scheduler.work(self, act.shared, act.tensors, act.instructions)
            case "pipeline" | "group" | "queue":
                yield from pipes.step(self, node, site)
            case "completion":
                yield from self._complete(step, node, site)
            case "barrier":
                yield from self._barrier(step, node, site)
            case "pdl":
                yield from self._pdl(step, site)
        recorder, now = self.scheduler.recorder, self.scheduler.now
        if recorder is not None:
            recorder.step(site, "wait", began, now)
            recorder.step(site, "work", now, now + cost)
        self.cost += cost

    def _note(self, site: Site, stage: int | None = None, phase: int | None = None) -> None:
        self.grid.timeline.add(site, stage, phase)

    def _complete(self, step: CallStep, node: Node, site: Site) -> Wait:
        n = step.args.get("n")
        count = whole_number(self._with(node, n)) if n is not None else 0
        if step.target == "tcgen05":
            pending = self.loads if step.method == "wait_ld" else self.stores
        elif step.target == "bulk":
            if not self.elected:
                return
            pending = self.reads if step.method == "wait_group_read" else self.groups["bulk"]
        else:
            pending = self.groups[step.target]
        wanted = pending[: max(0, len(pending) - count)]
        while not all(o.done for o in wanted):
            self.blocked_at = site
            yield self.progress
        del pending[: len(wanted)]
        self._note(site)

    def _barrier(self, step: CallStep, node: Node, site: Site) -> Wait:
        barrier = self.layout.ctas[self.cta].named[step.target, node.instance]
        phase = barrier.arrive(32, site)
        while step.method != "arrive" and barrier.completed <= phase:
            self.blocked_at = site
            yield barrier
        self._note(site)

    def _pdl(self, step: CallStep, site: Site) -> Wait:
        if step.method == "wait_griddep":
            before = self.grid.before
            while not before.complete:
                self.blocked_at = site
                yield before
            self._note(site)
        else:
            self._note(site)
            self.cluster.launch(self)

    # ---- registers -------------------------------------------------------------------------------------------------

    def work_names(self, work: Work, node: Node) -> dict[str, Value]:
        """What the names in a work mean at one of its calls."""
        step = node.step
        assert isinstance(step, CallStep)
        names = {**self.names, **node.env}
        given = {n: evaluate(a.expr, names, works.StepData(self, names)) for n, a in step.args.items()}
        for name in (*work.takes, *work.static):
            names.pop(name, None)
        names.update(given)
        owner = self.kernel.resources.get(work.owner)
        if owner is not None and owner.each is not None:
            names[owner.each.var] = node.instance
        return names

    def register(self, ref: Ref) -> Cell:
        """The cell of a register field: this warp's part of it."""
        assert ref.resource is not None
        key = (ref.resource, ref.name)
        found = self.registers.get(key)
        if found is None:
            f = self.kernel.resources[ref.resource].fields[ref.name]
            shape = works.part_shape(self, f)
            found = self.registers[key] = self.layout.cell(f"{ref.resource}.{ref.name} of {self.name}", f, shape)
        return found
