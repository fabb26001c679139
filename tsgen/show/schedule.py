"""The schedule table: a column for each task, sections as in TS (Head, Loop, Tail), a ring position for each step.

A wait stands in the row of the commit that it waits for, where both lie in one section.
"""

from __future__ import annotations

from tsgen.derive.model import Derived
from tsgen.model.expr import text
from tsgen.model.kernel import Kernel, Task
from tsgen.model.steps import CallStep, DomainLoop, Guard, Skippable, StaticFor, StaticIf, Step, TileLoop, When
from tsgen.show.alignment import align
from tsgen.show.positions import Positions, branch, movement, ring, trips
from tsgen.show.table import AFTER, BEFORE, GUARDS, HEAD, LOOP, TAIL, Cell, Column, ScheduleTable

_ABBREVIATIONS = {
    "try_acquire": "ProdTrA",
    "acquire": "ProdAcq<-",
    "commit": "ProdCmt->",
    "try_wait": "ConsTrW",
    "wait": "->ConsWai",
    "release": "<-ConsRel",
}
_GUARD_OF = {name: letter for letter, name in GUARDS.items()}


def schedule_table(kernel: Kernel, derived: Derived) -> ScheduleTable:
    """The table of a kernel."""
    del derived
    columns = tuple(_column(kernel, task) for task in kernel.tasks)
    rings = [(r.name, r.pipeline.type, r.pipeline.num_stages) for r in kernel.resources.values() if r.pipeline]
    rings += [(g.name, g.pipeline.type, g.pipeline.num_stages) for g in kernel.groups.values() if g.pipeline]
    return ScheduleTable(kernel.name, kernel.target, kernel.variant, columns, align(columns), tuple(rings))


def stage_counts(kernel: Kernel) -> dict[str, int]:
    """Stages by ring: pipelined resources, and groups by their own pipeline or that of their members."""
    stages = {r.name: r.pipeline.num_stages for r in kernel.resources.values() if r.pipeline}
    for g in kernel.groups.values():
        own = g.pipeline.num_stages if g.pipeline else None
        stages[g.name] = own or next((stages[m] for m in g.members if m in stages), 1)
    return stages


class _Walk:
    """Turns the steps of one task into cells."""

    def __init__(self, kernel: Kernel, task: Task) -> None:
        self.kernel = kernel
        self.stages = stage_counts(kernel)
        self.positions = Positions(kernel.env)
        self.cells: list[Cell] = []
        self.loop = ""
        self.tiled = any(isinstance(s, TileLoop) for s in task.schedule.steps)
        self.section: int | None = BEFORE if self.tiled else self._inside(task.schedule.steps)
        self.steps(task.schedule.steps, "", 0)

    @staticmethod
    def _inside(steps: tuple[Step, ...]) -> int | None:
        return HEAD if any(_has_loop(s) for s in steps) else None

    def steps(self, steps: tuple[Step, ...], guards: str, depth: int) -> None:
        for s in steps:
            self.step(s, guards, depth)

    def step(self, s: Step, guards: str, depth: int) -> None:
        env, p = self.kernel.env, self.positions
        match s:
            case CallStep():
                self.call(s, guards, depth)
            case TileLoop():
                self.section = self._inside(s.body)
                self.steps(s.body, guards, depth)
                p.forget([k for k, amount in movement(s.body, env).items() if amount.constant or amount.terms])
                self.section = AFTER
            case DomainLoop():
                self.domain_loop(s, guards, depth)
            case Skippable():
                self.steps(s.body, guards + "S", depth)
            case Guard() | When():
                letter = _GUARD_OF[s.kind] if isinstance(s, Guard) else "I"
                self.steps(s.body, guards + letter, depth)
                p.forget(movement(s.body, env))
            case StaticFor():
                self.static_for(s, guards, depth)
            case StaticIf():
                self.static_if(s, guards, depth)

    def domain_loop(self, s: DomainLoop, guards: str, depth: int) -> None:
        env = self.kernel.env
        start, end, step = (text(p.expr) for p in (s.start, s.end, s.step))
        bounds = [*([start] if (start, step) != ("0", "1") else []), end, *([step] if step != "1" else [])]
        self.loop = f"{s.var} in range({', '.join(bounds)})"
        count, delta = trips(s, env), movement(s.body, env)
        outer = dict(self.positions.at)
        self.positions.add(delta, "i")
        self.section = LOOP
        self.steps(s.body, guards, depth)
        self.positions = Positions(env, outer)
        self.positions.add(delta, count)
        self.section = TAIL

    def static_for(self, s: StaticFor, guards: str, depth: int) -> None:
        env = self.kernel.env
        counted = s.values == tuple(range(len(s.values)))
        written = f"range({len(s.values)})" if counted else ", ".join(map(str, s.values))
        self.header(f"for {s.var} in {written}:", s.span.line, guards, depth)
        delta = movement(s.body, env)
        outer = dict(self.positions.at)
        self.positions.add(delta, s.var)
        if not counted:
            self.positions.forget(delta)
        self.steps(s.body, guards, depth + 1)
        self.positions = Positions(env, outer)
        self.positions.add(delta, len(s.values))

    def static_if(self, s: StaticIf, guards: str, depth: int) -> None:
        env = self.kernel.env
        taken = branch(s, env)
        if taken is not None:
            self.steps(taken, guards, depth)
            return
        outer = dict(self.positions.at)
        self.header(f"if {text(s.condition.expr)}:", s.span.line, guards, depth)
        self.steps(s.body, guards, depth + 1)
        if s.orelse:
            self.positions = Positions(env, outer)
            self.header("else:", s.span.line, guards, depth)
            self.steps(s.orelse, guards, depth + 1)
        self.positions = Positions(env, outer)
        self.positions.add(movement((s,), env))

    def header(self, words: str, line: int, guards: str, depth: int) -> None:
        self.cells.append(Cell(self.section, words, "", "", guards, "", depth, line, words, False))

    def call(self, s: CallStep, guards: str, depth: int) -> None:
        target, position = ring(s), ""
        sync = None
        if s.kind in ("pipeline", "group") and s.method != "skip":
            position = self.positions.of(s).show(self.stages.get(s.target, 1))
            sync = (target, s.method)
        self.positions.move(s)
        action, detail = self.words(s)
        self.cells.append(
            Cell(self.section, target, action, detail, guards, position, depth, s.span.line, s.text, s.derived, sync)
        )

    def words(self, s: CallStep) -> tuple[str, str]:
        """TS's abbreviation of a step and what follows it."""
        if s.kind in ("pipeline", "group", "queue") and s.method in _ABBREVIATIONS:
            return _ABBREVIATIONS[s.method], ""
        arguments = ", ".join(text(p.expr) if name == "n" else f"{name}={text(p.expr)}" for name, p in s.args.items())
        detail = f"({arguments})" if arguments else ""
        work = self.kernel.work(s.target, s.method) if s.kind == "work" else None
        if work is not None:
            side = "Prod" if work.role == "producer" else "Cons"
            return side + ("Aux" if work.auxiliary else "Wrk"), s.method + detail
        if s.kind == "queue":
            return "ConsWrk", s.method
        return s.method, detail


def _has_loop(s: Step) -> bool:
    if isinstance(s, DomainLoop):
        return True
    return not isinstance(s, CallStep | TileLoop) and any(_has_loop(b) for b in s.body)


def _column(kernel: Kernel, task: Task) -> Column:
    walk = _Walk(kernel, task)
    warps = tuple((i.first_warp, i.first_warp + i.num_warps - 1) for i in task.instances)
    return Column(task.name, warps, walk.loop, tuple(walk.cells))
