"""A few hundred damaged specs (`python -m tests.fuzz.fuzz N` runs more)."""

from __future__ import annotations

import pytest

from tests.fuzz.fuzz import ROOT, run
from tests.support.checking import check_text

SPEC = (ROOT / "tests" / "language" / "gemm.yaml").read_text(encoding="utf-8")
KEYS = ("target", "params", "variants", "tensors", "launch", "resources", "graph", "schedules", "tasks", "reference")


def test_damaged_specs_end_in_findings() -> None:
    outcomes = list(run(250, 1_000_000, jobs=1))
    assert [f"{o.name}: {o.problem}" for o in outcomes if o.problem] == []
    assert sum(o.ok for o in outcomes) < len(outcomes)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("value", ["", "3", "text", "[1, {a: b}]", "{a: [1]}"])
def test_a_part_of_another_kind_is_refused(key: str, value: str) -> None:
    lines = SPEC.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(f"{key}:"))
    end = next(i for i in range(start + 1, len(lines) + 1) if i == len(lines) or lines[i][:1].isalpha())
    report = check_text("\n".join([*lines[:start], f"{key}: {value}", *lines[end:]]))
    assert not report.ok and report.readable
