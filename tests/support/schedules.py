"""Random schedules as oracle cases, good by construction: `good(draw)` builds one; `tests.support.faults` breaks it.

A schedule is a set of tasks in an order in which data flows: every ring goes from an earlier to a later task, except
feedback rings, whose consumer waits after all its own commits. With equal trip counts on both sides such a schedule
cannot deadlock, in whatever order the steps of different rings stand in a body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.draws import Draw

Case = dict[str, Any]
Node = Any
SYNC = ("acquire", "commit", "wait", "release")
BYTES = 1024


@dataclass
class Ring:
    name: str
    producer: int
    consumers: tuple[int, ...]
    stages: int
    tma: bool
    feedback: bool
    lag: bool = False  # the release of a stage stands one iteration after its read
    guard: dict[str, Any] | None = None  # the same on both sides
    buffer: str | None = None  # an unpipelined buffer that the ring's one stage guards
    ready: Ring | None = None  # split consumer: who waits tells through this ring who reads and releases
    group: str = ""  # the mode of the group whose member it is


class Builder:
    """A good schedule in the making."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.tasks = draw.number(2, 5)
        self.warps = [draw.one((1, 1, 1, 2, 4)) for _ in range(self.tasks)]
        self.mma = draw.number(1, self.tasks - 1) if draw.chance(25) else -1  # a task of the tensor core
        if self.mma >= 0:
            self.warps[self.mma] = 1
        self.trips = draw.number(1, 6)
        self.unknown_trips = draw.chance(12)
        self.persistent = draw.chance(20)
        self.skips = self.persistent and draw.chance(50)
        self.keys = 0
        count = draw.one((1, 1, 2, 2, 2, 3, 3, 4, 5))
        self.rings = [self.ring(i) for i in range(count)]
        if draw.chance(15):
            self.rings += self.grouped()
        plain = not any(r.guard or r.lag for r in self.rings)
        most = min(self.trips, 2) if plain and not self.unknown_trips else 0
        self.head = draw.number(0, most) if draw.chance(30) else 0
        self.tail = draw.number(0, most - self.head) if draw.chance(30) else 0

    def ring(self, i: int) -> Ring:
        draw = self.draw
        producer = draw.number(0, self.tasks - 2)
        later = range(producer + 1, self.tasks)
        consumers = {draw.one(later)}
        if draw.chance(20) and self.mma not in later:
            consumers.add(draw.one(later))
        ring = Ring(f"r{i}", producer, tuple(sorted(consumers)), draw.number(1, 4), False, False)
        if draw.chance(12):
            ring.producer, ring.consumers, ring.feedback = ring.consumers[0], (producer,), True
        elif draw.chance(40) and self.warps[producer] == 1 and producer != self.mma:
            ring.tma = True
        if not ring.feedback and draw.chance(30):
            ring.guard = self.guard()
        elif ring.stages > 1 and draw.chance(20):
            ring.lag = True
        elif not ring.feedback and ring.stages == 1 and self.mma not in consumers and draw.chance(15):
            ring.buffer = f"buf{i}"
        elif not ring.feedback and len(consumers) == 1 and max(consumers) < self.tasks - 1 and draw.chance(15):
            waiting = ring.consumers[0]
            reading = draw.number(waiting + 1, self.tasks - 1)
            if self.mma not in (waiting, reading):
                ring.ready = Ring(f"{ring.name}y", waiting, (reading,), draw.number(1, 3), False, False)
        return ring

    def grouped(self) -> list[Ring]:
        """Two rings that are a group: with one consumer (merge) or with one producer (fork)."""
        draw = self.draw
        mode = draw.one(("merge", "fork", "fused_merge"))
        tasks = [t for t in range(self.tasks) if t != self.mma]
        if len(tasks) < 2:
            return []
        stages = draw.number(1, 3)
        if mode == "fork":
            producer = tasks[draw.number(0, len(tasks) - 2)]
            later = [t for t in tasks if t > producer]
            ends = [(producer, draw.one(later)) for _ in "ab"]
        else:
            consumer = tasks[draw.number(1, len(tasks) - 1)]
            ends = [(draw.one([t for t in tasks if t < consumer]), consumer) for _ in "ab"]
        tma = [self.warps[p] == 1 and draw.chance(50) for p, _ in ends]
        if mode == "fork":
            tma[1] = tma[0]
        return [
            Ring(f"rg{x}", p, (c,), stages, t, False, group=mode) for x, (p, c), t in zip("ab", ends, tma, strict=True)
        ]

    def members(self, task: int) -> list[Node]:
        """The steps of the task on the shared side of the group, empty if it is not there."""
        pair = [r for r in self.rings if r.group]
        if not pair:
            return []
        a, b = (r.name for r in pair)
        mode = pair[0].group
        if mode == "fork" and task == pair[0].producer:
            return [f"{a}.acquire", f"{b}.acquire", f"{a}.write", f"{b}.write", "rgroup.commit"]
        if mode == "fork" or task not in pair[0].consumers:
            return []
        waits = ["rgroup.wait"] if mode == "fused_merge" else [f"{a}.wait", f"{b}.wait"]
        return [*waits, f"{a}.read", f"{b}.read", "rgroup.release"]

    def guard(self) -> dict[str, Any]:
        kind = self.draw.one(("every", "every", "first", "last", "when_true", "when_false"))
        if kind == "every":
            return {"every": [self.draw.number(1, 3), self.draw.number(0, 2)]}
        if kind in ("first", "last"):
            return {kind: None}
        self.keys += 1
        return {kind: "$f", "key": f"k{self.keys}"}

    # ---- bodies ------------------------------------------------------------------------------------------------

    def side(self, ring: Ring, *, producer: bool) -> list[Node]:
        """The steps of one task on one ring, for one iteration."""
        opening, work, closing = ("acquire", "write", "commit") if producer else ("wait", "read", "release")
        steps: list[Node] = [f"{ring.name}.{opening}", f"{ring.name}.{work}", f"{ring.name}.{closing}"]
        if ring.buffer:
            steps.insert(self.draw.number(1, 2), f"{ring.buffer}{'w' if producer else 'r'}.{work}")
        if self.draw.chance(40):
            steps.insert(0, f"{ring.name}.try_{opening}")
        if ring.lag and not producer:
            steps[-1] = {"every": [1, 1], "body": [f"{ring.name}.release"]}
            steps.append({"last": [f"{ring.name}.release"]})
        if ring.guard is None:
            return steps
        alone = (ring.producer if producer else ring.consumers[0]) == self.mma
        if not alone and self.draw.chance(70):
            return [guarded(ring.guard, steps)]
        return [guarded(ring.guard, [s]) for s in steps]

    def split(self, ring: Ring, task: int) -> list[Node]:
        """The steps of a task on a ring with a split consumer: it waits and tells, or is told, reads and releases."""
        assert ring.ready is not None
        if task == ring.ready.producer:
            return [f"{ring.name}.wait", *self.side(ring.ready, producer=True)]
        told = self.side(ring.ready, producer=False)
        return [*told[:-1], f"{ring.name}.read", f"{ring.name}.release", told[-1]]

    def body(self, task: int) -> list[Node]:
        """The steps of one iteration: those of the rings mixed, those of feedback rings after all commits."""
        early, late = [self.members(task)], []
        for ring in self.rings:
            if task == (ring.producer if ring.group == "fork" else ring.consumers[0] if ring.group else -1):
                continue
            if task == ring.producer:
                early.append(self.side(ring, producer=True))
            elif ring.ready is not None and task in (ring.ready.producer, *ring.ready.consumers):
                early.append(self.split(ring, task))
            elif task in ring.consumers:
                (late if ring.feedback else early).append(self.side(ring, producer=False))
        if task == self.mma:
            return [*self.asks(task), *closed_last(early), *closed_last(late)]
        return [*self.asks(task), *self.mix(early), *self.mix(late)]

    def asks(self, task: int) -> list[Node]:
        """The work whose result the conditions of a task test."""
        tests = any(
            r.guard and ("when_true" in r.guard or "when_false" in r.guard) and task in (r.producer, *r.consumers)
            for r in self.rings
        )
        return [{"call": "g.flag", "as": ["f"]}] if tests else []

    def mix(self, parts: list[list[Node]]) -> list[Node]:
        if self.draw.chance(30):
            return [s for part in parts for s in part]
        queues = [list(p) for p in parts if p]
        mixed: list[Node] = []
        while queues:
            queue = self.draw.one(queues)
            mixed.append(queue.pop(0))
            queues = [q for q in queues if q]
        return mixed

    def schedule(self, task: int) -> list[Node]:
        bound: Node = "runtime" if self.unknown_trips else self.trips - self.head - self.tail
        steps = [s for _ in range(self.head) for s in self.body(task)]
        steps.append({"loop": [0, bound, 1], "body": self.body(task)})
        steps += [s for _ in range(self.tail) for s in self.body(task)]
        if not self.persistent:
            return steps
        queue = ["wq.try_wait", "wq.wait", "wq.get_and_advance_work_tile", "wq.release"]
        body = [{"skippable": steps}] if self.skips else steps
        return [{"tiles": "wq", "skip_if": self.skips, "body": [*body, *queue]}]

    # ---- the case ----------------------------------------------------------------------------------------------

    def case(self) -> Case:
        flag = {"name": "flag", "side": "consumer", "aux": True, "returns": ["f"]}
        resources: list[Node] = [
            {"name": "g", "works": [{"name": "read", "side": "consumer"}, *([flag] if self.keys else [])]},
            {"name": "o"},
        ]
        aliases = []
        for ring in self.rings:
            resources += [self.resource(r) for r in (ring, ring.ready) if r is not None]
            if ring.buffer:
                pair = [f"{ring.buffer}{side}" for side in "wr"]
                resources += [{"name": n, "smem": [{"name": f"{n}_t", "bytes": BYTES}]} for n in pair]
                aliases.append([[f"{n}_t"] for n in pair])
        if self.persistent:
            resources.append({"name": "wq", "kind": "work_queue", "scheduler": "static"})
        case: Case = {"resources": resources, "tasks": self.task_list()}
        members = [r for r in self.rings if r.group]
        if members:
            case["groups"] = [{"name": "rgroup", "mode": members[0].group, "members": [r.name for r in members]}]
        case["graph"] = graph_of(case)
        if aliases:
            case["alias"] = {"smem": aliases}
        return case

    def resource(self, ring: Ring) -> Node:
        fills = "tma" if ring.tma else "umma" if ring.producer == self.mma else "async"
        empties = "umma" if self.mma in ring.consumers else "async"
        produced = self.warps[ring.producer]
        released = ring.ready.consumers if ring.ready is not None else ring.consumers
        consumed = sum(self.warps[c] for c in released)
        lanes = ring.tma and empties == "async" and not ring.group and self.draw.chance(50)
        pipeline: dict[str, Any] = {
            "type": f"{fills}_{empties}",
            "stages": ring.stages,
            "producer_threads": 32 * produced if fills == "async" else 1,
            "consumer_threads": 1 if empties == "umma" else consumed if lanes else 32 * consumed,
        }
        if ring.tma:
            pipeline["bytes"] = BYTES
        if ring.lag:
            pipeline["advance_on_wait"] = True
        return {"name": ring.name, "pipeline": pipeline}

    def task_list(self) -> list[Node]:
        tasks, warp = [], 0
        for i in range(self.tasks):
            body = self.schedule(i)
            pairs = [r.ready for r in self.rings if r.ready is not None]
            src = [r.name for r in self.rings if i in (*r.consumers, *(r.ready.consumers if r.ready else ()))]
            src += [r.name for r in pairs if i in r.consumers]
            src += [f"{r.buffer}r" for r in self.rings if r.buffer and i in r.consumers]
            dst = [r.name for r in self.rings if r.producer == i]
            dst += [f"{r.buffer}w" for r in self.rings if r.buffer and r.producer == i]
            dst += [r.name for r in pairs if r.producer == i]
            loop = innermost(body)
            if self.asks(i) or not src or any(r.tma for r in self.rings if r.producer == i):
                src.append("g")
            if not self.asks(i) and "g" in src:
                loop.insert(0, "g.read")
            reads_buffer = any(r.buffer and i in r.consumers for r in self.rings)
            if (not dst and (i != self.mma or "g" in src)) or reads_buffer:  # all that is read flows somewhere
                dst.append("o")
                loop.insert(0 if i == self.mma else len(loop), "o.write")
            if self.persistent:
                src.append("wq")
            tasks.append({"name": f"T{i}", "src": src, "dst": dst, "warp": warp, "warps": self.warps[i], "body": body})
            warp += self.warps[i]
        return tasks


