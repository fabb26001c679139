"""All choices of the environment: trip counts, tile counts, outcomes. One run between two choices decides everything
else.

States that were seen before are not followed again (`tsgen.verify.shape`, `tsgen.verify.knowledge`). When nothing new
is left, every number of trips and tiles and every sequence of outcomes has been covered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import lcm

from tsgen.verify.knowledge import Knowledge, Memory
from tsgen.verify.leaving import in_flight
from tsgen.verify.machine import EVERY, GUARD, LOOP, System
from tsgen.verify.parts import balances
from tsgen.verify.passing import PASSED_OVER
from tsgen.verify.questions import comparisons
from tsgen.verify.run import MAX_STEPS, Runner
from tsgen.verify.shape import Key, Shapes
from tsgen.verify.state import Decision, Problem, State

MAX_STATES = 40_000  # some 20 seconds
DEEP = 48
ATTEMPTS = 8
WRONG = ("unwritten", PASSED_OVER)  # remarks that are errors


@dataclass
class Verdict:
    """`problem` is None if nothing is wrong; else `state` is where it is. `closed`: no state was left out. `cut`: the
    exploration was given up; not closed and not cut, it covers every unknown up to `bound`. `remarks`: what deserves a
    warning, the first of each kind."""

    problem: Problem | None
    state: State | None
    states: int
    steps: int
    closed: bool = True
    cut: bool = False
    remarks: tuple[tuple[Problem, State], ...] = ()
    fixed: Mapping[int, int] = field(default_factory=dict)  # unknowns that had one value in all tiles
    floors: Mapping[int, int] = field(default_factory=dict)  # least values of others
    witness: Mapping[int, int] = field(default_factory=dict)  # of related unknowns, at once
    system: System | None = None  # if it is not that of the kernel, but the finer one
    doubt: frozenset[int] = frozenset()  # unknowns that kept states from coming back, or had values that cannot be


def explore(
    system: System,
    agents: list[int],
    fixed: dict[int, int],
    limit: int = MAX_STATES,
    widen: bool = True,
    floors: Mapping[int, int] | None = None,
    part: bool = True,
    allowed: Callable[[State], bool] | None = None,
) -> Verdict:
    """Follows all choices, cheapest first, so that the first problem found has the fewest trips and tiles.

    `fixed` unknowns have one value in all tiles, others are at least what `floors` says. With `part`, a large value
    is another one for those who begin to count later (`Shapes.part`). Choices that lead to a state that is not
    `allowed` are left out. With `widen`, states of one shape are merged into one that knows only what all of them know.
    Less knowledge can only make more things wrong: no problem there is none anywhere. A problem after a merge may be
    one of the merge, so it is looked for again with the shapes on the way to it kept apart.
    """
    apart: set[Key] = set()
    states = steps = 0
    for attempt in range(ATTEMPTS + 1):
        merge = widen and attempt < ATTEMPTS
        runner = Runner(system, agents, fixed, floors)
        shapes = Shapes(system, agents, runner, enough(system, agents) if part else None)
        verdict, blame = _explore(runner, shapes, limit, apart if merge else None, allowed)
        states += verdict.states
        steps += verdict.steps
        if not blame:
            break
        apart |= blame
    verdict.states, verdict.steps = states, steps
    verdict.fixed, verdict.floors = fixed, floors or {}
    return verdict


def _explore(
    runner: Runner, shapes: Shapes, limit: int, apart: set[Key] | None, allowed: Callable[[State], bool] | None
) -> tuple[Verdict, frozenset[Key]]:
    """One exploration; shapes in `apart` (None: all) are not merged. A problem comes with the merges on the way."""
    system, agents = runner.system, runner.agents
    knowledge = Knowledge(system, agents, shapes)
    seen: dict[Hashable, Memory] = {}
    queue: deque[State] = deque([State(system)])
    states, closed, deepest = 0, True, bound(system, agents)
    remarks: dict[str, tuple[Problem, State]] = {}
    far: set[int] = set()  # unknowns with values that were not tried

    def end(cut: bool = False) -> tuple[Verdict, frozenset[Key]]:
        """Nothing orders or blocks wrongly; then reads of what nobody wrote are what is wrong."""
        kind = next((k for k in WRONG if k in remarks), "")
        problem, state = remarks.pop(kind, (None, None))
        left = tuple(remarks.values())
        done = closed and not cut
        return Verdict(problem, state, states, runner.steps, done, cut, left, doubt=frozenset(far)), frozenset()

    while queue:
        st = queue.popleft()
        problem, needs = runner.run(st)
        states += 1
        if problem is None and runner.steps >= MAX_STEPS:
            return Verdict(None, None, states, runner.steps, False, True, doubt=_growing(st)), frozenset()
        for kind in runner.remarks.keys() - remarks.keys():
            remarks[kind] = (runner.remarks[kind], st.copy())
        if problem is None and not needs:
            problem = finish(system, agents, st)
        if problem is not None:
            return Verdict(problem, st, states, runner.steps, closed), st.merges
        if not needs:
            continue
        if states > limit:
            far |= _growing(st)
            return end(cut=True)
        shapes.forget(st)
        knowledge.settle(st)
        shape = shapes.shape(st)
        # what is still allowed depends on the iteration, which a shape does not tell
        memory = seen.setdefault(shape if allowed is None else (shape, tuple(st.iteration), tuple(st.tile)), Memory())
        merged = knowledge.compare(st, memory, apart is not None and shape not in apart)
        if merged is None:
            continue
        if merged:
            st.merges |= {shape}
        for new in choices(runner, st, first_need(needs)):
            if allowed is not None and not allowed(new):
                continue
            if new.cost == st.cost:
                queue.appendleft(new)
            elif all(low - runner.least(d.what) <= deepest or d.what in runner.turns for d, low in new.low.items()):
                queue.append(new)
            else:
                closed = False
                far |= {d.what for d in new.low}
    return end()


def _growing(st: State) -> frozenset[int]:
    """The unknowns that a state counts, or has counted."""
    return frozenset(d.what for d in (*st.low, *st.exact))


def bound(system: System, agents: list[int]) -> int:
    """Values above the least that are tried where states do not come back: at least `DEEP`, and `enough`; more by all
    that a condition or a bound counts to, by the iterations after which windows repeat, and by what the periods of all
    guards and windows have in common. What does not come back by then is not proven."""
    periods = {1, *(system.agents[a].period for a in agents)}
    periods |= {p for a in agents for kind, p, _ in system.agents[a].guards if kind == EVERY}
    together = lcm(*periods)
    settle = max((system.agents[a].settle for a in agents), default=0)
    return max(enough(system, agents), DEEP) + literals(system, agents) + settle + (2 * together if together > 1 else 0)


def literals(system: System, agents: list[int]) -> int:
    """The most that a condition, a guard or a bound counts to before it looks at anything else."""
    found = 0
    for a in agents:
        agent = system.agents[a]
        tests = [system.conditions[c].test for c in {*agent.asks, *agent.skips}]
        forms = [(t.form, t.loop) for test in tests if test is not None for t in comparisons(test)]
        forms += [(part, ins[2]) for ins in agent.code if ins[0] == LOOP for part in ins[1].parts]
        for form, loop in forms:
            factors = [abs(c) for c in (loop, *(c for _, c in form.terms)) if c] if form is not None else []
            if form is not None and factors:
                found = max(found, abs(form.const) // min(factors) + 1)
        found = max([found, *(start for kind, _, start in agent.guards if kind == EVERY)])
    return found


def enough(system: System, agents: list[int]) -> int:
    """max(2 S + 1, p (ΣS + 2)) trips, p the longest period + start of an `every`: all rings have gone round twice."""
    stages = [r.stages for r in system.rings] or [1]
    period = 1
    for a in agents:
        for ins in system.agents[a].code:
            if ins[0] == GUARD and ins[1] == EVERY:
                period = max(period, ins[2] + ins[3])
    every = period * (sum(stages) + 2) if period > 1 else 0
    return max(2 * max(stages) + 1, every)


def first_need(needs: list[tuple[int, Decision]]) -> Decision:
    """The decision to take first: that of the earliest tile, so that no agent runs ahead of the others."""
    return min(needs, key=lambda n: (n[0], n[1].kind, n[1]))[1]


def choices(runner: Runner, st: State, decision: Decision) -> list[State]:
    """The states after each outcome of a decision; the one that ends a loop first."""
    if decision.kind != "value":
        found = []
        for outcome in (True, False):
            new = st.copy()
            new.decided[decision] = outcome
            new.path = (st.path, decision, int(outcome))
            found.append(new)
        return found
    low = st.low[decision]
    end = st.copy()
    end.exact[decision] = low
    del end.low[decision]
    end.path = (st.path, decision, low)
    high = runner.system.symbols.unknowns[decision.what].high
    following = runner.following(decision.what, low)
    if following is None or (high is not None and following > high):
        return [end]
    more = st.copy()
    more.low[decision] = following
    more.cost += 1
    return [end, more]


def finish(system: System, agents: list[int], st: State) -> Problem | None:
    """What is wrong with a state in which nothing moves and nothing is left to choose."""
    stuck = [a for a in agents if st.pc[a] >= 0]
    if stuck:
        return Problem("deadlock", stuck[0], -1)
    for a in agents:
        for slot in system.agents[a].slots:
            r = system.slot_ring[slot]
            moved = system.ring_slots.get(r, ())
            commits = slot + 1 in moved or not any(s % 4 == 1 for s in moved)
            acquires = r >= 0 and slot % 4 == 0 and slot in moved
            if acquires and commits and st.position[slot] != st.position[slot + 1]:
                return Problem("uncommitted", a, -1, data=(r, st.position[slot], st.position[slot + 1]))
    for r in system.ring_slots:
        ring = system.rings[r]
        for full, empty in balances(system, ring, agents):
            for stage in range(ring.stages):
                used = [b + stage for b in (*full, *empty)]
                done = {st.done[b] for b in used} | ({0} if not full or not empty else set())
                if len(done) > 1 or any(st.count[b] or st.transfer[b] for b in used):
                    return Problem("unbalanced", agents[0], -1, used[0], data=(r, stage))
    return in_flight(system, agents, st)
