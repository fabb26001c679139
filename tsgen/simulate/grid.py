"""Launches: the grid of one kernel, cluster by cluster, and the kernels of a chain one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.model.expr import Expr, Ref, text
from tsgen.model.kernel import Kernel
from tsgen.model.steps import CallStep
from tsgen.runtime.errors import CannotRun
from tsgen.simulate.barriers import Signal
from tsgen.simulate.expressions import NoData, evaluate
from tsgen.simulate.faults import Fault, Site
from tsgen.simulate.gmem import Tensor
from tsgen.simulate.layout import Layout, all_cells
from tsgen.simulate.memory import Array, whole
from tsgen.simulate.scheduler import Operation, Scheduler
from tsgen.simulate.tiles import TileSpace
from tsgen.simulate.timeline import Timeline
from tsgen.simulate.warp import Site as Step
from tsgen.simulate.warp import Warp
from tsgen.simulate.windows import At, Value, is_element, whole_number, window

if TYPE_CHECKING:
    from tsgen.diagnostics import Span

MOST_STOLEN = 3  # tiles that a cluster gets from the CLC after its own, at most; a seed may choose fewer


class Before(Signal):
    """The grid that was launched before: a kernel of the chain, or one that nobody knows."""

    __slots__ = ("complete", "marks")

    def __init__(self, complete: bool) -> None:
        super().__init__()
        self.complete = complete
        self.marks = ("task the grid before",)

    def take_cost(self) -> float:
        return 0.0

    def move(self) -> None:
        self.complete = True
        self.fire()


class _Host:
    """The host function, as somebody who reads tensors."""

    warp = None

    def __init__(self, span: Span) -> None:
        self.span = span

    def __str__(self) -> str:
        return "a bound or a `let` value"


class Grid:
    """One launch of a kernel. `memory` and `scalars` are the arguments; `sms` multiprocessors take its clusters."""

    def __init__(
        self,
        kernel: Kernel,
        derived: Derived,
        uses: Uses,
        scheduler: Scheduler,
        memory: Mapping[str, Tensor],
        values: Mapping[str, Value],
        sms: int,
        timeline: Timeline,
    ) -> None:
        self.kernel = kernel
        self.derived = derived
        self.uses = uses
        self.scheduler = scheduler
        self.memory = memory
        self.timeline = timeline
        self.host = _Host(kernel.launch.span)
        pdl = {r.name for r in kernel.resources.values() if r.kind == "pdl"}
        self.after_before = {e.downstream for e in kernel.graph if e.upstream in pdl}
        self.before = Before(True)
        self.complete = Before(False)
        self.launched = Signal()
        self.names: dict[str, Value] = {"sms": sms, "inf": float("inf"), **kernel.env, **values}
        for let in kernel.launch.lets:
            if let.time in ("compile", "launch"):
                self.names[let.name] = self.number(let.value, self.names)
        extents = {a.name: whole_number(self.number(a.extent, self.names)) for a in kernel.launch.axes}
        self.space = TileSpace(kernel, extents)
        size = int(np.prod([a.cluster for a in kernel.launch.axes], dtype=int)) if kernel.launch.axes else 1
        self.clusters = self.space.total
        self.queue = self.space.queue
        if self.queue is not None and self.queue.scheduler == "static_persistent":
            self.clusters = min(max(1, sms // size), self.space.total)
        self.waiting = list(range(self.clusters))
        self.now: Cluster | None = None
        self.all: list[Cluster] = []

    # ---- values ----------------------------------------------------------------------------------------------------

    def number(self, e: Expr, names: Mapping[str, Value]) -> Value:
        return evaluate(e, names, _HostData(self, names))

    def tensor(self, name: str) -> Tensor:
        return self.memory[name]

    def touch(self, name: str, site: Site) -> Tensor:
        """A tensor that is read or written now. Raises Fault if the grid before may still use it."""
        if name in self.after_before and not self.before.complete:
            raise Fault(
                "order",
                f"{site} touches {name}, and the kernel before this one may still do: `wait_griddep` has not passed",
                ("touches it", site),
            )
        return self.memory[name]

    def gather(self, name: str, at: tuple[At, ...], site: Site | None) -> Value:
        index: list[int | Array] = [a for a in at if isinstance(a, int | np.ndarray)]
        tensor = self.memory[name] if site is None else self.touch(name, site)
        return tensor.gather(index, self.host if site is None else site)

    # ---- life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Runs the first cluster; each that ends makes room for the next."""
        self._next()

    def _next(self) -> None:
        if self.waiting:
            self.now = Cluster(self, self.waiting.pop(0))
            self.all.append(self.now)
            self.now.start()
            return
        self.complete.move()
        self.launched.fire()

    def ended(self, cluster: Cluster) -> None:
        self._next()

    @property
    def lets_next_start(self) -> bool:
        return not self.waiting and (self.now is None or self.now.launched or self.complete.complete)

    def cancel(self) -> int | None:
        """A tile of a cluster that has not started, for one that asks the CLC."""
        return self.waiting.pop(0) if self.waiting else None


