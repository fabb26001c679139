"""Windows as selectors of arrays: along each dimension an index, or a range of which a warp takes its part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tsgen.model.expr import Expr, Full, Index, Ref, Slice
from tsgen.simulate.deal import Pick, every, ids, length, tidy
from tsgen.simulate.memory import Array, Selector

Value = object  # what an expression gives: a number, a word, an array
Number = Callable[[Expr], Value]


@dataclass(frozen=True, slots=True)
class Range:
    start: int
    length: int


At = Range | int | Array  # an array: an index for each lane


def window(ref: Ref, shape: Sequence[int], number: Number) -> tuple[At, ...]:
    """The window of a reference to something of this shape. Dimensions that are not written are whole."""
    found: list[At] = []
    for w, n in zip(ref.window or (), shape, strict=False):
        match w:
            case Full():
                found.append(Range(0, n))
            case Slice():
                found.append(Range(whole_number(number(w.start)), whole_number(number(w.length))))
            case Index():
                at = number(w.at)
                found.append(at if isinstance(at, np.ndarray) and at.ndim else whole_number(at))
    return (*found, *(Range(0, n) for n in shape[len(found) :]))


def whole_number(v: Value) -> int:
    """An integer where one is needed."""
    if isinstance(v, np.ndarray | np.generic):
        v = v.item()
    if isinstance(v, bool | int):
        return int(v)
    if isinstance(v, float) and v.is_integer():
        return int(v)
    raise ValueError(f"an integer is wanted, it is {v!r}")


def extents(at: tuple[At, ...]) -> tuple[int, ...]:
    """The shape of what a window takes: its ranges."""
    return tuple(a.length for a in at if isinstance(a, Range))


def is_element(at: tuple[At, ...]) -> bool:
    """Whether a window picks single elements (one, or one for each lane)."""
    return not any(isinstance(a, Range) for a in at)


def parts(at: tuple[At, ...], picks: Sequence[Pick]) -> list[Pick]:
    """What is taken along each dimension: a range's pick, moved to its start; an index as a range of one."""
    left = list(picks)
    found: list[Pick] = []
    for a in at:
        if isinstance(a, Range):
            found.append(_moved(left.pop(0), a.start))
        elif isinstance(a, int):
            found.append(slice(a, a + 1, 1))
        else:
            raise ValueError("a window with a range and an index for each lane")
    return found


def _moved(pick: Pick, by: int) -> Pick:
    if isinstance(pick, slice):
        return slice(pick.start + by, pick.stop + by, pick.step)
    return pick + by


def selector(picks: Sequence[Pick]) -> Selector:
    """Picks as an index that keeps all dimensions."""
    if all(isinstance(p, slice) for p in picks):
        return tuple(picks)
    return np.ix_(*(ids(p) for p in picks))


def shape_of(picks: Sequence[Pick]) -> tuple[int, ...]:
    return tuple(length(p) for p in picks)


def inside(picks: Sequence[Pick], shape: Sequence[int]) -> tuple[list[Pick], list[Pick]] | None:
    """The part of the picks that lies inside, and where it lies among them; None if all of it does."""
    if all(_fits(p, n) for p, n in zip(picks, shape, strict=True)):
        return None
    kept: list[Pick] = []
    places: list[Pick] = []
    for p, n in zip(picks, shape, strict=True):
        found = ids(p)
        good = np.nonzero((found >= 0) & (found < n))[0]
        kept.append(tidy(found[good]))
        places.append(tidy(good))
    return kept, places


def _fits(p: Pick, n: int) -> bool:
    if isinstance(p, slice):
        return bool(p.start >= 0 and p.stop <= n)
    return bool(p[0] >= 0 and p[-1] < n)  # ascending, and never empty


def all_of(at: tuple[At, ...]) -> list[Pick]:
    """Picks that take all of each range."""
    return [every(a.length) for a in at if isinstance(a, Range)]
