"""An independent reference for small schedules: every interleaving, with mbarriers as hardware has them (one bit).

It reads oracle cases (tests/oracle/ts_oracle.py) with tensors, shared buffers, rings, groups, guards, conditions and
tiles, in one CTA. For each environment (trip count, outcomes of conditions, tiles and which of them are
skipped) the tasks are unrolled, and all reachable vectors of program counters are visited. A schedule is bad if

- a state is stuck (`deadlock`),
- a wait passes, or cannot pass any more, although its phase and the barrier's differ by more than the parity shows
  (`phase`), or an arrival is counted for another phase than its own (`phase`),
- two tasks are about to touch the same bytes and one of them writes (`race`),
- the parties of a ring end at different positions (`leak`),
- a work is done on a stage that its task does not hold, or a ring lacks one of its steps (`bracket`),
- members of a group do not fit, or a step stands on the wrong side of it (`group`),
- a try is never used, or its answer reaches a step in some iterations only (`try`),
- a stage is released before the asynchronous work that reads it (`order`),
- a barrier's count is not what arrives in a phase (`count`).

Steps are points: a work is done at once, a TMA load arrives with its commit, except where a task reads the ring without
a wait of its own: there the load is a program of its own, that may be late. It shares no code with `tsgen.verify`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.oracle_case import BLOCKING, RING_STEPS, Case, Doc, Environment, Op, Outcomes, Place, environments

# kind, barrier (or -1), phase it means, arrivals, bytes it touches; `issued`: a program has passed its step
Step = tuple[str, int, int, int, Place]
NOWHERE: Place = ("", 0)

SHARED_FULL = ("fork", "fused_merge")
SHARED_EMPTY = ("merge", "fused_merge")


@dataclass
class Verdict:
    """`good` is None if the search was cut off, or made in a `sample` of the environments, and nothing was found."""

    good: bool | None
    sample: bool = False
    faults: set[str] = field(default_factory=set)
    states: int = 0
    environment: Environment | None = None


@dataclass(frozen=True)
class Program:
    """One task unrolled: its operations, and for each the ring index (position) that it has by then."""

    ops: tuple[Op, ...]
    index: tuple[int, ...]
    warps: int


def judge(case: Doc, most_states: int = 60_000) -> Verdict:
    """The verdict over all environments; `most_states` bounds the states of all together."""
    parsed = Case(case)
    found_all, complete = environments(case)
    verdict = Verdict(True if complete else None, not complete, parsed.structure() | parsed.order(case["graph"]))
    for env in found_all if "group" not in verdict.faults else ():  # else there are no barriers to speak of
        found, states, complete = _search(parsed, env, most_states - verdict.states)
        verdict.states += states
        if found and verdict.environment is None:
            verdict.environment = env
        verdict.faults |= found
        if found:
            break
        if not complete:
            verdict.good, verdict.sample = None, False
            break
    if verdict.faults:
        verdict.good = False
    return verdict


def _search(case: Case, env: Environment, most_states: int) -> tuple[set[str], int, bool]:
    outcomes = Outcomes(env.outcomes)
    calls = [case.unroll(t, env, outcomes) for t in case.tasks]
    programs = [_program(case.ops(c), t.get("warps", 1)) for t, c in zip(case.tasks, calls, strict=True)]
    faults = _brackets(case, programs) | _leaks(case, programs)
    for c in calls:
        faults |= case.tries(c)
    machine = _Machine(case, programs)
    start = (0,) * len(machine.steps)
    seen = {start}
    todo = [start]
    while todo:
        pcs = todo.pop()
        following, found = machine.expand(pcs)
        faults |= found
        if found:
            break
        for after in following:
            if after not in seen:
                seen.add(after)
                todo.append(after)
        if len(seen) > most_states:
            return faults, len(seen), False
    return faults, len(seen), True


def _program(ops: list[Op], warps: int) -> Program:
    counts: dict[Op, int] = {}
    index = []
    for kind, name in ops:
        if kind in ("read", "write"):
            held = counts.get(("wait" if kind == "read" else "acquire", name), 0) - 1
            if held < 0:  # a task that does not wait itself touches the stage that it closes next
                held = counts.get(("release" if kind == "read" else "commit", name), 0)
            index.append(held)
        else:
            index.append(counts.get((kind, name), 0))
            counts[kind, name] = index[-1] + 1
    return Program(tuple(ops), tuple(index), warps)


def _brackets(case: Case, programs: list[Program]) -> set[str]:
    for task, program in zip(case.tasks, programs, strict=True):
        held: dict[Op, int] = {}
        for kind, name in program.ops:
            if name not in case.rings:
                continue
            opening = "acquire" if kind in ("acquire", "commit", "write") else "wait"
            if not case.has(task, name, opening):
                continue
            if kind in BLOCKING:
                held[opening, name] = held.get((opening, name), 0) + 1
            elif held.get((opening, name), 0) < 1:
                return {"bracket"}
            elif kind in ("commit", "release"):
                held[opening, name] -= 1
    return set()


def _leaks(case: Case, programs: list[Program]) -> set[str]:
    """Every party of a ring must end at the same position. A ring may go without a wait: then its readers know from
    another that it is full, or the search finds them racing."""
    for name in case.rings:
        ends = set()
        for method in RING_STEPS:
            parties = [p for t, p in zip(case.tasks, programs, strict=True) if case.has(t, name, method)]
            ends |= {p.ops.count((method, name)) for p in parties}
        if len(ends) > 1:
            return {"leak"}
    return set()


class _Machine:
    """States are vectors of program counters: what has arrived at a barrier follows from them."""

    def __init__(self, case: Case, programs: list[Program]) -> None:
        self.case = case
        self.programs = programs
        self.full: dict[str, int] = {}
        self.empty: dict[str, int] = {}
        self.need: list[int] = []
        for name, ring in case.rings.items():
            group = case.group_of.get(name)
            mode, first = (group.mode, group.members[0]) if group is not None else ("", name)
            full = ring.full
            if group is not None and mode == "fused_merge":
                full = sum(case.rings[m].full for m in group.members)
            shared = mode in SHARED_FULL and name != first
            self.full[name] = self.full[first] if shared else self._barriers(ring.stages, full)
            shared = mode in SHARED_EMPTY and name != first
            self.empty[name] = self.empty[first] if shared else self._barriers(ring.stages, ring.empty)
        self.steps = [[self._step(p, i) for i in range(len(p.ops))] for p in programs]
        for name in (n for n in case.rings if self._taken_on_trust(n)):
            for t, program in enumerate(programs):
                self._engine(t, program, name)
        self.held = [[self._holds(t, p, i) for i in range(len(p.ops))] for t, p in enumerate(programs)]
        self.held += [[None] * len(steps) for steps in self.steps[len(programs) :]]
        self.arrived = [self._prefixes(steps, len(self.need)) for steps in self.steps]

    def _barriers(self, stages: int, need: int) -> int:
        self.need += [need] * stages
        return len(self.need) - stages

    def _step(self, program: Program, i: int) -> Step:
        kind, name = program.ops[i]
        n = program.index[i]
        ring = self.case.rings.get(name)
        if kind in ("read", "write"):
            return kind, -1, 0, 0, (name, n % ring.stages if ring is not None else 0)
        assert ring is not None
        if self.case.follows(kind, name):
            return "follow", -1, 0, 0, NOWHERE
        side = self.empty if kind in ("acquire", "release") else self.full
        units = self.case.units((kind, name), program.warps) if kind in ("commit", "release") else 0
        return kind, side[name] + n % ring.stages, n // ring.stages, units, NOWHERE

    def _holds(self, t: int, program: Program, i: int) -> tuple[int, int] | None:
        """A barrier, and how many of its phases must be complete by then: the stage must be full where a task reads or
        releases it without a wait of its own, empty where one fills or commits it without acquiring it."""
        kind, name = program.ops[i]
        ring = self.case.rings.get(name)
        opening = "wait" if kind in ("read", "release") else "acquire"
        if ring is None or kind in BLOCKING or self.case.has(self.case.tasks[t], name, opening):
            return None
        side, lead = (self.full, 1) if opening == "wait" else (self.empty, 0)
        n = program.index[i]
        return side[name] + n % ring.stages, n // ring.stages + lead

    def _taken_on_trust(self, name: str) -> bool:
        """Whether a task reads a ring that an engine fills before it waits for one that shares its full barrier."""
        if self.case.kinds[name].startswith("async"):
            return False
        same = {n for n in self.case.rings if self.full[n] == self.full[name]}
        return any(
            op == ("read", name) and all(p.ops[:i].count(("wait", other)) <= p.index[i] for other in same)
            for p in self.programs
            for i, op in enumerate(p.ops)
        )

    def _engine(self, t: int, program: Program, name: str) -> None:
        """Takes the writes and arrivals of a task's commits on a ring out of the task: they come some time later."""
        mine = self.steps[t]
        steps: list[Step] = []
        for i, op in enumerate(program.ops):
            if op == ("write", name):
                mine[i] = ("follow", -1, 0, 0, NOWHERE)
            elif op == ("commit", name):
                place = (name, program.index[i] % self.case.rings[name].stages)
                steps += [("issued", t, i, 0, NOWHERE), ("write", -1, 0, 0, place), mine[i]]
                mine[i] = ("follow", -1, 0, 0, NOWHERE)
        if steps:
            self.steps.append(steps)

    def _overlap(self, a: Place, b: Place) -> bool:
        """The same stage, or bytes of another phase of an alias group (whose members are taken to overlap wholly)."""
        if a[0] == b[0]:
            return a[1] == b[1]
        one, other = self.case.aliases.get(a[0]), self.case.aliases.get(b[0])
        return one is not None and other is not None and one[0] == other[0] and one[1] != other[1]

    def _prefixes(self, steps: list[Step], barriers: int) -> list[tuple[int, ...]]:
        now = [0] * barriers
        found = [tuple(now)]
        for _, barrier, _, units, _ in steps:
            if units:
                now[barrier] += units
            found.append(tuple(now))
        return found

    def phases(self, pcs: tuple[int, ...], barrier: int) -> int:
        """Phases that a barrier has completed."""
        total = sum(a[pc][barrier] for a, pc in zip(self.arrived, pcs, strict=True))
        return total // self.need[barrier] if self.need[barrier] > 0 else 0

    def expand(self, pcs: tuple[int, ...]) -> tuple[list[tuple[int, ...]], set[str]]:
        """The states that follow, and what is wrong in this one."""
        following: list[tuple[int, ...]] = []
        faults: set[str] = set()
        touched: list[tuple[str, Place]] = []
        finished = True
        for t, pc in enumerate(pcs):
            if pc == len(self.steps[t]):
                continue
            finished = False
            kind, barrier, phase, units, place = self.steps[t][pc]
            held = self.held[t][pc]
            if held is not None and self.phases(pcs, held[0]) < held[1]:
                faults.add("bracket")
            if barrier < 0 and place != NOWHERE:
                if any("write" in (kind, other) and self._overlap(place, at) for other, at in touched):
                    faults.add("race")
                touched.append((kind, place))
            elif kind == "issued":
                if pcs[barrier] <= phase:
                    continue
            elif barrier < 0:
                pass  # the step of the group's first member does it, or an engine
            elif units:
                if self.phases(pcs, barrier) != phase:
                    faults.add("phase")
            else:
                done = self.phases(pcs, barrier)
                wanted = phase if kind == "acquire" else phase + 1
                passes = (done & 1) == (wanted & 1)
                if done != wanted and (passes or done > wanted):
                    faults.add("phase")
                if not passes:
                    continue
            following.append((*pcs[:t], pc + 1, *pcs[t + 1 :]))
        if not following and not finished:
            faults.add("deadlock")
        return following, faults
