"""Loops that a guard splits: two parts with the same steps, but for the guarded maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import module

GEMM = "specs/gemm.yaml"
LOOP = "            - ab.release()                 # so the stage before this one is free\n"


def guarded(tmp_path: Path, condition: str, call: str = "acc.finish()", block: str = "when_true") -> str:
    step = f"            - {block}: {{cond: {condition}}}\n              steps:\n                - {call}\n"
    return module(tmp_path, GEMM, (LOOP, LOOP + step), variant="bf16_bias_gelu")


def test_first_iterations(tmp_path: Path) -> None:
    text = guarded(tmp_path, "k < N - 3")
    assert "split = cutlass.max(1, cutlass.min(N - 3, k_tiles))" in text
    assert "for start, end, guarded in ((1, split, True), (split, k_tiles, False)):" in text
    assert "for _ in cutlass.range(start, end, unroll=1):" in text
    assert "if const_expr(guarded):" in text


def test_no_maximum_where_bounds_show_it(tmp_path: Path) -> None:
    """K >= 1 is assumed, so that k_tiles >= 1."""
    assert "split = cutlass.min(3, k_tiles)" in guarded(tmp_path, "k < 3")


def test_never_and_always_outside(tmp_path: Path) -> None:
    """The loop starts at 1: `k < 1` holds nowhere."""
    text = guarded(tmp_path, "k < 1")
    assert "split" not in text and "guarded" not in text
    text = guarded(tmp_path, "k < 1", block="when_false")
    assert "split" not in text and text.count("acc_finish(") == 3


@pytest.mark.parametrize(("condition", "call"), [("k < k + 1", "acc.finish()"), ("k < 3", "epi_bar[w].sync()")])
def test_what_does_not_split(tmp_path: Path, condition: str, call: str) -> None:
    """A bound that moves with the loop, and a body that synchronises: the condition is tested in each iteration."""
    text = guarded(tmp_path, condition, call)
    assert "split" not in text and f"if {condition}:" in text
