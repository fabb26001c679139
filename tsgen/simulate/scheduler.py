"""Who moves next: every order of warps and engines that the hardware allows is one that a seed may choose.

A seed is a policy and the numbers it draws. Policies make warps, tasks, CTAs or engines slow, as far as that goes: what
is slow moves only when nothing else can. `--seed N` runs the same schedule again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Protocol

from tsgen.simulate.barriers import Signal

if TYPE_CHECKING:
    from tsgen.simulate.trace import Recorder
    from tsgen.simulate.warp import Site, Warp

FAST, SLOW = 1.0, 0.002
TRIES = 12  # draws before whoever is fastest moves


class Actor(Protocol):
    """Something that moves. `marks`: what a policy may slow down: its engine or task, its warp, its CTA."""

    @property
    def marks(self) -> tuple[str, ...]: ...

    def move(self) -> None: ...

    def take_cost(self) -> float:
        """Cycles from now until it moves on."""
        ...


class Operation:
    """Work of an asynchronous engine. `finish` does it, and may give what the engine does next for the same call."""

    __slots__ = (
        "after",
        "done",
        "engine",
        "finish",
        "marks",
        "queue",
        "scheduler",
        "signal",
        "site",
        "size",
        "width",
    )

    def __init__(
        self,
        scheduler: Scheduler,
        engine: str,
        cta: int,
        site: Site,
        finish: Callable[[], Operation | None],
        queue: InOrder | None = None,
        signal: Signal | None = None,
        size: int = 0,
        width: float = 1.0,
    ) -> None:
        self.scheduler = scheduler
        self.engine = engine
        self.marks = (f"engine {engine}", f"CTA {cta}")
        self.site = site
        self.finish = finish
        self.queue = queue
        self.signal = signal  # fired when it is done
        self.size = size  # bytes, or floating-point operations of tensor cores
        self.width = width  # of their operands, in units of 16 bits
        self.after: list[Callable[[], None]] = []
        self.done = False

    def take_cost(self) -> float:
        return 0.0

    def move(self) -> None:
        then = self.finish()
        self.done = True
        for hear in self.after:
            hear()
        if self.queue is not None:
            self.queue.next()
        if then is not None:
            self.scheduler.issue(then)
        if self.signal is not None:
            self.signal.fire()
        self.site.warp.cluster.operation_ended()


class InOrder:
    """Operations of one thread that an engine performs in order."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.waiting: deque[Operation] = deque()

    def push(self, operation: Operation) -> None:
        self.waiting.append(operation)
        if len(self.waiting) == 1:
            self.scheduler.begin(operation)

    def next(self) -> None:
        self.waiting.popleft()
        if self.waiting:
            self.scheduler.begin(self.waiting[0])


class Scheduler:
    """Chooses at random among all that can move, weighted by the seed's policy."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.ready: list[Actor] = []
        self.moves = 0
        self.now = 0.0  # cycles, where time is modelled
        self.recorder: Recorder | None = None
        self.speed: dict[str, float] = {}
        self.policy, self._slow = POLICIES[seed % len(POLICIES)]
        self._last_first = self.policy == "last come, first served"

    def add(self, actor: Actor) -> None:
        """Lets somebody move who can."""
        self.ready.append(actor)

    def wake(self, warp: Warp) -> None:
        """Lets a warp move whose signal has fired."""
        self.add(warp)

    def work(self, warp: Warp, shared: float, global_: float, instructions: float) -> float:
        """Cycles of a warp's own work: none without time."""
        return 0.0

    def issue(self, operation: Operation) -> None:
        """Hands an operation to its engine."""
        operation.site.warp.cluster.flying += 1
        if operation.queue is not None:
            operation.queue.push(operation)
        else:
            self.begin(operation)

    def begin(self, operation: Operation) -> None:
        """The operation may finish from now on."""
        self.add(operation)

    def run(self, limit: int) -> bool:
        """Moves until nobody can. False if `limit` moves were not enough."""
        while self.ready:
            self.moves += 1
            if self.moves > limit:
                return False
            self.pick().move()
        return True

    def pick(self) -> Actor:
        ready, random = self.ready, self.random
        n = len(ready)
        if self._last_first:
            return ready.pop() if random.random() < 0.95 else ready.pop(random.randrange(n))
        best, chosen = -1.0, 0
        for _ in range(min(TRIES, 4 * n)):
            i = int(random.random() * n)
            weight = self.weight(ready[i])
            if random.random() < weight:
                chosen = i
                break
            if weight > best:
                best, chosen = weight, i
        else:
            chosen = max(range(n), key=lambda i: self.weight(ready[i]))
        actor = ready[chosen]
        ready[chosen] = ready[-1]
        ready.pop()
        return actor

    def weight(self, actor: Actor) -> float:
        found = FAST
        for mark in actor.marks:
            speed = self.speed.get(mark)
            if speed is None:
                speed = self.speed[mark] = self._slow(self.random, mark)
            found *= speed
        return found


def _is_engine(mark: str) -> bool:
    return mark.startswith("engine ")


def _fair(random: Random, mark: str) -> float:
    return FAST


def _any_speed(random: Random, mark: str) -> float:
    return float(10 ** random.uniform(-3, 0))


def _slow_engines(random: Random, mark: str) -> float:
    return SLOW if _is_engine(mark) else FAST


def _fast_engines(random: Random, mark: str) -> float:
    return FAST if _is_engine(mark) else 0.05


def _one_in_three(what: Callable[[str], bool]) -> Callable[[Random, str], float]:
    def speed(random: Random, mark: str) -> float:
        return SLOW if what(mark) and random.random() < 0.34 else FAST

    return speed


Speed = Callable[[Random, str], float]
POLICIES: tuple[tuple[str, Speed], ...] = (
    ("fair", _fair),
    ("slow engines", _slow_engines),
    ("some tasks starved", _one_in_three(lambda m: m.startswith("task "))),
    ("some warps starved", _one_in_three(lambda m: m.startswith("warp "))),
    ("fast engines", _fast_engines),
    ("some engines starved", _one_in_three(_is_engine)),
    ("last come, first served", _fair),
    ("any speed", _any_speed),
    ("some CTAs starved", _one_in_three(lambda m: m.startswith("CTA "))),
    ("some of all starved", _one_in_three(lambda m: True)),
)
