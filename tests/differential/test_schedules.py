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
