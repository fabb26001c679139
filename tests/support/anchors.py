"""Schedules of the usual kernels as oracle cases, by stages and trip count: what the checkers' speed is measured on.

`trips=None` leaves the trip count open: a proof then holds for all of them.
"""

from __future__ import annotations

from typing import Any

Case = dict[str, Any]
Node = Any
BYTES = 1024


def _loop(trips: int | None, body: list[Node]) -> Node:
    return {"loop": [0, "runtime" if trips is None else trips, 1], "body": body}


def _ring(name: str, kind: str, stages: int, producer: int, consumer: int) -> Node:
    pipeline: dict[str, Any] = {
        "type": kind,
        "stages": stages,
        "producer_threads": producer,
        "consumer_threads": consumer,
    }
    if kind.startswith("tma"):
        pipeline["bytes"] = BYTES
    return {"name": name, "pipeline": pipeline}


def _task(name: str, src: list[str], dst: list[str], warp: int, warps: int, body: list[Node]) -> Node:
    return {"name": name, "src": src, "dst": dst, "warp": warp, "warps": warps, "body": body}


def _fill(ring: str) -> list[Node]:
    return [f"{ring}.try_acquire", f"{ring}.acquire", f"{ring}.write", f"{ring}.commit"]


def _hold(ring: str) -> list[Node]:
    return [f"{ring}.try_wait", f"{ring}.wait", f"{ring}.read"]


def copy(stages: int, trips: int | None) -> Case:
    """One warp loads with TMA, four store."""
    return {
        "resources": [{"name": "gm"}, _ring("sm", "tma_async", stages, 1, 128), {"name": "out"}],
        "tasks": [
            _task("Load", ["gm"], ["sm"], 4, 1, [_loop(trips, ["gm.read", *_fill("sm")])]),
            _task("Store", ["sm"], ["out"], 0, 4, [_loop(trips, [*_hold("sm"), "out.write", "sm.release"])]),
        ],
        "graph": {"sm": ["gm"], "out": ["sm"]},
    }


def gemm(stages: int, trips: int | None) -> Case:
    """Two load warps, an MMA warp, an epilogue; two accumulators in tensor memory."""
    mma = ["sa.try_wait", "sb.try_wait", "sa.wait", "sb.wait", "sa.read", "sb.read", "tc.write"]
    return {
        "resources": [
            {"name": "gm"},
            _ring("sa", "tma_umma", stages, 1, 1),
            _ring("sb", "tma_umma", stages, 1, 1),
            _ring("tc", "umma_async", 2, 1, 128),
            {"name": "gd"},
        ],
        "tasks": [
            _task("LoadA", ["gm"], ["sa"], 4, 1, [_loop(trips, ["gm.read", *_fill("sa")])]),
            _task("LoadB", ["gm"], ["sb"], 5, 1, [_loop(trips, ["gm.read", *_fill("sb")])]),
            _task(
                "Mma",
                ["sa", "sb"],
                ["tc"],
                6,
                1,
                ["tc.try_acquire", "tc.acquire", _loop(trips, [*mma, "sa.release", "sb.release"]), "tc.commit"],
            ),
            _task("Store", ["tc"], ["gd"], 0, 4, [_loop(trips, []), *_hold("tc"), "gd.write", "tc.release"]),
        ],
        "graph": {"sa": ["gm"], "sb": ["gm"], "tc": ["sa", "sb"], "gd": ["tc"]},
    }


def persistent(case: Case) -> Case:
    """The same tasks, each for all tiles of a static queue."""
    queue = ["wq.try_wait", "wq.wait", "wq.get_and_advance_work_tile", "wq.release"]
    tasks = [
        {**t, "src": [*t["src"], "wq"], "body": [{"tiles": "wq", "body": [*t["body"], *queue]}]} for t in case["tasks"]
    ]
    return {
        **case,
        "resources": [*case["resources"], {"name": "wq", "kind": "work_queue", "scheduler": "static"}],
        "tasks": tasks,
        "graph": {down: [*ups, "wq"] for down, ups in case["graph"].items()},
    }


