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
- a try is never used (`try`), or a stage is released before the asynchronous work that reads it (`order`),
- a barrier's count is not what arrives in a phase (`count`).

Steps are points: a work is done at once, a TMA load arrives with its commit. It shares no code with `tsgen.verify`.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.ts_json import BODIES, Node, call_of, walk

Doc = Mapping[str, Any]
Op = tuple[str, str]  # kind (acquire, commit, wait, release, read, write), ring or buffer
Place = tuple[str, int]  # resource, stage of its ring
Step = tuple[str, int, int, int, Place]  # kind, barrier (or -1), phase it means, arrivals, bytes it touches
NOWHERE: Place = ("", 0)

UNKNOWN_TRIPS = (0, 1, 2, 3, 4, 5, 6, 9)
TILES = (0, 1, 2)
MOST_OUTCOMES = 6  # conditions whose outcomes are all combined
MOST_ENVIRONMENTS = 200
RING_STEPS = ("acquire", "commit", "wait", "release")
BLOCKING = ("acquire", "wait")
GROUP_STEPS = {"merge": ("release",), "fork": ("commit",), "fused_merge": ("try_wait", "wait", "release")}
SHARED_FULL = ("fork", "fused_merge")
SHARED_EMPTY = ("merge", "fused_merge")


@dataclass(frozen=True)
class Environment:
    """What the schedule does not decide: trips of unknown loops, outcomes of conditions, tiles (True = skipped)."""

    trips: int
    tiles: tuple[bool, ...]
    outcomes: tuple[bool, ...]  # in the order in which they are first asked for


@dataclass
class Verdict:
    """`good` is None if the search was cut off and nothing was found before."""

    good: bool | None
    faults: set[str] = field(default_factory=set)
    states: int = 0
    environment: Environment | None = None


@dataclass(frozen=True)
class Ring:
    stages: int
    full: int  # arrivals of a phase
    empty: int


@dataclass(frozen=True)
class Group:
    name: str
    mode: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Program:
    """One task unrolled: its operations, and for each the ring index (position) that it has by then."""

    ops: tuple[Op, ...]
    index: tuple[int, ...]
    warps: int


def unused_tries(nodes: Sequence[Node], after: set[tuple[str, str]]) -> Iterator[str]:
    """Targets of tries that no blocking step can follow: none later in the text, none in a loop around the try.

    The language carries an answer over to the next iteration (NVIDIA asks for the step to stand after the try).
    """
    for i, node in enumerate(nodes):
        following = after | {c for n in walk(nodes[i + 1 :]) if (c := call_of(n)) is not None}
        call = call_of(node)
        if call is not None:
            if call[1].startswith("try_") and (call[0], call[1].removeprefix("try_")) not in following:
                yield call[0]
            continue
        inner = [node[key] for key in BODIES if isinstance(node.get(key), list) and key != "loop"]
        if "loop" in node or "tiles" in node:
            following |= {c for n in walk(node["body"]) if (c := call_of(n)) is not None}
        for body in inner:
            yield from unused_tries(body, following)


class Outcomes:
    """Outcomes of conditions by key and place, filled as they are asked for."""

    def __init__(self, given: tuple[bool, ...]) -> None:
        self.given = given
        self.known: dict[tuple[str, int, int], bool] = {}

    def __call__(self, key: str, tile: int, iteration: int) -> bool:
        at = (key, tile, iteration)
        if at not in self.known:
            n = len(self.known)
            self.known[at] = self.given[n] if n < len(self.given) else True
        return self.known[at]


