"""Comparing an output with what it must be."""

from __future__ import annotations

from dataclasses import dataclass

from tsgen.runtime.arrays import Array, Arrays


@dataclass(frozen=True, slots=True)
class Comparison:
    """`relative` is the larger of ‖got-want‖₂ / ‖want‖₂ and max|got-want| / max|want|, over all elements."""

    wrong: int  # elements outside the tolerance
    total: int
    max_abs: float
    relative: float
    first: str | None  # the first wrong element in words

    @property
    def ok(self) -> bool:
        return self.wrong == 0

    def __str__(self) -> str:
        if self.ok:
            return f"max abs error {self.max_abs:.3g}, relative {self.relative:.2g}"
        return f"{self.wrong} of {self.total} elements wrong, first {self.first}, max abs error {self.max_abs:.3g}"


def compare(xp: Arrays, got: Array, want: Array, dtype: str, rtol: float | None, atol: float | None) -> Comparison:
    """Compares with |got - want| <= atol + rtol |want|, or for equal bits where there is no tolerance.

    `want` is rounded to the output's `dtype` only for equality. A NaN equals a NaN; nothing else does.
    """
    want = xp.broadcast(want, got.shape)
    exact = rtol is None and atol is None
    if exact:
        want = xp.cast(want, dtype)
    total = 1
    for n in got.shape:
        total *= n
    if not total:
        return Comparison(0, 0, 0.0, 0.0, None)
    floating = xp.is_float(got)
    got, want = xp.value(got), xp.cast(want, "f32" if floating else "i64")
    error = xp.distance(got, want)
    allowed = (atol or 0.0) + (rtol or 0.0) * xp.abs(want)
    good = xp.equal(got, want) if exact or not floating else (error <= allowed) & (error < float("inf"))
    if floating:
        good = good | xp.equal(got, want) | (xp.isnan(got) & xp.isnan(want))  # infinities have no difference
    finite = xp.where(error < float("inf"), error, 0.0)  # of NaN and infinity, too
    wrong = ~good
    bad = int(xp.total(wrong).item())
    max_abs = float("nan") if floating and bad and _has_nan(xp, error, wrong) else float(xp.largest(finite).item())
    return Comparison(bad, total, max_abs, _relative(xp, finite, want), _first(xp, got, want, wrong) if bad else None)


def _has_nan(xp: Arrays, error: Array, wrong: Array) -> bool:
    return bool(xp.largest(xp.isnan(error) & wrong).item())


def _relative(xp: Arrays, error: Array, want: Array) -> float:
    size = xp.abs(xp.cast(want, "f32"))
    size = xp.where(size < float("inf"), size, 0.0)
    norm, top = float(xp.total(size * size).item()) ** 0.5, float(xp.largest(size).item())
    e_norm, e_top = float(xp.total(error * error).item()) ** 0.5, float(xp.largest(error).item())
    if not e_top:
        return 0.0
    return max(e_norm / norm, e_top / top) if norm and top else float("inf")


def _first(xp: Arrays, got: Array, want: Array, wrong: Array) -> str:
    flat = wrong.reshape((-1,))
    position = int(xp.first(flat).item())
    index, rest = [], position
    for n in reversed(got.shape):
        index.append(rest % n)
        rest //= n
    at = ", ".join(str(i) for i in reversed(index))
    g, w = got.reshape((-1,))[position].item(), want.reshape((-1,))[position].item()
    return f"[{at}] is {g:.6g}, must be {w:.6g}"