class _HostData(NoData):
    def __init__(self, grid: Grid, names: Mapping[str, Value]) -> None:
        self.grid = grid
        self.names = names

    def value(self, ref: Ref) -> Value:
        if ref.resource is None:
            at = window(ref, self.grid.tensor(ref.name).shape, lambda e: evaluate(e, self.names, self))
            if is_element(at):
                return self.grid.gather(ref.name, at, None)
        raise CannotRun(f"`{text(ref)}` has no value on the host")

    def extent(self, axis: str) -> int:
        return self.grid.space.extents[axis]


class Cluster:
    """CTAs that run together: their memory, barriers and warps."""

    def __init__(self, grid: Grid, index: int) -> None:
        self.grid = grid
        self.index = index
        self.layout = Layout(grid.kernel, grid.derived, grid.uses)
        self.launching = {c.rank for c in self.layout.ctas}  # CTAs that have not let the next grid start
        self.flying = 0  # operations of engines
        self.stolen = 0
        self.may_steal = grid.scheduler.random.randrange(MOST_STOLEN + 1)
        self._names: dict[int, dict[str, Value]] = {}
        self.warps: list[Warp] = []
        for cta in self.layout.ctas:
            for task, instance in grid.kernel.instances():
                if isinstance(task.cta, int) and task.cta != cta.rank and len(self.layout.ctas) > 1:
                    continue
                if task.cta == "leader" and self.layout.paired and cta.rank % 2:
                    continue
                for warp in range(instance.num_warps):
                    self.warps.append(Warp(self, cta.rank, task, instance, warp))
                    cta.running += 1
        self.next_tile: dict[int, int | None] = {}

    @property
    def launched(self) -> bool:
        return not self.launching

    def start(self) -> None:
        for warp in self.warps:
            self.grid.scheduler.add(warp)
        if not self.warps:
            self.grid.ended(self)

    # ---- names -----------------------------------------------------------------------------------------------------

    def names(self, cta: int) -> dict[str, Value]:
        """What is known before any tile: without a queue, the CTA's own tile."""
        if self.grid.queue is not None:
            return dict(self.grid.names)
        return {**self.grid.names, **self.tile_names(cta, self.index)}

    def tile_names(self, cta: int, number: int) -> dict[str, Value]:
        """The axes and `let` values of a CTA's tile."""
        key = number * len(self.layout.ctas) + cta
        found = self._names.get(key)
        if found is None:
            found = dict(self.grid.space.of_cta(number, self.layout.ctas[cta].coordinates))
            names = {**self.grid.names, **found}
            for let in self.grid.kernel.launch.lets:
                if let.time not in ("compile", "launch"):
                    found[let.name] = names[let.name] = self.grid.number(let.value, names)
            self._names[key] = found
        return found

    # ---- tiles -----------------------------------------------------------------------------------------------------

    def tiles(self, w: Warp, queue: str, first: int, stride: int) -> Iterator[int]:
        """The tiles that a warp takes: every so many-th of its cluster's."""
        q = self.grid.kernel.resources[queue].queue
        assert q is not None
        if q.scheduler == "static_persistent":
            return islice(self.grid.space.static(self.index, self.grid.clusters), first, None, stride)
        return islice(self._dynamic(w), first, None, stride)

    def _dynamic(self, w: Warp) -> Iterator[int]:
        number: int | None = self.index
        while number is not None:
            yield number
            number = self.next_tile.pop(id(w), None)

    def queue_work(self, w: Warp, call: CallStep, site: Step) -> None:
        """`fetch_work_tile` asks the hardware for a tile, `get_and_advance_work_tile` takes the answer."""
        key = (call.target, 0)
        ring = self.layout.rings.get(key)
        if ring is None:
            return  # a static queue counts
        fetch = call.method == "fetch_work_tile"
        if fetch and not w.elected:
            return
        position = w.positions.work(key, producer=fetch)
        stage, phase = position % ring.stages, position // ring.stages
        cells = [c.cells[call.target, 0, "response"][stage] for c in self.layout.ctas]
        if not fetch:
            answer = int(cells[w.cta].read(whole((1,)), site)[0])
            self.next_tile[id(w)] = answer if answer >= 0 else None
            return
        accesses = [cell.open(whole((1,)), True, site, "CLC", None, reads=False) for cell in cells]

        def finish() -> None:
            tile = self.grid.cancel() if self.stolen < self.may_steal else None
            self.stolen += 1
            for cell, access, barriers in zip(cells, accesses, ring.full, strict=True):
                cell.close(access, np.array([-1 if tile is None else tile]))
                barriers[stage].complete(16, phase, site)

        self.grid.scheduler.issue(Operation(self.grid.scheduler, "CLC", w.cta, site, finish))

    # ---- ends ------------------------------------------------------------------------------------------------------

    def launch(self, w: Warp) -> None:
        """A CTA lets the next grid start."""
        self.launching.discard(w.cta)
        if self.grid.lets_next_start:
            self.grid.launched.fire()

    def warp_ended(self, w: Warp) -> None:
        cta = self.layout.ctas[w.cta]
        cta.running -= 1
        if not cta.running:
            for cell in all_cells(self.layout, w.cta):
                cell.lost()
            self.launching.discard(w.cta)
        self._check()

    def operation_ended(self) -> None:
        self.flying -= 1
        self._check()

    def _check(self) -> None:
        if not self.flying and all(w.ended for w in self.warps):
            self.grid.ended(self)