class Case:
    """The parts of an oracle case that the reference understands."""

    def __init__(self, case: Doc) -> None:
        self.tasks: Sequence[Doc] = case["tasks"]
        self.rings: dict[str, Ring] = {}
        self.kinds: dict[str, str] = {}
        self.buffers: set[str] = set()
        self.aliases: dict[str, tuple[int, int]] = {}  # resource -> alias group and phase in it
        phase_of = {
            a: (i, j)
            for i, phases in enumerate(case.get("alias", {}).get("smem", []))
            for j, phase in enumerate(phases)
            for a in phase
        }
        self.groups = {g["name"]: Group(g["name"], g["mode"], tuple(g["members"])) for g in case.get("groups", [])}
        self.group_of = {m: g for g in self.groups.values() for m in g.members}
        self.sides: dict[str, dict[str, str]] = {}
        for r in case["resources"]:
            name = r["name"]
            self.sides[name] = {w["name"]: w["side"] for w in r.get("works", []) if not w.get("aux")}
            self.sides[name].setdefault("read", "consumer")
            self.sides[name].setdefault("write", "producer")
            for a in r.get("smem", []):
                self.buffers.add(name)
                if a["name"] in phase_of:
                    self.aliases[name] = phase_of[a["name"]]
            if r.get("kind", "memory") == "memory" and r.get("pipeline"):
                p = r["pipeline"]
                self.rings[name] = Ring(p["stages"], p.get("producer_threads", 1), p.get("consumer_threads", 1))
                self.kinds[name] = p["type"]

    # ---- unrolling ---------------------------------------------------------------------------------------------

    def unroll(self, task: Doc, env: Environment, outcomes: Outcomes) -> list[Op]:
        found: list[Op] = []
        self._body(task["body"], env, outcomes, found, tile=0, skipped=False, at=None)
        return found

    def _body(
        self,
        nodes: Iterable[Any],
        env: Environment,
        outcomes: Outcomes,
        found: list[Op],
        *,
        tile: int,
        skipped: bool,
        at: tuple[int, int] | None,
    ) -> None:
        def go(body: Iterable[Any], at: tuple[int, int] | None = at) -> None:
            self._body(body, env, outcomes, found, tile=tile, skipped=skipped, at=at)

        for node in nodes:
            call = call_of(node)
            if call is not None:
                found += self._ops(*call)
            elif "tiles" in node:
                for number, skip in enumerate(env.tiles):
                    skips = skip and bool(node.get("skip_if"))
                    self._body(node["body"], env, outcomes, found, tile=number, skipped=skips, at=None)
            elif "skippable" in node:
                if not skipped:
                    go(node["skippable"])
            elif "loop" in node:
                trips = len(range(*(env.trips if not isinstance(b, int) else b for b in node["loop"])))
                for i in range(trips):
                    go(node["body"], (i, trips))
            elif self._holds(node, at, outcomes, tile):
                go(next(node[k] for k in ("body", "first", "last") if k in node))

    def _holds(self, node: Doc, at: tuple[int, int] | None, outcomes: Outcomes, tile: int) -> bool:
        i, trips = at if at is not None else (0, 1)
        if "first" in node:
            return i == 0
        if "last" in node:
            return i == trips - 1
        if "every" in node:
            period, start = node["every"]
            return i >= start and (i - start) % period == 0
        kind = "when_true" if "when_true" in node else "when_false"
        return outcomes(node.get("key") or str(node[kind]), tile, i) == (kind == "when_true")

    def _ops(self, target: str, method: str) -> list[Op]:
        if method in RING_STEPS:
            names = self.groups[target].members if target in self.groups else (target,)
            return [(method, name) for name in names if name in self.rings]
        if target in self.rings or target in self.buffers:
            side = self.sides[target].get(method)
            return [] if side is None else [("read" if side == "consumer" else "write", target)]
        return []

    def follows(self, kind: str, name: str) -> bool:
        """Whether a member's step is done by that of the group's first member."""
        group = self.group_of.get(name)
        return group is not None and kind in GROUP_STEPS[group.mode] and name != group.members[0]

    # ---- what needs no search ----------------------------------------------------------------------------------

    def structure(self) -> set[str]:
        """Counts that do not fit, and tries that no later step uses."""
        found = set()
        for name, ring in self.rings.items():
            fills, empties = self.kinds[name].split("_")
            producers = self._warps(name, "commit")
            consumers = self._warps(name, "release")
            full = {"tma": producers, "umma": 1, "async": 32 * producers}[fills]
            empty = (1,) if empties == "umma" else (32 * consumers, *((consumers,) if fills == "tma" else ()))
            if (producers and ring.full != full) or (consumers and ring.empty not in empty):
                found.add("count")
            steps = [any(self.has(t, name, m) for t in self.tasks) for m in ("acquire", "commit", "release")]
            if any(steps) and not all(steps):
                found.add("bracket")
            if fills == "tma" and any(t.get("warps", 1) > 1 for t in self.tasks if self.has(t, name, "commit")):
                found.add("count")
        for task in self.tasks:
            if any(target in self.rings or target in self.groups for target in unused_tries(task["body"], set())):
                found.add("try")
            for target, method in (c for n in walk(task["body"]) if (c := call_of(n)) is not None):
                group = self.groups.get(target) or self.group_of.get(target)
                shared = group is not None and method in GROUP_STEPS[group.mode]
                step = method in RING_STEPS or method.startswith("try_")
                if group is not None and step and shared != (target in self.groups):
                    found.add("group")
        return found | self._groups()

    def _groups(self) -> set[str]:
        for group in self.groups.values():
            rings = [self.rings[m] for m in group.members]
            same_full = group.mode != "fork" or len({r.full for r in rings}) == 1
            same_empty = group.mode == "fork" or len({r.empty for r in rings}) == 1
            if len({r.stages for r in rings}) > 1 or not same_full or not same_empty:
                return {"group"}
        return set()

    def order(self, graph: Mapping[str, Sequence[str]]) -> set[str]:
        """Releases of what the tensor core reads before the work that reads it."""
        for (down, ups), task in itertools.product(graph.items(), self.tasks):
            calls = [c for n in walk(task["body"]) if (c := call_of(n)) is not None]
            works = [i for i, (t, m) in enumerate(calls) if t == down and m in self.sides[down]]
            for up in (u for u in ups if self.kinds.get(u, "").endswith("_umma") and u != down):
                releases = [i for i, (t, m) in enumerate(calls) if m == "release" and (m, up) in self._ops(t, m)]
                if works and releases and min(releases) < min(works):
                    return {"order"}
        return set()

    def has(self, task: Doc, ring: str, method: str) -> bool:
        calls = (c for n in walk(task["body"]) if (c := call_of(n)) is not None)
        return any(m == method and (m, ring) in self._ops(t, m) for t, m in calls)

    def _warps(self, ring: str, method: str) -> int:
        return sum(t.get("warps", 1) for t in self.tasks if self.has(t, ring, method))

    def units(self, op: Op, warps: int) -> int:
        """Arrivals of one commit or release."""
        kind, name = op
        fills, empties = self.kinds[name].split("_")
        agent = fills if kind == "commit" else empties
        lanes = fills == "tma" and (kind == "commit" or self.rings[name].empty == self._warps(name, "release"))
        return 1 if agent == "umma" else warps if lanes else 32 * warps


