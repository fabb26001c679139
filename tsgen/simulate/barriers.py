"""mbarriers as the hardware has them: pending arrivals, transaction bytes, and one phase bit that waits test.

Beside the bit each barrier counts its phases, and each arrival says which phase it is meant for: where the bit and the
count disagree the hardware goes on with the wrong phase, and the simulator stops.
"""

from __future__ import annotations

from collections.abc import Callable

from tsgen.simulate.faults import Fault, Site


class Signal:
    """Something that changes. `wake` is called with everybody who waits for a change."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def fire(self) -> None:
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()


class MBarrier(Signal):
    """An mbarrier. `need`: arrivals of a phase; `completed`: phases so far; `listeners` hear of each completion."""

    __slots__ = ("arrived_by", "completed", "listeners", "name", "need", "pending", "tx")

    def __init__(self, name: str, need: int) -> None:
        super().__init__()
        self.name = name
        self.need = self.pending = need
        self.tx = 0
        self.completed = 0
        self.listeners: list[Callable[[int], None]] = []
        self.arrived_by: list[Site] = []  # in the current phase

    def passes(self, phase: int, who: Site) -> bool:
        """Whether a wait for `phase` goes on. Raises Fault where the phase bit says what the count does not."""
        done = self.completed
        if done == phase + 1:
            return True
        if done > phase + 1:
            raise Fault(
                "phase",
                f"{who} waits for phase {phase} of {self.name}, which has completed {done}: its bit has moved on",
                ("the wait", who),
            )
        if (phase - done) % 2:
            raise Fault(
                "phase",
                f"{who} waits for phase {phase} of {self.name}, which has completed {done}: its bit lets the wait pass",
                ("the wait", who),
            )
        return False

    def arrive(self, count: int, phase: int, who: Site) -> None:
        """`count` arrivals meant for `phase`."""
        if not count:
            return
        self._mine(phase, who, "arrives at", "arrivals")
        if count > self.pending:
            others = "".join(f", {s}" for s in self.arrived_by[-2:])
            raise Fault(
                "arrivals",
                f"{who} arrives at {self.name} with {count} where {self.pending} of {self.need} are missing in phase "
                f"{phase}{others and '; before it:' + others[1:]}",
                ("one arrival too many", who),
            )
        self.pending -= count
        self.arrived_by.append(who)
        self._check()

    def expect(self, nbytes: int, phase: int, who: Site) -> None:
        """Announces bytes of the current phase; the arrival that goes with them comes after."""
        self._mine(phase, who, "announces bytes at", "bytes")
        self.tx += nbytes

    def complete(self, nbytes: int, phase: int, who: Site) -> None:
        """Bytes have been written."""
        self._mine(phase, who, "delivers bytes to", "bytes")
        self.tx -= nbytes
        self._check()

    def _mine(self, phase: int, who: Site, does: str, kind: str) -> None:
        if phase != self.completed:
            raise Fault(
                "bytes" if kind == "bytes" else "arrivals",
                f"{who} {does} {self.name} for phase {phase}, and phase {self.completed} counts it",
                ("counted in the wrong phase", who),
            )

    def _check(self) -> None:
        if self.pending or self.tx:
            return
        self.completed += 1
        self.pending = self.need
        self.arrived_by.clear()
        for listener in self.listeners:
            listener(self.completed)
        self.fire()

    @property
    def state(self) -> str:
        """What is missing, in words."""
        parts = []
        if self.pending:
            parts.append(f"{self.pending} of {self.need} arrivals")
        if self.tx:
            parts.append(f"{self.tx} bytes" if self.tx > 0 else f"the announcement of {-self.tx} bytes")
        return " and ".join(parts)


class NamedBarrier(Signal):
    """A named barrier: `threads` of a phase arrive, those that synchronise wait for the others."""

    __slots__ = ("arrived", "completed", "name", "threads")

    def __init__(self, name: str, threads: int) -> None:
        super().__init__()
        self.name = name
        self.threads = threads
        self.arrived = 0
        self.completed = 0

    def arrive(self, threads: int, who: Site) -> int:
        """Threads arrive; the phase that they belong to."""
        phase = self.completed
        self.arrived += threads
        if self.arrived > self.threads:
            raise Fault(
                "arrivals",
                f"{who} arrives at {self.name} with {threads} threads, and {self.arrived} of {self.threads} are there",
                ("too many threads", who),
            )
        if self.arrived == self.threads:
            self.arrived = 0
            self.completed += 1
            self.fire()
        return phase

    @property
    def state(self) -> str:
        return f"{self.threads - self.arrived} of {self.threads} threads"
