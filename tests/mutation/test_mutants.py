"""Mutants of a few specs (`python -m tests.mutation.mutate` runs those of all of them)."""

from __future__ import annotations

import pytest

from tests.mutation.mutate import ROOT, reasons, results

SPECS = (
    "copy_tma.yaml",
    "group_fused_merge.yaml",
    "group_merge.yaml",
    "leader_routed.yaml",
    "ping_pong.yaml",
    "split_consumer.yaml",
)


@pytest.mark.parametrize("spec", SPECS)
def test_every_wrong_mutant_is_rejected_at_its_place(spec: str) -> None:
    found = list(results([ROOT / "specs" / spec], jobs=1))
    assert [f"{r.verdict} {r.mutant.name}: {r.why}" for r in found if r.verdict in ("alive", "elsewhere")] == []
    assert sum(r.verdict == "killed" for r in found) > 10


def test_every_equivalent_mutant_has_a_reason() -> None:
    assert all(r.reason.endswith(".") for r in reasons())
