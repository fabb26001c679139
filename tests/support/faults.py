"""Faults for random schedules: `faulty(draw)` builds a good case and breaks one thing in it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

from tests.support.draws import Draw
from tests.support.schedules import SYNC, Case, Node, good, guarded, innermost, lists


def sites(case: Case, methods: Sequence[str] = SYNC) -> list[tuple[list[Node], int]]:
    """Places of steps on rings."""
    return [
        (steps, i)
        for task in case["tasks"]
        for steps in lists(task["body"])
        for i, s in enumerate(steps)
        if isinstance(s, str) and s.startswith("r") and s.split(".")[1] in methods
    ]


def _drop(case: Case, draw: Draw) -> bool:
    steps, i = draw.one(sites(case))
    del steps[i]
    return True


def _duplicate(case: Case, draw: Draw) -> bool:
    steps, i = draw.one(sites(case))
    steps.insert(i, steps[i])
    return True


def _swap(case: Case, draw: Draw) -> bool:
    steps, i = draw.one(sites(case))
    j = i + draw.one((-1, 1))
    if not 0 <= j < len(steps):
        return False
    steps[i], steps[j] = steps[j], steps[i]
    return True


def _move(case: Case, draw: Draw) -> bool:
    """A step somewhere else in its list: an early release, a late wait."""
    steps, i = draw.one(sites(case))
    j = draw.number(0, len(steps) - 1)
    steps.insert(j, steps.pop(i))
    return i != j


def _retarget(case: Case, draw: Draw) -> bool:
    """A step on another ring of the task."""
    steps, i = draw.one(sites(case))
    rings = [r["name"] for r in case["resources"] if r.get("pipeline")]
    name, method = steps[i].split(".")
    other = draw.one(rings)
    steps[i] = f"{other}.{method}"
    return other != name


def _rings(case: Case) -> list[Node]:
    return [r for r in case["resources"] if r.get("pipeline")]


def _count(case: Case, draw: Draw) -> bool:
    pipeline = draw.one(_rings(case))["pipeline"]
    key = draw.one(("producer_threads", "consumer_threads"))
    old = pipeline[key]
    pipeline[key] = draw.one((old + 1, old - 1 or 2, 2 * old, old + 32))
    return True


def _stages(case: Case, draw: Draw) -> bool:
    pipeline = draw.one(_rings(case))["pipeline"]
    old = pipeline["stages"]
    pipeline["stages"] = draw.one((1, old + 1, max(1, old - 1)))
    return bool(pipeline["stages"] != old)


def _trips(case: Case, draw: Draw) -> bool:
    loops = [n for t in case["tasks"] for ls in lists(t["body"]) for n in ls if isinstance(n, dict) and "loop" in n]
    loop = draw.one(loops)["loop"]
    if not isinstance(loop[1], int):
        return False
    loop[1] = max(0, loop[1] + draw.one((-1, 1, 2)))
    return True


def _guard(case: Case, draw: Draw) -> bool:
    """A guard around a step, or around all steps of a ring, in one task only."""
    loops = [innermost(t["body"]) for t in case["tasks"]]
    found = [(steps, i) for steps, i in sites(case) if any(steps is loop for loop in loops)]
    if not found:
        return False
    steps, i = draw.one(found)
    ring = steps[i].split(".")[0]
    whole = draw.chance(50)
    chosen = [s for k, s in enumerate(steps) if k == i or (whole and isinstance(s, str) and s.startswith(f"{ring}."))]
    first = next(k for k, s in enumerate(steps) if k == i or s in chosen)
    rest = [s for s in steps[first:] if s not in chosen] if whole else [s for k, s in enumerate(steps) if k >= i + 1]
    guard = draw.one(({"first": None}, {"last": None}, {"every": [2, 0]}, {"every": [1, 1]}))
    steps[first if whole else i :] = [guarded(guard, chosen), *rest]
    return True


def _unguard(case: Case, draw: Draw) -> bool:
    """A guard that one side does not have, or has with other numbers or another outcome."""
    found = [
        (ls, i)
        for t in case["tasks"]
        for ls in lists(t["body"])
        for i, n in enumerate(ls)
        if isinstance(n, dict) and set(n) & {"first", "last", "every", "when_true", "when_false"}
    ]
    if not found:
        return False
    steps, i = draw.one(found)
    node = steps[i]
    if draw.chance(40):
        steps[i : i + 1] = next(node[k] for k in ("body", "first", "last") if k in node)
    elif "every" in node:
        node["every"][draw.number(0, 1)] += 1
    elif "when_true" in node:
        node["when_false"] = node.pop("when_true")
    elif "when_false" in node:
        node["when_true"] = node.pop("when_false")
    else:
        kind = "first" if "first" in node else "last"
        node["last" if kind == "first" else "first"] = node.pop(kind)
    return True


def _unskip(case: Case, draw: Draw) -> bool:
    """A step that runs on skipped tiles, too."""
    found = [(ls, i) for t in case["tasks"] for ls in lists(t["body"]) for i, n in enumerate(ls) if "skippable" in n]
    if not found:
        return False
    steps, i = draw.one(found)
    inner = steps[i]["skippable"]
    at = [k for k, n in enumerate(inner) if isinstance(n, str) and n.split(".")[1] in SYNC]
    if not at:
        return False
    k = draw.one(at)
    steps.insert(i if k == 0 else i + 1, inner.pop(k))
    return True


FAULTS: dict[str, Callable[[Case, Draw], bool]] = {
    "drop": _drop,
    "duplicate": _duplicate,
    "swap": _swap,
    "move": _move,
    "retarget": _retarget,
    "count": _count,
    "stages": _stages,
    "trips": _trips,
    "guard": _guard,
    "unguard": _unguard,
    "unskip": _unskip,
}


def faulty(draw: Draw) -> tuple[str, Case]:
    """A case with one fault, and the fault's name. Some faults change nothing that matters."""
    case = good(draw)
    for _ in range(8):
        name = draw.one(tuple(FAULTS))
        broken = copy.deepcopy(case)
        if FAULTS[name](broken, draw):
            return name, broken
    return "none", case
