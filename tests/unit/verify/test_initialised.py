"""Accumulators: the first MMA of a tile overwrites them, or something was there before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernels import kernel
from tsgen.derive import derive
from tsgen.verify import verify


def codes(tmp_path: Path, name: str, *edits: tuple[str, str]) -> list[str]:
    k = kernel(tmp_path, name, *edits)
    report = verify(k, derive(k))
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics]


UMMA = "sm100_gemm"
FIRST = "first=(k == 0)"
LEAST = (
    '"ceil_div(K, tile_k)"}\n',
    '"ceil_div(K, tile_k)"}\n  assume: [K >= 1]\n',
)  # without a trip nothing is cleared


@pytest.mark.parametrize(
    "first",
    [
        "k == 0",
        "k < 1",
        "not k > 0",
        "k % 4 == 0 or k == 0",
        "k // 3 < 1",
        "min(k, 5) < 5",
        "k % 64 == 0",
        "k % 127 == 0",
        "k == 0 or k == 70",
    ],
)
def test_the_first_iteration_overwrites(tmp_path: Path, first: str) -> None:
    assert codes(tmp_path, UMMA, (FIRST, f"first=({first})")) == []


@pytest.mark.parametrize("first", ["k == 1", "k > 0", "k != 0", "k % 2 == 1", "max(k, 2) == k", "k // 2 >= 1"])
def test_a_condition_that_is_false_at_first_reads_what_nobody_wrote(tmp_path: Path, first: str) -> None:
    assert codes(tmp_path, UMMA, (FIRST, f"first=({first})")) == ["TS503"]


@pytest.mark.parametrize(("condition", "found"), [("k == 0", []), ("k == 3", ["TS503"]), ("k > 0", ["TS503"])])
def test_a_field_that_is_cleared_late_is_not_there_at_first(tmp_path: Path, condition: str, found: list[str]) -> None:
    """`clear` runs in the iterations that its condition says, not always."""
    cleared = f"        - when_true: {{cond: {condition}}}\n          steps: [acc.clear()]\n        - acc.mma()\n"
    edits = (("        - acc.mma()\n", cleared), ("    - acc.clear()\n", ""), LEAST)
    assert codes(tmp_path, "split_consumer", *edits) == found
