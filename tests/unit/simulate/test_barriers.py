"""Barriers as the hardware has them: what completes a phase, and what its one bit says to whom."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tsgen.diagnostics import Span
from tsgen.simulate.barriers import MBarrier, NamedBarrier
from tsgen.simulate.faults import Fault


class Somebody:
    """Who arrives."""

    span = Span.start()
    warp = None

    def __str__(self) -> str:
        return "somebody"


WHO = Somebody()


def test_a_phase_completes_with_its_last_arrival() -> None:
    b = MBarrier("b", 2)
    b.arrive(1, 0, WHO)
    assert not b.passes(0, WHO)
    b.arrive(1, 0, WHO)
    assert b.passes(0, WHO) and not b.passes(1, WHO)


def test_bytes_hold_a_phase_back_whether_they_are_announced_before_or_after() -> None:
    b = MBarrier("b", 1)
    b.expect(64, 0, WHO)
    b.arrive(1, 0, WHO)
    assert not b.passes(0, WHO) and b.state == "64 bytes"
    b.complete(64, 0, WHO)
    assert b.passes(0, WHO)
    b.complete(32, 1, WHO)
    assert b.state == "1 of 1 arrivals and the announcement of 32 bytes"
    b.expect(32, 1, WHO)
    b.arrive(1, 1, WHO)
    assert b.passes(1, WHO)


def test_a_producer_passes_the_phase_before_the_first() -> None:
    assert MBarrier("b", 1).passes(-1, WHO)


def test_listeners_and_waiters_hear_of_a_completion() -> None:
    b = MBarrier("b", 1)
    heard: list[object] = []
    b.listeners.append(heard.append)
    b.waiting.append(lambda: heard.append("woken"))
    b.arrive(1, 0, WHO)
    assert heard == [1, "woken"] and not b.waiting


def done(*phases: int) -> MBarrier:
    b = MBarrier("b", 1)
    for p in phases:
        b.arrive(1, p, WHO)
    return b


@pytest.mark.parametrize(
    ("act", "kind", "said"),
    [
        (lambda: done().passes(1, WHO), "phase", "lets the wait pass"),  # parity 1 looks complete before phase 0 is
        (lambda: done(0, 1).passes(0, WHO), "phase", "has moved on"),
        (lambda: done(0).arrive(1, 0, WHO), "arrivals", "phase 1 counts it"),
        (lambda: done().arrive(1, 1, WHO), "arrivals", "phase 0 counts it"),
        (lambda: done().arrive(2, 0, WHO), "arrivals", "with 2 where 1 of 1"),
        (lambda: done(0).complete(16, 0, WHO), "bytes", "phase 1 counts it"),
        (lambda: done(0).expect(16, 2, WHO), "bytes", "phase 1 counts it"),
        (lambda: NamedBarrier("n", 32).arrive(64, WHO), "arrivals", "64 of 32"),
    ],
)
def test_what_the_hardware_would_not_forgive(act: Callable[[], object], kind: str, said: str) -> None:
    with pytest.raises(Fault) as e:
        act()
    assert e.value.kind == kind and said in e.value.message


def test_a_named_barrier_comes_round() -> None:
    n = NamedBarrier("n", 64)
    first = n.arrive(32, WHO)
    assert n.completed == first == 0
    assert n.arrive(32, WHO) == 0 and n.completed == 1
    assert n.arrive(32, WHO) == 1 and n.state == "32 of 64 threads"