def guarded(guard: dict[str, Any], steps: list[Node]) -> Node:
    """A guard around steps."""
    kind = next(iter(guard))
    return {kind: steps} if kind in ("first", "last") else {**guard, "body": steps}


def mentions(node: Node, methods: Sequence[str]) -> bool:
    """Whether a step, or the steps of a guard, are among some methods."""
    steps = [node] if isinstance(node, str) else [s for inner in lists([node]) for s in inner]
    return any(isinstance(s, str) and s.split(".")[1] in methods for s in steps)


def closed_last(parts: list[list[Node]]) -> list[Node]:
    """The tensor core reads what its own works fill: stages are released after them."""
    closing = ("commit", "release")
    opened = [s for part in parts for s in part if not mentions(s, closing)]
    return [*opened, *(s for part in parts for s in part if mentions(s, closing))]


def lists(nodes: list[Node]) -> Iterator[list[Node]]:
    """Every list of steps in a body."""
    yield nodes
    for node in nodes:
        if isinstance(node, dict):
            for key in ("body", "skippable", "first", "last"):
                if isinstance(node.get(key), list):
                    yield from lists(node[key])


def innermost(body: list[Node]) -> list[Node]:
    """The steps of the domain loop of a task."""
    return next(n["body"] for steps in lists(body) for n in steps if isinstance(n, dict) and "loop" in n)


def graph_of(case: Case) -> dict[str, list[str]]:
    """What a task writes comes from all that it reads; what TMA loads comes from global memory alone."""
    tma = {r["name"] for r in case["resources"] if r.get("pipeline", {}).get("type", "").startswith("tma_")}
    graph: dict[str, list[str]] = {}
    for task in case["tasks"]:
        for down in task["dst"]:
            ups = graph.setdefault(down, [])
            ups += [u for u in task["src"] if u not in ups and (down not in tma or u in ("g", "wq"))]
    return graph


def good(draw: Draw) -> Case:
    """A case that is good by construction."""
    return Builder(draw).case()
