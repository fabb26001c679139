"""Comparing outputs: tolerance, equality, NaN, and the figures."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from tsgen.runtime.arrays import Arrays, NumpyArrays, TorchArrays
from tsgen.runtime.compare import Comparison, compare

TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")


@pytest.fixture(params=["numpy", pytest.param("torch", marks=TORCH)])
def xp(request: pytest.FixtureRequest) -> Arrays:
    return NumpyArrays() if request.param == "numpy" else TorchArrays(0, "cpu")


def check(
    xp: Arrays, got: object, want: object, rtol: float | None = None, atol: float | None = None, dtype: str = "f32"
) -> Comparison:
    g = xp.cast(xp.xp.asarray(got), dtype)
    return compare(xp, g, xp.value(xp.xp.asarray(want)), dtype, rtol, atol)


def test_within_tolerance(xp: Arrays) -> None:
    c = check(xp, [1.0, 2.0, -4.0], [1.01, 2.0, -4.0], 0.01, 0.01)
    assert c.ok and c.max_abs == pytest.approx(0.01, rel=1e-4)
    assert c.relative == pytest.approx(0.01 / 4, rel=1e-3)  # max error by max value: larger than the norms' ratio


def test_outside_tolerance_names_the_first(xp: Arrays) -> None:
    c = check(xp, [[1.0, 2.0], [3.0, 9.0]], [[1.0, 2.5], [3.0, 4.0]], 0.01, 0.01)
    assert (c.ok, c.wrong, c.total, c.max_abs) == (False, 2, 4, 5.0)
    assert str(c) == "2 of 4 elements wrong, first [0, 1] is 2, must be 2.5, max abs error 5"


def test_a_nan_or_an_infinity_is_never_close_to_a_number(xp: Arrays) -> None:
    for bad in (float("nan"), float("inf")):
        c = check(xp, [1.0, bad], [1.0, 2.0], 1.0, 1e9)
        assert c.wrong == 1
        assert check(xp, [1.0, 2.0], [1.0, bad], 0.1, 0.1).wrong == 1
        assert check(xp, [1.0, bad], [1.0, bad], 0.1, 0.1).ok


def test_equal_bits_after_rounding_to_the_outputs_dtype(xp: Arrays) -> None:
    want = np.float32(1) + np.float32(2) ** -13
    assert check(xp, [1.0], [want], dtype="f16").ok
    assert check(xp, [1.0], [want], dtype="bf16").ok
    assert not check(xp, [1.0], [want], dtype="f32").ok


def test_integers_are_always_exact(xp: Arrays) -> None:
    assert check(xp, [1, 2], [1, 2], 1.0, 1.0, "i32").ok
    c = check(xp, [1, 2], [1, 3], 1.0, 1.0, "i32")
    assert c.wrong == 1 and c.max_abs == 1


def test_broadcast_and_empty(xp: Arrays) -> None:
    assert check(xp, [[2.0, 2.0]], 2.0).ok
    assert check(xp, np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32)).ok


def test_relative_error_of_a_zero_reference(xp: Arrays) -> None:
    assert check(xp, [0.0], [0.0]).relative == 0
    assert check(xp, [0.1], [0.0], 0.0, 1.0).relative == float("inf")
