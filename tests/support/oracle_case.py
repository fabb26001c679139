"""Oracle cases as the exhaustive reference reads them: rings, groups, and a task unrolled in one environment."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.ts_json import BODIES, Node, call_of, walk

Doc = Mapping[str, Any]
Op = tuple[str, str]  # kind (acquire, commit, wait, release, read, write), ring or buffer
Place = tuple[str, int]  # resource, stage of its ring
Site = tuple[int, int]  # the block that a step stands in, and which of its steps it is
Call = tuple[str, str, Site]  # target, method

UNKNOWN_TRIPS = (0, 1, 2, 3, 4, 5, 6, 9)
TILES = (0, 1, 2)
MOST_OUTCOMES = 6  # conditions whose outcomes are all combined
MOST_ENVIRONMENTS = 200
BLOCKING = ("acquire", "wait")
RING_STEPS = ("acquire", "commit", "wait", "release")
GROUP_STEPS = {"merge": ("release",), "fork": ("commit",), "fused_merge": ("try_wait", "wait", "release")}


@dataclass(frozen=True)
class Environment:
    """What the schedule does not decide: trips of unknown loops, outcomes of conditions, tiles (True = skipped)."""

    trips: int
    tiles: tuple[bool, ...]
    outcomes: tuple[bool, ...]  # in the order in which they are first asked for


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


def unused_tries(
    nodes: Sequence[Node], after: set[tuple[str, str]], end: set[tuple[str, str]] | None = None
) -> Iterator[str]:
    """Targets of tries that no blocking step can follow: none later in the text, none in a loop around the try that
    runs again. `end`: what follows in the last iteration of that loop.

    The language carries an answer over to the next iteration (NVIDIA asks for the step to stand after the try).
    """
    end = after if end is None else end
    for i, node in enumerate(nodes):
        here = _calls(nodes[i + 1 :])
        call = call_of(node)
        if call is not None:
            if call[1].startswith("try_") and (call[0], call[1].removeprefix("try_")) not in after | here:
                yield call[0]
            continue
        following, last = (end | here, end | here) if "last" in node else (after | here, end | here)
        if "loop" in node or "tiles" in node:
            following, last = following | _calls(node["body"], again=True), following
        for body in (node[key] for key in BODIES if isinstance(node.get(key), list) and key != "loop"):
            yield from unused_tries(body, following, last)


def _calls(nodes: Sequence[Node], again: bool = False) -> set[tuple[str, str]]:
    """Calls in nodes; with `again` only those that a later iteration makes, too."""
    found = set()
    for node in nodes:
        call = call_of(node)
        if call is not None:
            found.add(call)
        elif not (again and "first" in node):
            for body in (node[key] for key in BODIES if isinstance(node.get(key), list) and key != "loop"):
                found |= _calls(body, again)
    return found


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

    def unroll(self, task: Doc, env: Environment, outcomes: Outcomes) -> list[Call]:
        found: list[Call] = []
        self._body(task["body"], env, outcomes, found, tile=0, skipped=False, at=None)
        return found

    def ops(self, calls: Iterable[Call]) -> list[Op]:
        """What calls do to rings and buffers."""
        return [op for target, method, _ in calls for op in self._ops(target, method)]

    def tries(self, calls: Iterable[Call]) -> set[str]:
        """A blocking step takes the answer of the last try on its target, which is then gone: every time, or never."""
        answers: set[tuple[str, str]] = set()
        seen: dict[Site, bool] = {}
        for target, method, site in calls:
            if method.startswith("try_"):
                answers.add((target, method.removeprefix("try_")))
            elif method in BLOCKING:
                answered = (target, method) in answers
                answers.discard((target, method))
                if seen.setdefault(site, answered) != answered and self._ops(target, method):
                    return {"try"}
        return set()

    def _body(
        self,
        nodes: Sequence[Any],
        env: Environment,
        outcomes: Outcomes,
        found: list[Call],
        *,
        tile: int,
        skipped: bool,
        at: tuple[int, int] | None,
    ) -> None:
        def go(body: Sequence[Any], at: tuple[int, int] | None = at) -> None:
            self._body(body, env, outcomes, found, tile=tile, skipped=skipped, at=at)

        for i, node in enumerate(nodes):
            call = call_of(node)
            if call is not None:
                found.append((*call, (id(nodes), i)))
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
