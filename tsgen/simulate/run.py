"""`tsgen simulate`: a spec under many schedules, compared with its `reference`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

import numpy as np

from tsgen.derive.model import Derived
from tsgen.derive.uses import uses
from tsgen.diagnostics import Span
from tsgen.model.chain import whole as chain_as_one
from tsgen.model.kernel import Kernel, Program
from tsgen.runtime.arrays import NumpyArrays
from tsgen.runtime.buffers import make_input
from tsgen.runtime.compare import Comparison, compare
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.functions import Value
from tsgen.runtime.problem import Problem, make_problem
from tsgen.runtime.run import expected, reference_of
from tsgen.simulate.faults import MEANING, Fault, FaultKind
from tsgen.simulate.gmem import Tensor
from tsgen.simulate.grid import Before, Grid
from tsgen.simulate.latency import COSTS, Clock
from tsgen.simulate.memory import Array
from tsgen.simulate.scheduler import Scheduler
from tsgen.simulate.timeline import Timeline
from tsgen.simulate.trace import Recorder
from tsgen.simulate.warp import Warp

MOVES = 20_000_000  # of one run: more than any shape that is worth simulating takes
ELEMENTS = 2**27  # of all tensors, likewise; with the reference they take some GiB
Kernels = tuple[tuple[Kernel, Derived], ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What went wrong in a run, with the steps that it is about and what the warps did last."""

    kind: FaultKind
    message: str
    places: tuple[tuple[str, Span], ...]
    timeline: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} ({MEANING[self.kind]}): {self.message}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One shape under one schedule."""

    problem: Problem
    seed: int
    policy: str
    moves: int
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)  # by output
    finding: Finding | None = None
    outputs: Mapping[str, Array] = field(default_factory=dict)  # what the kernel wrote, float32 or int64

    @property
    def ok(self) -> bool:
        return self.finding is None and all(c.ok for c in self.comparisons.values())

    def __str__(self) -> str:
        parts = [f"{name}: {c}" for name, c in self.comparisons.items()]
        if self.finding is not None:
            parts.append(str(self.finding))
        schedule = f"{self.problem.label}, seed {self.seed} ({self.policy})"
        return f"{'ok  ' if self.ok else 'FAIL'} {schedule}: {'; '.join(parts)}"


def simulate(
    program: Program, kernels: Kernels, dims: Mapping[str, int], seed: int, recorder: Recorder | None = None
) -> Outcome:
    """Runs one shape under the schedule of a seed, which also draws the inputs; with a recorder, in modelled time."""
    kernel = chain_as_one(program)
    problem = make_problem(kernel, dims)
    if problem.size > ELEMENTS:
        raise CannotRun(
            f"{problem.label}: {problem.size:,} elements in all tensors, more than the {ELEMENTS:,} of the simulator",
            "take smaller dims; what a kernel does at their edges is to be seen with a few tiles",
        )
    xp = NumpyArrays(seed)
    arguments = inputs(problem, xp, seed)
    wanted = expected(problem, arguments, xp)
    scheduler = Scheduler(seed) if recorder is None else Clock(seed, COSTS[kernels[0][0].target], recorder)
    timeline = Timeline()
    memory: dict[str, Tensor] = {}
    values: dict[str, Value] = dict(problem.dims)
    for name, t in problem.tensors.items():
        given = arguments.get(name)
        if t.shape or not isinstance(given, int | float):
            data = None if t.tensor.output or given is None else np.asarray(xp.value(xp.array(given)))  # type: ignore[arg-type]
            memory[name] = Tensor(name, t.shape, t.dtype, data)
        else:
            values[name] = given
    grids = _grids(kernels, scheduler, memory, values, timeline)
    finding = _run(grids, scheduler, timeline)
    if finding is not None:
        return Outcome(problem, seed, scheduler.policy, scheduler.moves, {}, finding)
    reference = reference_of(kernel)
    comparisons = {
        name: compare(xp, memory[name].data, want, problem.tensors[name].dtype, reference.rtol, reference.atol)  # type: ignore[arg-type]
        for name, want in wanted.items()
    }
    outputs = {name: memory[name].data for name, t in problem.tensors.items() if t.tensor.output}
    return Outcome(problem, seed, scheduler.policy, scheduler.moves, comparisons, None, outputs)


def inputs(problem: Problem, xp: NumpyArrays, seed: int) -> dict[str, Value]:
    """The tensors that a caller gives: by `reference.inputs`, by defaults, or random."""
    found: dict[str, Value] = {}
    random = Random(seed)
    for name, tensor in problem.kernel.tensors.items():
        if not tensor.present:
            found[name] = None
        elif not tensor.output:
            found[name] = make_input(problem, problem.tensors[name], found, xp, random)
    return found


def _grids(
    kernels: Kernels,
    scheduler: Scheduler,
    memory: Mapping[str, Tensor],
    values: Mapping[str, Value],
    timeline: Timeline,
) -> list[Grid]:
    waves = 1 if scheduler.recorder is not None else 1 + scheduler.random.randrange(3)  # clusters of persistent grids
    made: list[Grid] = []
    for kernel, derived in kernels:
        size = int(np.prod([a.cluster for a in kernel.launch.axes], dtype=int)) if kernel.launch.axes else 1
        grid = Grid(kernel, derived, uses(kernel), scheduler, memory, values, waves * size, timeline)
        if made:
            grid.before = made[-1].complete
        elif kernel.launch.pdl:
            grid.before = Before(False)
        made.append(grid)
    return made


def _run(grids: list[Grid], scheduler: Scheduler, timeline: Timeline) -> Finding | None:
    try:
        if grids and not grids[0].before.complete:
            scheduler.add(grids[0].before)
        for before, grid in zip([None, *grids], grids, strict=False):
            if before is None:
                grid.start()
            else:
                _start_after(before, grid)
        ended = scheduler.run(MOVES)
    except Fault as fault:
        places = tuple((text, who.span) for text, who in fault.places)
        return Finding(fault.kind, fault.message, places, timeline.table(fault.warps, ()))
    blocked = [w for g in grids for c in g.all for w in c.warps if not w.ended]
    if blocked or not ended:
        return _hang(blocked, timeline)
    return None


def _start_after(before: Grid, grid: Grid) -> None:
    """With a dependent launch when all CTAs of the kernel before have allowed it or ended, else after that kernel."""

    def try_again() -> None:
        if before.lets_next_start if grid.kernel.launch.pdl else before.complete.complete:
            grid.start()
        else:
            signal.waiting.append(try_again)

    signal = before.launched if grid.kernel.launch.pdl else before.complete
    signal.waiting.append(try_again)


def _hang(blocked: list[Warp], timeline: Timeline) -> Finding:
    waits: dict[tuple[str, str, str], list[Warp]] = {}  # by step, task and reason
    places: dict[Span, str] = {}
    for w in blocked:
        if w.blocked_at is not None:
            waits.setdefault((w.blocked_at.what, w.whole_task, w.waits_for), []).append(w)
            places.setdefault(w.blocked_at.span, "waits here")
    lines = []
    for (what, task, reason), warps in waits.items():
        who = warps[0].name if len(warps) == 1 else task
        lines.append(f"{what.format(who)} waits for {reason}")
    shown = lines[:6]
    more = f"; and {len(lines) - len(shown)} more" if len(lines) > len(shown) else ""
    one_of_each: dict[tuple[str, int], Warp] = {}
    for w in blocked:
        one_of_each.setdefault((w.task_name, w.cta), w)
    table = timeline.table(one_of_each.values(), blocked)
    return Finding("hang", "; ".join(shown) + more, tuple((m, s) for s, m in places.items()), table)


def run(
    program: Program,
    kernels: Kernels,
    shapes: Iterable[Mapping[str, int]],
    seeds: Iterable[int],
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Every shape under every seed; a shape's first failure is its last run."""
    seeds = list(seeds)
    outcomes = []
    for dims in shapes:
        for seed in seeds:
            outcome = simulate(program, kernels, dims, seed)
            outcomes.append(outcome)
            report(outcome)
            if not outcome.ok:
                break
    return outcomes