def environments(case: Doc) -> tuple[list[Environment], bool]:
    """The environments of a case, and whether these are all of them (of the trip and tile counts that are tried)."""
    nodes = [n for t in case["tasks"] for n in walk(t["body"]) if isinstance(n, dict)]
    trips = UNKNOWN_TRIPS if any(not isinstance(b, int) for n in nodes for b in n.get("loop", ())) else (0,)
    persistent = any("tiles" in n for n in nodes)
    skips = any(n.get("skip_if") for n in nodes)
    tiles: list[tuple[bool, ...]] = [()]
    if persistent:
        counts = (*TILES, 3) if skips else TILES
        tiles = [t for n in counts for t in itertools.product((False, True) if skips else (False,), repeat=n)]
    parsed = Case(case)
    found: list[Environment] = []
    complete = True
    for k, pattern in itertools.product(trips, tiles):
        asked = Outcomes(())
        for task in case["tasks"]:
            parsed.unroll(task, Environment(k, pattern, ()), asked)
        width = len(asked.known)
        complete &= width <= MOST_OUTCOMES
        found += [Environment(k, pattern, o) for o in _outcomes(width)]
    if len(found) > MOST_ENVIRONMENTS:
        complete = False
        found = random.Random(len(found)).sample(found, MOST_ENVIRONMENTS)
    return found, complete


def _outcomes(width: int) -> Iterator[tuple[bool, ...]]:
    """All outcomes of so many conditions; of many the same everywhere, and with one or two that differ."""
    if width <= MOST_OUTCOMES:
        yield from itertools.product((True, False), repeat=width)
        return
    for usual in (True, False):
        yield (usual,) * width
        for differ in (*itertools.combinations(range(width), 1), *itertools.combinations(range(width), 2)):
            yield tuple(usual != (i in differ) for i in range(width))


def judge(case: Doc, most_states: int = 60_000) -> Verdict:
    """The verdict over all environments; `most_states` bounds the states of all together."""
    parsed = Case(case)
    found_all, complete = environments(case)
    verdict = Verdict(True if complete else None, parsed.structure() | parsed.order(case["graph"]))
    for env in found_all if "group" not in verdict.faults else ():  # else there are no barriers to speak of
        found, states, complete = _search(parsed, env, most_states - verdict.states)
        verdict.states += states
        if found and verdict.environment is None:
            verdict.environment = env
        verdict.faults |= found
        if found:
            break
        if not complete:
            verdict.good = None
            break
    if verdict.faults:
        verdict.good = False
    return verdict


def _search(case: Case, env: Environment, most_states: int) -> tuple[set[str], int, bool]:
    outcomes = Outcomes(env.outcomes)
    programs = [_program(case.unroll(t, env, outcomes), t.get("warps", 1)) for t in case.tasks]
    faults = _brackets(case, programs) | _leaks(case, programs)
    machine = _Machine(case, programs)
    start = (0,) * len(programs)
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
    """Every party of a ring must end at the same position; a step that no task has counts as none."""
    for name in case.rings:
        ends = set()
        for method in RING_STEPS:
            parties = [p for t, p in zip(case.tasks, programs, strict=True) if case.has(t, name, method)]
            ends |= {p.ops.count((method, name)) for p in parties} or {0}
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
            if barrier < 0 and place != NOWHERE:
                if any("write" in (kind, other) and self._overlap(place, at) for other, at in touched):
                    faults.add("race")
                touched.append((kind, place))
            elif barrier < 0:
                pass  # the step of the group's first member does it
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