def attention(stages: int, trips: int | None) -> Case:
    """Seven tasks: loads of q and of k/v, two products, two softmax warpgroups, correction with the epilogue."""
    softmax = []
    for i in (0, 1):
        outputs = [f"{ring}{i}.{method}" for method in ("acquire", "write", "commit") for ring in "pc"]
        softmax.append([_loop(trips, [*_hold(f"s{i}"), *outputs, f"s{i}.release"])])
    first = ["q.wait", "q.read", _loop(trips, [*_hold("k"), *_fill("s0"), *_fill("s1"), "k.release"]), "q.release"]
    second = [
        "o.acquire",
        _loop(trips, [*_hold("v"), *_hold("p0"), *_hold("p1"), "o.write", "v.release", "p0.release", "p1.release"]),
        "o.commit",
    ]
    correct = [
        _loop(trips, ["c0.wait", "c0.read", "c0.release", "c1.wait", "c1.read", "c1.release"]),
        *_hold("o"),
        "gd.write",
        "o.release",
    ]
    return {
        "resources": [
            {"name": "gm"},
            _ring("q", "tma_umma", 1, 1, 1),
            _ring("k", "tma_umma", stages, 1, 1),
            _ring("v", "tma_umma", stages, 1, 1),
            *(_ring(f"s{i}", "umma_async", 1, 1, 128) for i in (0, 1)),
            *(_ring(f"p{i}", "async_umma", 1, 128, 1) for i in (0, 1)),
            *(_ring(f"c{i}", "async_async", 1, 128, 128) for i in (0, 1)),
            _ring("o", "umma_async", 1, 1, 128),
            {"name": "gd"},
        ],
        "tasks": [
            _task("LoadK", ["gm"], ["q", "k"], 14, 1, [*_fill("q"), _loop(trips, ["gm.read", *_fill("k")])]),
            _task("LoadV", ["gm"], ["v"], 15, 1, [_loop(trips, ["gm.read", *_fill("v")])]),
            _task("MmaQK", ["q", "k"], ["s0", "s1"], 12, 1, first),
            _task("MmaPV", ["p0", "p1", "v"], ["o"], 13, 1, second),
            _task("Softmax0", ["s0"], ["p0", "c0"], 0, 4, softmax[0]),
            _task("Softmax1", ["s1"], ["p1", "c1"], 4, 4, softmax[1]),
            _task("Correct", ["c0", "c1", "o"], ["gd"], 8, 4, correct),
        ],
        "graph": {
            "q": ["gm"],
            "k": ["gm"],
            "v": ["gm"],
            "s0": ["q", "k"],
            "s1": ["q", "k"],
            "p0": ["s0"],
            "p1": ["s1"],
            "c0": ["s0"],
            "c1": ["s1"],
            "o": ["v", "p0", "p1"],
            "gd": ["o", "c0", "c1"],
        },
    }


def pairs(count: int, stages: int, trips: int | None) -> Case:
    """Independent producers and consumers: every interleaving of theirs is a state to a search."""
    resources: list[Node] = [{"name": "gm"}, {"name": "out"}]
    tasks, graph = [], {}
    for i in range(count):
        resources.append(_ring(f"r{i}", "async_async", stages, 32, 32))
        fill = _loop(trips, ["gm.read", *_fill(f"r{i}")])
        drain = _loop(trips, [*_hold(f"r{i}"), "out.write", f"r{i}.release"])
        tasks.append(_task(f"P{i}", ["gm"], [f"r{i}"], 2 * i, 1, [fill]))
        tasks.append(_task(f"C{i}", [f"r{i}"], ["out"], 2 * i + 1, 1, [drain]))
        graph[f"r{i}"] = ["gm"]
    return {"resources": resources, "tasks": tasks, "graph": graph | {"out": [f"r{i}" for i in range(count)]}}
