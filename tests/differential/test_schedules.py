"""Random schedules before tsgen and the exhaustive reference, some before NVIDIA too (campaign.py runs more)."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.differential.campaign import UNEXPLAINED, Outcome, classes, describe, run
from tests.differential.verdicts import ours, reference
from tests.support import anchors
from tests.support.draws import Drawn
from tests.support.faults import faulty
from tests.support.schedules import Case, good

FILLS = ["g.read", "r0.acquire", "r0.write", "r0.commit", "r1.acquire", "r1.write", "r1.commit"]
READS = ["r1.wait", "r0.read", "r1.read", "r1.release", "r0.release", "o.write"]
QUIET = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@st.composite
def schedules(draw: Callable[[st.SearchStrategy[Any]], Any], faults: bool = False) -> tuple[str, Case]:
    """Random cases: ("good", case), or with `faults` one fault's name and the broken case."""
    source = Drawn(draw)
    return faulty(source) if faults else ("good", good(source))


def _wrong(outcomes: list[Outcome]) -> str:
    """The disagreements that are tsgen's, or that nothing explains."""
    found = classes(outcomes)
    return "\n".join(
        f"{kind}\n{describe(those[0])}"
        for kind, those in found.items()
        if kind.startswith("tsgen") or UNEXPLAINED in kind
    )


def test_random_schedules_agree_with_the_reference() -> None:
    outcomes = list(run(200, 100_000, oracle=False, jobs=1))
    assert _wrong(outcomes) == ""
    answers = {o.found.ours.answer for o in outcomes}
    assert answers == {"accept", "reject"}


@pytest.mark.dsl
@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl")
def test_disagreements_with_nvidia_are_explained() -> None:
    outcomes = list(run(90, 200_000, most_states=5_000, jobs=1))
    assert _wrong(outcomes) == ""
    assert any(o.found.theirs is not None and o.found.theirs.answer == "accept" for o in outcomes)


@settings(max_examples=60, **QUIET)
@given(schedules())
def test_good_schedules_are_proven(drawn: tuple[str, Case]) -> None:
    _, case = drawn
    found = ours({**case, "name": "drawn"})
    assert found.answer == "accept", found.text


@settings(max_examples=60, **QUIET)
@given(schedules(faults=True))
def test_a_fault_is_found_exactly_if_it_matters(drawn: tuple[str, Case]) -> None:
    _, case = drawn
    truth = reference(case)
    if truth.answer != "none":
        found = ours({**case, "name": "drawn"})
        assert found.answer == truth.answer, (found.text, truth)


@pytest.mark.parametrize(
    "case",
    [
        anchors.copy(2, None),
        anchors.gemm(4, None),
        anchors.gemm(6, None),
        anchors.persistent(anchors.gemm(3, None)),
        anchors.attention(2, None),
        anchors.pairs(6, 2, None),
    ],
    ids=["copy", "gemm4", "gemm6", "persistent", "attention", "pairs"],
)
def test_usual_kernels_are_proven_for_every_trip_count(case: Case) -> None:
    found = ours({**case, "name": "anchor"})
    assert found.answer == "accept", found.text
    assert found.states < 1_000  # NVIDIA's checker gives up at a million on three of these


@pytest.mark.parametrize("first", ["async_async", "tma_async"])
def test_what_a_later_signal_of_the_producer_says(first: str) -> None:
    """The reader waits for the second ring alone. That tells what threads filled before, not what TMA has filled."""
    threads = {"type": "async_async", "producer_threads": 32}
    rings = [threads if first == "async_async" else {"type": first, "producer_threads": 1, "bytes": 1024}, threads]
    case: Case = {
        "name": "later_signal",
        "resources": [{"name": "g", "works": [{"name": "read", "side": "consumer"}]}, {"name": "o"}]
        + [
            {"name": f"r{i}", "pipeline": {"stages": 2, "consumer_threads": 32, **ring}} for i, ring in enumerate(rings)
        ],
        "tasks": [
            {
                "name": "T0",
                "src": ["g"],
                "dst": ["r0", "r1"],
                "warp": 0,
                "warps": 1,
                "body": [{"loop": [0, 4, 1], "body": FILLS}],
            },
            {
                "name": "T1",
                "src": ["r0", "r1"],
                "dst": ["o"],
                "warp": 1,
                "warps": 1,
                "body": [{"loop": [0, 4, 1], "body": READS}],
            },
        ],
        "graph": {"r0": ["g"], "r1": ["g"], "o": ["r0", "r1"]},
    }
    truth = reference(case).answer
    assert truth == ("accept" if first == "async_async" else "reject")
    found = ours(case)
    assert found.answer == truth, found.text


@pytest.mark.parametrize("seed", [80909, 300702, 301231, 401558, 610455])
def test_schedules_that_were_once_judged_wrongly(seed: int) -> None:
    """A later signal of the producer (80909), of TMA (300702, 301231), before the commit (401558); tokens of works that
    are only roles, which may differ in each iteration (610455)."""
    (one,) = run(1, seed, oracle=False, jobs=1)
    assert one.truth != "none" and one.found.ours.answer == one.truth, describe(one)
