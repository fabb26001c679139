"""Which bytes a window of a field lies in, in shared memory as the emitter lays it out, and which columns of tensor
memory."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import NamedTuple

Box = tuple[tuple[int, int], ...]  # half-open interval of each dimension; () is everything
Spans = tuple[tuple[int, int], ...]  # half-open intervals of bytes, or of columns
ATOM_ROWS = 8  # after which a swizzle repeats
LANES = 128  # of tensor memory
_MOST = 64  # intervals; what has more is taken as one


class Place(NamedTuple):
    """Where one stage of a field lies. `bits`: of an element. `swizzle`: bytes; None in tensor memory, where start and
    size are columns. `known`: rows follow each other."""

    start: int
    bits: int
    shape: tuple[int, ...]
    size: int
    swizzle: int | None
    known: bool


def spans(place: Place, box: Box) -> Spans:
    """The intervals that a window touches; all of the field where that is not known."""
    whole = ((place.start, place.start + place.size),)
    shape = place.shape
    if not box or not place.known or not shape:
        return whole
    box = box[: len(shape)]
    if place.swizzle is None:
        return _columns(place, box) or whole
    if place.swizzle:
        return _swizzled(place, box) or whole
    first = last = 0
    for (low, high), i in zip(box, range(len(shape)), strict=False):
        step = prod(shape[i + 1 :])
        first += low * step
        last += (high - 1) * step
    return ((place.start + first * place.bits // 8, place.start + -(-(last + 1) * place.bits // 8)),)


def _columns(place: Place, box: Box) -> Spans | None:
    """Columns of 32 bits in each lane; where a field has more rows than lanes, its columns repeat."""
    if prod(place.shape[:-1]) > LANES:
        return None
    low, high = box[-1] if len(box) == len(place.shape) else (0, place.shape[-1])
    return ((place.start + low * place.bits // 32, place.start + -(-high * place.bits // 32)),)


def _swizzled(place: Place, box: Box) -> Spans | None:
    """Rows as wide as the swizzle, one after another: all rows of the first such part of the columns, then all of the
    second. Within a row the swizzle moves units of 16 bytes about, so a row counts as a whole."""
    width = place.swizzle or 0
    if len(place.shape) < 2 or len(box) < len(place.shape) or place.shape[-2] % ATOM_ROWS:
        return None
    (top, bottom), (left, right) = box[-2:]
    rows, row_bits = place.shape[-2], place.shape[-1] * place.bits
    if row_bits % (8 * width):
        return None
    parts = range(left * place.bits // 8 // width, -(-right * place.bits // 8 // width))
    tile = rows * row_bits // 8
    found = []
    for index in product(*(range(low, high) for low, high in box[:-2])):
        slot = 0
        for at, extent in zip(index, place.shape[:-2], strict=True):
            slot = slot * extent + at
        base = place.start + slot * tile
        found += [(base + (p * rows + top) * width, base + (p * rows + bottom) * width) for p in parts]
        if len(found) > _MOST:
            return None
    return tuple(found)


def have_common(a: Spans, b: Spans) -> bool:
    """Whether two sets of intervals have something in common."""
    return any(start < other_end and other < end for start, end in a for other, other_end in b)
