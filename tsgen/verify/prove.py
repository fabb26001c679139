"""From a kernel to a verdict on its schedule: explores every part, makes sure that a problem is real, and words it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from time import perf_counter

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Diagnostic
from tsgen.model.kernel import Kernel
from tsgen.verify import launch_order, progress, races
from tsgen.verify.build import Builder
from tsgen.verify.code import Coder
from tsgen.verify.explore import Verdict, explore
from tsgen.verify.machine import EVERY, GUARD, SKIP, System
from tsgen.verify.model import Proof
from tsgen.verify.parts import parts
from tsgen.verify.story import Story, decisions

FINDINGS = {**progress.FINDINGS, **races.FINDINGS, **launch_order.FINDINGS}
MAX_SWEEP = 600  # combinations of trip counts
LONGEST = 20_000  # trips of a literal loop that are run one by one


def prove(kernel: Kernel, derived: Derived, uses: Uses) -> tuple[list[Diagnostic], Proof]:
    """The findings of the run of the machine, and how far they are proven to be all."""
    begin = perf_counter()
    builder = Builder(kernel, derived, uses)
    Coder(builder).run()
    system = builder.system
    found: list[Diagnostic] = []
    states, closed = 0, True
    for agents in parts(system):
        verdict, fixed, swept = judge(system, agents)
        states += verdict.states
        closed &= verdict.closed and not swept
        if verdict.problem is not None:
            found.append(FINDINGS[verdict.problem.kind](Story(system, agents, fixed, verdict)))
    method = "closure" if closed else "sweep"
    proof = Proof(not found, states, perf_counter() - begin, method, statement(system, closed) if not found else "")
    return found, proof


def judge(system: System, agents: list[int]) -> tuple[Verdict, dict[int, int], bool]:
    """The verdict on one part. Trip counts are first taken to be free in every tile, which covers more than can happen;
    a problem that needs one unknown to have two values is looked for again with one value for all tiles."""
    fixed: dict[int, int] = {}
    verdict = explore(system, agents, fixed)
    numbers = {i: u.number for i, u in enumerate(system.symbols.unknowns) if u.number is not None}
    if numbers and not (verdict.closed and verdict.problem is None):
        fixed = {i: min(n, LONGEST) for i, n in numbers.items()}
        verdict = explore(system, agents, fixed)
    if verdict.closed and (verdict.problem is None or _possible(system, verdict)):
        return verdict, fixed, False
    return _sweep(system, agents, verdict, fixed)


def _possible(system: System, verdict: Verdict) -> bool:
    """Whether the choices that led to a problem give each unknown one value, or are meant to differ from tile to
    tile."""
    assert verdict.state is not None
    values: dict[tuple[int, int], set[int]] = {}
    tiles: set[int] = set()
    for decision, value in decisions(verdict.state):
        if decision.kind == "value" and not system.symbols.unknowns[decision.what].per_tile:
            values.setdefault((decision.what, decision.cta), set()).add(value)
            if decision.what not in system.tile_unknowns.values():
                tiles.add(decision.tile)
    promised = any(a.looks_back or any(ins[0] == SKIP for ins in a.code) for a in system.agents)
    return all(len(v) == 1 for v in values.values()) and not (promised and len(tiles) > 1)


def _sweep(
    system: System, agents: list[int], before: Verdict, literal: dict[int, int]
) -> tuple[Verdict, dict[int, int], bool]:
    """Every combination of trip counts up to a bound, smallest first, each the same in all tiles.

    The bound is the empirical one: two rounds of the longest ring, or a period of an `every` for each stage.
    """
    asked = sorted({u for a in agents for u in system.agents[a].queries})
    free = [u for u in asked if not system.symbols.unknowns[u].per_tile and u not in literal]
    states = before.states
    closed = True
    for values in _combinations(system, agents, free):
        fixed = {**literal, **dict(zip(free, values, strict=True))}
        verdict = explore(system, agents, fixed)
        states += verdict.states
        closed &= verdict.closed
        if verdict.problem is not None:
            verdict.states = states
            return verdict, fixed, True
    return Verdict(None, None, states, before.steps, closed), {}, True


def _combinations(system: System, agents: list[int], free: list[int]) -> Iterator[tuple[int, ...]]:
    top = bound(system, agents)
    ranges = []
    for u in free:
        unknown = system.symbols.unknowns[u]
        low = unknown.low or 0
        high = low + top if unknown.high is None else min(unknown.high, low + top)
        ranges.append(range(low, high + 1))
    every = sorted(product(*ranges), key=lambda v: (sum(v), v))
    return iter(every[:MAX_SWEEP])


def bound(system: System, agents: list[int]) -> int:
    """Trips after which nothing new was ever seen: max(2 S + 1, p (ΣS + 2)), p the longest period + start of an
    `every`."""
    stages = [r.stages for r in system.rings] or [1]
    period = 1
    for a in agents:
        for ins in system.agents[a].code:
            if ins[0] == GUARD and ins[1] == EVERY:
                period = max(period, ins[2] + ins[3])
    every = period * (sum(stages) + 2) if period > 1 else 0
    return max(2 * max(stages) + 1, every)


def statement(system: System, closed: bool) -> str:
    """What was proven, in one sentence."""
    used = {u for a in system.agents for u in a.queries}
    labels = [u.label for i, u in enumerate(system.symbols.unknowns) if i in used and u.number is None]
    parts = [f"every value of {', '.join(dict.fromkeys(labels))}"] if labels else []
    if system.tile_unknowns:
        parts.append("every number of tiles")
    if system.conditions or system.skips:
        parts.append("every outcome of the conditions")
    if system.ctas > 1:
        parts.append(f"all {system.ctas} CTAs of a cluster")
    scope = f" for {', '.join(parts)}" if parts else ""
    how = "" if closed else " (trip counts up to an empirical bound)"
    return f"no deadlock, race, phase or credit error in any interleaving{scope}{how}"
