"""From a kernel to a verdict on its schedule: explores every part, makes sure that a problem is real, and words it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product
from math import lcm, prod
from time import perf_counter

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Diagnostic
from tsgen.model.kernel import Kernel
from tsgen.verify import launch_order, progress, races, unwritten
from tsgen.verify.build import Builder
from tsgen.verify.code import Coder
from tsgen.verify.conditions import said_at
from tsgen.verify.explore import MAX_STATES, Verdict, bound, explore, literals
from tsgen.verify.machine import SKIP, StepInfo, System
from tsgen.verify.model import Proof
from tsgen.verify.opaque import choosable, with_chosen
from tsgen.verify.parts import parts
from tsgen.verify.possible import Chosen, Range, Relations
from tsgen.verify.questions import Questions, turning_values
from tsgen.verify.same import Seen, fingerprint
from tsgen.verify.state import Decision, State
from tsgen.verify.story import Story, decisions
from tsgen.verify.symbols import LONG
from tsgen.verify.unproven import proof_incomplete, undecided

FINDINGS = {**progress.FINDINGS, **races.FINDINGS, **launch_order.FINDINGS, **unwritten.FINDINGS}
AT_ONCE = 1000  # states that are looked at before anything else
MAX_SWEEP = 600  # combinations of trip counts
LAST_STATE = 10_000  # of a sweep
LAST_STEP = 1_500_000  # of a sweep: some five seconds
SOON = 1000  # states in which an exploration with chosen outcomes closes, if it does
LONGEST = 50_000  # trips of a literal loop that are run one by one


def prove(kernel: Kernel, derived: Derived, uses: Uses, seen: Seen) -> tuple[list[Diagnostic], Proof]:
    """The findings of the run of the machine, and how far they are proven to be all. A machine in `seen` is not run."""
    begin = perf_counter()
    builder = Builder(kernel, derived, uses)
    Coder(builder).run()
    system = builder.system
    finer = cache(lambda: _finer(kernel, derived, uses))
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    states, closed, cut = 0, True, False
    left: list[StepInfo] = []  # bounds and conditions that kept a proof from ending
    same = fingerprint(system)
    for agents in parts(system):
        key = (same, tuple(agents))
        verdict = seen.get(key)
        if verdict is None:
            verdict = judge(system, agents, finer)
            states += verdict.states
            if verdict.problem is None and not verdict.remarks and not verdict.cut:
                seen[key] = verdict
        closed &= verdict.closed
        cut |= verdict.cut
        if verdict.cut or not verdict.closed:
            left += undecided(system, agents, verdict.doubt)
        if verdict.problem is not None:
            errors.append(FINDINGS[verdict.problem.kind](Story(verdict.system or system, agents, verdict)))
        for problem, state in verdict.remarks:
            told = replace(verdict, problem=problem, state=state)
            warnings.append(FINDINGS[problem.kind](Story(verdict.system or system, agents, told)))
    method = "none" if errors or cut else "closure" if closed else "sweep"
    proof = Proof(
        not errors and not cut and closed,
        states,
        perf_counter() - begin,
        method,
        "" if errors or cut else statement(system, closed),
    )
    if not errors and not proof.complete:
        warnings.append(proof_incomplete(kernel, left))
    return errors + warnings, proof


def _finer(kernel: Kernel, derived: Derived, uses: Uses) -> System | None:
    """The machine whose loops to a quotient count to what it is a quotient of; None if there are none."""
    coder = Coder(Builder(kernel, derived, uses), finer=True)
    coder.run()
    return coder.system if coder.refined else None


def judge(system: System, agents: list[int], finer: Callable[[], System | None] = lambda: None) -> Verdict:
    """The verdict on one part.

    Most are judged by one short exploration. Else outcomes of conditions are taken to be free even where they can be
    computed: if that finds nothing, there is nothing. Trip counts are first taken to be free in each tile, which covers
    more than can happen; a problem that needs one unknown to have two values is looked for again with one value for all
    tiles. Where tasks skip what others consume in their tiles, and one number decides all loops, its small values are
    taken one by one: with few trips, many tiles are under way at once, and free counts would have to be combined in all
    ways. Where that is not enough, loops to a quotient count to what it is a quotient of: `finer` gives the machine
    that does.
    """
    verdict = _by_value(system, agents)
    if verdict is not None:
        return verdict
    verdict = explore(system, agents, {}, AT_ONCE)
    begun = verdict.states
    if verdict.closed if verdict.problem is None else not _literal(system) and _possible(system, verdict):
        return verdict
    verdict = _chosen(system, agents)
    begun += verdict.states
    if not verdict.closed:
        verdict, literal = _computed(system, agents)
        other = None if _settled(system, verdict) else finer()
        more = None if other is None else _finer_verdict(other, agents)
        if more is not None:
            begun, verdict = begun + verdict.states, more
        elif literal is not None and not _settled(system, verdict):
            verdict = _small(system, agents, verdict, literal)
        verdict.states += begun
    return verdict


def _literal(system: System) -> bool:
    """Whether an unknown stands for a number that is known: what is found for others may not be true of it."""
    return any(u.number is not None for u in system.symbols.unknowns)


def _settled(system: System, verdict: Verdict) -> bool:
    """Whether nothing is left to be looked for: all was covered, or what was found can be."""
    return verdict.closed if verdict.problem is None else _possible(system, verdict)


def _chosen(system: System, agents: list[int]) -> Verdict:
    """The verdict where outcomes are chosen that could be computed. What is found so may be nothing."""
    verdict = Verdict(None, None, 0, 0, closed=False)
    for chosen in choosable(system, agents):
        found = explore(with_chosen(system, chosen), agents, {}, SOON)
        verdict.states += found.states
        if found.closed and found.problem is None and not found.remarks:
            return replace(found, states=verdict.states)
    return verdict


def _finer_verdict(system: System, agents: list[int]) -> Verdict | None:
    """The verdict on the finer machine, if it is one."""
    verdict = _chosen(system, agents)
    if not verdict.closed:
        states = verdict.states
        verdict = explore(system, agents, {}, MAX_STATES // 10)
        verdict.states += states
    verdict.system = system
    return verdict if _settled(system, verdict) else None


def _computed(system: System, agents: list[int]) -> tuple[Verdict, dict[int, int] | None]:
    """The verdict where no outcome is chosen that can be computed, which may be none; then with the values of literal
    bounds that small numbers are to be tried with, if it is of use to try them."""
    fixed: dict[int, int] = {}
    numbers = {i: u.number for i, u in enumerate(system.symbols.unknowns) if u.number is not None}
    if numbers and literals(system, agents) > LONG and max(numbers.values()) <= LONGEST:
        fixed = numbers
    limit = MAX_STATES if literals(system, agents) < MAX_STATES else MAX_STATES // 10  # it will not get there anyway
    verdict = explore(system, agents, fixed, limit)
    if verdict.problem is not None and not _possible(system, verdict):
        verdict = explore(system, agents, fixed, limit, part=False)
    if numbers and not fixed and not (verdict.closed and verdict.problem is None):
        fixed = numbers if max(numbers.values()) <= LONGEST else _shortened(system, agents, numbers)
        if not fixed:
            return replace(verdict, problem=None, closed=False, cut=True), None
        verdict = explore(system, agents, fixed)
        if fixed != numbers and verdict.problem is None:
            return replace(verdict, closed=False, cut=True), None
    return verdict, None if verdict.problem is None and not verdict.cut else fixed


def _small(system: System, agents: list[int], before: Verdict, literal: dict[int, int]) -> Verdict:
    """The verdict on small numbers, where nothing else says anything."""
    if before.state is not None and any(d.kind == "condition" for d, _ in decisions(before.state)):
        other = _with_outcomes_that_can_be(system, agents, literal)
        if other.problem is not None and _possible(system, other):
            return other
    return replace(_sweep(system, agents, before, literal), doubt=_doubt(before))


def _doubt(verdict: Verdict) -> frozenset[int]:
    """The unknowns that a proof did not end for: if there is a problem that cannot be, those that led to it."""
    if verdict.problem is None or verdict.state is None:
        return verdict.doubt
    chosen = [*(d for d, _ in decisions(verdict.state)), *verdict.state.open]
    return frozenset(d.what for d in chosen if d.kind == "value")


def _shortened(system: System, agents: list[int], numbers: dict[int, int]) -> dict[int, int]:
    """A number that is too large to count to, less so many whole turns of all rings and periods that it is not: what is
    wrong with it is wrong with the large one. Nothing if conditions count that far, or several numbers play a part."""
    turns = [r.stages for r in system.rings] + [system.agents[a].period for a in agents]
    turn = lcm(*turns, *(p for a in agents for _, p, _ in system.agents[a].guards if p > 0))
    if len(numbers) > 1 or literals(system, agents) > LONG or turn > LONGEST // 4:
        return {}
    return {u: n - (n - LONGEST // 4) // turn * turn for u, n in numbers.items()}


def _by_value(system: System, agents: list[int]) -> Verdict | None:
    """The verdict by one exploration for each small value of the only unknown, and one for all larger values. None if
    there are none or more unknowns, if nobody skips another tile's stages, or if one of the explorations says nothing.
    """
    asked = {u for a in agents for u in system.agents[a].queries}
    unknowns = system.symbols.unknowns
    if len(asked) != 1 or not any(ins[0] == SKIP for a in agents for ins in system.agents[a].code):
        return None
    (u,) = asked
    unknown = unknowns[u]
    if unknown.per_tile or unknown.per_cta or unknown.number is not None or unknown.low is None:
        return None
    low = unknown.low
    many = low + max((r.stages for r in system.rings), default=1)
    found: list[Verdict] = []
    for value in range(low, many if unknown.high is None else min(many, unknown.high + 1)):
        found.append(explore(system, agents, {u: value}))
        if found[-1].problem is not None:
            break
    else:
        if unknown.high is None or unknown.high >= many:
            found.append(explore(system, agents, {}, floors={u: many}))
    last = found[-1]
    if not all(v.closed for v in found) or (last.problem is not None and not _possible(system, last)):
        return None
    last.states, last.steps = sum(v.states for v in found), sum(v.steps for v in found)
    last.remarks = next((v.remarks for v in found if v.remarks), ())
    return last


def _possible(system: System, verdict: Verdict) -> bool:
    """Whether the choices that led to a problem can be."""
    return _consistent(system, verdict) and _related(system, verdict)


def _consistent(system: System, verdict: Verdict) -> bool:
    """Whether each unknown has one value, or may differ between tiles."""
    assert verdict.state is not None
    queues = system.tile_unknowns.values()
    values: dict[tuple[int, int], set[int]] = {}
    once: dict[Decision, int] = {}
    tiles: set[int] = set()
    for decision, value in decisions(verdict.state):
        if decision.kind == "value":
            place = decision._replace(iteration=0)  # one value, though it may have been chosen anew for some
            if once.setdefault(place, value) != value:
                return False
        if decision.kind == "value" and not system.symbols.unknowns[decision.what].per_tile:
            values.setdefault((decision.what, decision.cta), set()).add(value)
            if decision.what not in queues:
                tiles.add(decision.tile)
    for decision, low in verdict.state.open.items():
        known = values.get((decision.what, decision.cta))
        if known and low > min(known):
            return False
    promised = any(ins[0] == SKIP for a in system.agents for ins in a.code)
    return all(len(v) == 1 for v in values.values()) and not (promised and len(tiles) > 1)


def _related(system: System, verdict: Verdict) -> bool:
    """Whether the values of unknowns, and the outcomes of conditions, that led to a problem can be at once; the verdict
    then knows which values."""
    assert verdict.state is not None
    always, places = _ranges(system, verdict.state, verdict.fixed)
    relations = Relations(system.symbols)
    found = [relations.possible({**always, **here}) for here in (places.values() or ({},))]
    if len(found) == 1 and found[0] is not None:
        verdict.witness = found[0]
    return None not in found and _outcomes_agree(system, verdict.state, verdict.fixed, relations)


Ranges = dict[int, Range]


def _ranges(system: System, st: State, fixed: Mapping[int, int]) -> tuple[Ranges, dict[tuple[int, int], Ranges]]:
    """The values of unknowns that led to a state: those of all tiles and CTAs, and those of one."""
    turns = turning_values(system)
    places: dict[tuple[int, int], Ranges] = {}
    always: Ranges = {u: (n, n) for u, n in fixed.items()}
    exact = [(d, n, False) for d, n in decisions(st) if d.kind == "value"]
    for d, n, still_open in (*exact, *((d, n, True) for d, n in st.open.items())):
        u = system.symbols.unknowns[d.what]
        last = next((v - 1 for v in turns.get(d.what, ()) if v > n), None) if d.what in turns else n
        least = n if u.low is not None or n > Questions(system, {}).floor(d.what) else -(2**31)
        at = (least, None if still_open else last)
        if u.per_tile or u.per_cta:
            places.setdefault((d.tile, d.cta), {})[d.what] = at
        else:
            always[d.what] = at
    return always, places


def _outcomes_agree(system: System, st: State, fixed: Mapping[int, int], relations: Relations) -> bool:
    """Whether the outcomes that led to a state are those of their conditions for some numbers, in each tile."""
    always, places = _ranges(system, st, fixed)
    chosen: dict[tuple[int, int], list[Chosen]] = {}
    everywhere: list[Chosen] = []
    for d, holds in decisions(st):
        c = system.conditions[d.what] if d.kind == "condition" else None
        says = said_at(system.symbols, c, d.iteration) if c is not None else None
        if c is None or says is None:
            continue
        if c.per_tile or c.per_cta:
            chosen.setdefault((d.tile, d.cta), []).append((says, bool(holds)))
        else:
            everywhere.append((says, bool(holds)))
    return all(
        relations.agree([*everywhere, *chosen.get(place, ())], {**always, **places.get(place, {})})
        for place in {*chosen, *places, (0, 0)}
    )


def _with_outcomes_that_can_be(system: System, agents: list[int], fixed: dict[int, int]) -> Verdict:
    """The exploration once more, without outcomes that contradict each other, or the values of unknowns. It finds what
    is really wrong, but is no proof: states may differ in what can still come out."""
    relations = Relations(system.symbols)
    limit = AT_ONCE // 4  # each state takes its time
    allowed = partial(_outcomes_agree, system, fixed=fixed, relations=relations)
    verdict = explore(system, agents, fixed, limit, part=False, allowed=allowed)
    return replace(verdict, closed=False)


def _sweep(system: System, agents: list[int], before: Verdict, literal: dict[int, int]) -> Verdict:
    """Every combination of trip counts up to a bound, smallest first, each the same in all tiles. It is a proof if they
    are all that there are."""
    asked = sorted({u for a in agents for u in system.agents[a].queries})
    one = not system.tile_unknowns and system.ctas == 1  # then nothing differs between tiles and CTAs
    free = [u for u in asked if (one or not system.symbols.unknowns[u].per_tile) and u not in literal]
    combinations, every = _combinations(system, agents, free)
    total = Verdict(None, None, before.states, before.steps, closed=every)
    for values in combinations:
        fixed = {**literal, **values}
        verdict = explore(system, agents, fixed, LAST_STATE // 4)
        total.states += verdict.states
        total.steps += verdict.steps
        total.cut |= verdict.cut
        total.closed &= verdict.closed
        if verdict.problem is not None:
            if _possible(system, verdict):
                verdict.states = total.states
                return verdict
            total.closed = False
        total.remarks = total.remarks or verdict.remarks
        if total.states > LAST_STATE or total.steps > LAST_STEP:
            total.cut = True
            break
    return total


def _combinations(system: System, agents: list[int], free: list[int]) -> tuple[list[dict[int, int]], bool]:
    """Values of unknowns, the smallest first, and whether these are all. Related ones get values that they can have."""
    top = bound(system, agents) if len(free) < 2 else max(6, int(MAX_SWEEP ** (1 / len(free))))
    ranges = []
    every = True
    for u in free:
        unknown = system.symbols.unknowns[u]
        low = unknown.low or 0
        high = low + min(top, MAX_SWEEP)
        high = high if unknown.high is None else min(unknown.high, high)
        every &= unknown.low is not None and unknown.high is not None and unknown.high <= high
        ranges.append(range(low, high + 1))
    relations = Relations(system.symbols, (v for values in turning_values(system).values() for v in values))
    if relations.related(set(free)):
        wanted: dict[int, Range] = dict.fromkeys((u for u in free if u in relations.free), (-LAST_STATE, LAST_STATE))
        found = sorted(set(relations.assignments(wanted)), key=lambda v: (sum(map(abs, v)), v))[:MAX_SWEEP]
        return [dict(zip(wanted, v, strict=True)) for v in found], False
    every &= prod(map(len, ranges)) <= MAX_SWEEP
    chosen = sorted(product(*ranges), key=lambda v: (sum(v), v))[:MAX_SWEEP]
    return [dict(zip(free, v, strict=True)) for v in chosen], every


def statement(system: System, closed: bool) -> str:
    """What was proven, in one sentence."""
    used = {u for a in system.agents for u in a.queries}
    labels = [u.label for i, u in enumerate(system.symbols.unknowns) if i in used and u.number is None]
    values = "every value" if closed else "small values"
    parts = [f"{values} of {', '.join(dict.fromkeys(labels))}"] if labels else []
    if system.tile_unknowns:
        parts.append("every number of tiles")
    if system.conditions:
        parts.append("every outcome of the conditions")
    if system.ctas > 1:
        parts.append(f"all {system.ctas} CTAs of a cluster")
    scope = f" for {', '.join(parts)}" if parts else ""
    return f"no deadlock, race, phase or credit error in any interleaving{scope}"
