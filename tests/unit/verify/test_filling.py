"""What fills a stage, and which arrival says so: bytes, threads, their copies, the tensor core."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tests.unit.verify.handing import (
    BODY,
    COPY,
    COPY_BODY,
    MAP,
    RING,
    ROLE,
    SIGNAL,
    STORE,
    TAKE,
    TMA,
    buffer,
    ring,
    signal,
    spec,
)

WARNINGS = ("TS27", "TS61", "TS24")
LEADER = ", producer_signaling: task_warp_leader"


def codes(text: str) -> list[str]:
    report = check_text(text)
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics if d.code[:4] not in WARNINGS]


# ---- bytes that nobody writes ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("put", [STORE, BODY, MAP, COPY])
@pytest.mark.parametrize("kind", ["tma_async", "peer_async"])
def test_a_ring_of_bytes_takes_a_work_that_writes_some(put: str, kind: str) -> None:
    assert codes(spec(ring(put, kind), RING)) == ["TS324"]
    assert codes(spec(ring(put, kind).replace(kind, "async_async"), RING)) == []


def test_a_leader_that_announces_bytes_brings_none() -> None:
    assert codes(spec(ring(STORE, "tma_async", LEADER), RING, fillers=4)) == ["TS324"]


@pytest.mark.parametrize(("kind", "found"), [("tma_async", ["TS324"]), ("peer_async", ["TS324"]), ("async_async", [])])
def test_a_signal_has_no_bytes(kind: str, found: list[str]) -> None:
    """With none to wait for, the barrier would complete at `acquire`."""
    assert codes(spec(signal(STORE, kind), SIGNAL)) == found


def test_the_tensor_core_does_not_make_a_signal_of_tma() -> None:
    assert codes(spec(signal(STORE, "tma_umma"), SIGNAL, takers=1, target="sm_100a")) == ["TS324"]


@pytest.mark.parametrize("put", [TMA, ROLE])
def test_works_without_code_may_still_write_bytes(put: str) -> None:
    assert codes(spec(ring(put, "tma_async"), RING)) == []


def test_a_work_that_no_step_calls_writes_none() -> None:
    idle = f"{STORE}\n      {ROLE.replace('put', 'later')}\n      {TMA.replace('put', 'unused')}"
    assert codes(spec(ring(idle, "tma_async"), RING)) == ["TS324"]


def test_a_ring_of_peers_is_filled_by_their_stores() -> None:
    assert codes(spec(ring(TMA, "peer_async"), RING)) == ["TS324"]


# ---- cp.async: what carries it ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("fillers", [1, 4])
def test_only_the_commit_of_a_ring_of_copies_waits_for_copies(fillers: int) -> None:
    waits = (SIGNAL[0].replace("s.commit", "cp_async.wait_group(0), s.commit"), SIGNAL[1])
    assert codes(spec(signal(COPY, "async_async"), SIGNAL, fillers)) == ["TS500"]
    assert codes(spec(signal(COPY, "async_async"), waits, fillers)) == []
    assert codes(spec(ring(COPY, "async_async"), RING, fillers)) == []


def test_a_body_that_copies_fills_a_ring_as_the_op_does() -> None:
    assert codes(spec(ring(COPY_BODY, "async_async"), RING)) == []
    assert codes(spec(signal(COPY_BODY, "async_async"), SIGNAL)) == ["TS500"]


def test_a_copy_that_nobody_waits_for_outlives_its_task() -> None:
    """The commit of another ring takes no copy along."""
    text = spec(signal(COPY, "async_async"), (SIGNAL[0], 's.wait(), "y.set(i=i, v=1.0)", s.release()'))
    text = text.replace("y: [buf]", "y: []").replace("      get: {op: load, from: t, returns: [v]}\n", "")
    assert codes(text) == ["TS502"]


TWO = buffer(COPY) + ring(COPY, "async_async").replace("buf:", "r:")


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("buf.put(i=i), r.acquire(), r.put(i=i), r.commit(), cp_async.wait_group(0), v = buf.get()", []),
        ("buf.put(i=i), r.acquire(), r.put(i=i), r.commit(), cp_async.wait_group(1), v = buf.get()", ["TS500"]),
        ("buf.put(i=i), r.acquire(), r.put(i=i), cp_async.wait_group(1), r.commit(), v = buf.get()", ["TS500"]),
        ("r.acquire(), r.put(i=i), buf.put(i=i), r.commit(), cp_async.wait_group(0), v = buf.get()", []),
    ],
)
def test_a_copy_into_a_ring_closes_no_group(steps: str, found: list[str]) -> None:
    take = 'r.wait(), v = r.get(), "y.set(i=i, v=v)", r.release()'
    text = spec(TWO, (steps, take)).replace("graph: {buf: [x], y: [buf]}", "graph: {buf: [x], r: [x], y: [r]}")
    assert codes(text) == found


def test_a_group_takes_in_the_copies_before_it() -> None:
    """Those of a ring that are in no group yet: who waits for the group, knows of them, too."""
    steps = "r.acquire(), r.put(i=i), buf.put(i=i), cp_async.wait_group(0), v = r.get(), r.commit()"
    text = spec(TWO, (steps, 'r.wait(), v = r.get(), "y.set(i=i, v=v)", r.release()'))
    text = text.replace("graph: {buf: [x], y: [buf]}", "graph: {buf: [x], r: [x], y: [r]}")
    assert "TS500" not in codes(text)


# ---- one warp speaks for all -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["umma_async", "umma_umma"])
def test_a_commit_of_the_tensor_core_says_nothing_of_other_warps(kind: str) -> None:
    synced = (SIGNAL[0].replace("s.commit", "bar.sync(), s.commit"), SIGNAL[1])
    for fillers, steps, found in ((1, SIGNAL, []), (4, SIGNAL, ["TS500"]), (4, synced, [])):
        assert codes(spec(signal(STORE, kind), steps, fillers, takers=1, target="sm_100a")) == found


@pytest.mark.parametrize("between", [ring(STORE, "async_umma"), signal(STORE, "async_umma")])
def test_a_release_by_the_tensor_core_says_nothing_of_other_warps(between: str) -> None:
    steps = SIGNAL if "\ns:" in between else RING
    synced = (steps[0], steps[1].replace(TAKE, f"{TAKE}, bar.sync()"))
    for takers, todo, found in ((1, steps, []), (4, steps, ["TS500"]), (4, synced, [])):
        assert codes(spec(between, todo, takers=takers, target="sm_100a")) == found
