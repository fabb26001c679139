"""A few hundred damaged specs (`python -m tests.fuzz.fuzz N` runs more)."""

from __future__ import annotations

from tests.fuzz.fuzz import run


def test_damaged_specs_end_in_findings() -> None:
    outcomes = list(run(250, 1_000_000, jobs=1))
    assert [f"{o.name}: {o.problem}" for o in outcomes if o.problem] == []
    assert sum(o.ok for o in outcomes) < len(outcomes)
