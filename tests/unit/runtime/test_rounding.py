"""Element types that NumPy lacks: every value of a format is itself, what lies between goes to the nearer one."""

from __future__ import annotations

import numpy as np
import pytest

from tsgen.runtime.arrays import NumpyArrays
from tsgen.runtime.rounding import SMALL

XP = NumpyArrays()


def values(dtype: str) -> np.ndarray:
    """All finite values of a format with at most 8 bits, from its definition."""
    f = SMALL[dtype]
    found = [0.0]
    for exponent in range(f.smallest, 16):
        found += [2.0**exponent * (1 + m / 2**f.mantissa) for m in range(2**f.mantissa)]
    found += [2.0**f.smallest * m / 2**f.mantissa for m in range(2**f.mantissa)]  # subnormal
    kept = sorted({v for v in found if v <= f.largest})
    return np.array([-v for v in reversed(kept) if v] + kept, np.float32)


@pytest.mark.parametrize(
    ("dtype", "count"), [("f8e4m3", 253), ("f8e5m2", 247), ("f6e3m2", 63), ("f6e2m3", 63), ("f4e2m1", 15)]
)
def test_the_values_of_a_format(dtype: str, count: int) -> None:
    all_values = values(dtype)
    assert all_values.size == count
    assert np.array_equal(np.asarray(XP.cast(all_values, dtype)), all_values)


@pytest.mark.parametrize("dtype", ["f8e4m3", "f8e5m2", "f6e3m2", "f6e2m3", "f4e2m1"])
def test_to_the_nearest_and_ties_to_even(dtype: str) -> None:
    v = values(dtype)
    low, high = v[:-1], v[1:]
    middle = (low + high) / 2
    assert np.array_equal(np.asarray(XP.cast(middle * 0.999 + low * 0.001, dtype)), low)
    rounded = np.asarray(XP.cast(middle, dtype))
    even = np.where(np.arange(low.size) % 2 == (v.tolist().index(0.0) % 2), low, high)  # 0 has an even mantissa
    assert np.array_equal(rounded, even)


def test_conversions_saturate_and_keep_nan() -> None:
    assert np.asarray(XP.cast(np.array([1e9, -1e9], np.float32), "f8e4m3")).tolist() == [448.0, -448.0]
    assert np.isnan(np.asarray(XP.cast(np.array([np.nan], np.float32), "f4e2m1"))).all()


def test_a_scale_is_a_power_of_two_rounded_up() -> None:
    x = np.array([1.0, 1.5, 2.0, 3.0, 0.3], np.float32)
    assert np.asarray(XP.cast(x, "f8e8m0")).tolist() == [1.0, 2.0, 2.0, 4.0, 0.5]
