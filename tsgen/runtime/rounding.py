"""Rounding float32 to the element types that NumPy lacks."""
# NumPy is loaded at run time, so that what it returns has no type that mypy sees.

from __future__ import annotations

from types import ModuleType
from typing import Any

from tsgen.frozen import frozen


@frozen
class Small:
    """A float format: bits of the mantissa, the exponent of the smallest normal number, the largest finite number."""

    mantissa: int
    smallest: int
    largest: float


SMALL: dict[str, Small] = {  # OCP FP8 (OFP8) and MX formats; conversions saturate, as cvt.rn.satfinite does
    "tf32": Small(10, -126, 3.4011621342146535e38),
    "f8e4m3": Small(3, -6, 448.0),
    "f8e5m2": Small(2, -14, 57344.0),
    "f6e3m2": Small(2, -2, 28.0),
    "f6e2m3": Small(3, 0, 7.5),
    "f4e2m1": Small(1, 0, 6.0),
}


def to_small(xp: ModuleType, x: Any, dtype: str) -> Any:
    """float32 values that the format has: to nearest, ties to even; NaN stays NaN."""
    f = SMALL[dtype]
    values = xp.asarray(x, dtype=xp.float32)
    exponent = xp.maximum(xp.frexp(values)[1] - 1, f.smallest)
    quantum = xp.ldexp(xp.float32(1.0), exponent - f.mantissa)
    rounded = xp.round(values / quantum) * quantum  # NumPy rounds halves to even
    return xp.clip(rounded, -f.largest, f.largest).astype(xp.float32)


def to_power_of_two(xp: ModuleType, x: Any) -> Any:
    """f8e8m0: a power of two from 2^-127 to 2^127, rounded up in the exponent as scale factors are; NaN stays NaN."""
    values = xp.asarray(x, dtype=xp.float32)
    mantissa, exponent = xp.frexp(xp.abs(values))
    up = xp.clip(exponent - (mantissa == 0.5), -127, 127)
    return xp.where(xp.isnan(values), values, xp.ldexp(xp.float32(1.0), up)).astype(xp.float32)
