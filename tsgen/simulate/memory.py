"""Poisoned memory: cells (one stage of one field in one CTA, or of one warp's registers) and accesses under way.

An element holds nothing until it is written, and again when its stage is handed on or bytes that it shares with another
field are written. An access through an asynchronous engine stays open from its issue to its completion; whatever else
touches its elements in a conflicting way meanwhile is a race.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsgen.runtime.arrays import NumpyArrays
from tsgen.simulate.faults import Fault, Site

Array = NDArray[Any]  # float32, int64 or bool
Selector = tuple[slice | int | Array, ...]  # what indexes an array

ARRAYS = NumpyArrays()


class Region:
    """Elements of a cell: an index, and for conflicts a box if it is one, else a mask."""

    __slots__ = ("_mask", "box", "index", "shape")

    def __init__(self, shape: tuple[int, ...], index: Selector) -> None:
        self.shape = shape
        self.index = index
        self.box = _box(shape, index)
        self._mask: Array | None = None

    @property
    def mask(self) -> Array:
        if self._mask is None:
            self._mask = np.zeros(self.shape, dtype=bool)
            self._mask[self.index] = True
        return self._mask

    def overlaps(self, other: Region) -> bool:
        if self.box is not None and other.box is not None:
            return all(a < d and c < b for (a, b), (c, d) in zip(self.box, other.box, strict=True))
        if self.box is not None:
            return bool(other.mask[tuple(slice(a, b) for a, b in self.box)].any())
        return bool(self.mask[other.index].any())


def whole(shape: tuple[int, ...]) -> Region:
    return Region(shape, tuple(slice(0, n) for n in shape))


def _box(shape: tuple[int, ...], index: Selector) -> tuple[tuple[int, int], ...] | None:
    box = []
    for i, n in zip(index, shape, strict=True):
        if isinstance(i, slice):
            start, stop, step = i.indices(n)
            if step != 1 and stop - start > 1:
                return None
            box.append((start, stop))
        elif isinstance(i, int):
            box.append((i, i + 1))
        elif i.ndim != len(shape):  # an index for each lane
            return None
        else:
            flat = i.ravel()
            if not flat.size:
                return None
            low, high = int(flat[0]), int(flat[-1])
            if high - low + 1 != flat.size:
                return None
            box.append((low, high + 1))
    return tuple(box)


@dataclass(slots=True, eq=False)
class Open:
    """An access under way. `order`: accesses of one in-order queue do not conflict with each other."""

    cell: Cell
    region: Region
    write: bool
    who: Site
    engine: str
    order: object | None


@dataclass(slots=True)
class Alias:
    """Another cell with bytes in common. `spread` turns a mask of this cell into one of the other's elements."""

    cell: Cell
    spread: Callable[[Array], Array]


class Cell:
    """One stage of a field. `dtype` is the spec's word; values are held as float32 (rounded), int64 or bool."""

    __slots__ = ("aliases", "data", "dtype", "name", "opens", "reason", "shape", "valid", "writer")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, floating: bool) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.data: Array = np.full(shape, math.nan if floating else -0x5A5A5A5B, np.float32 if floating else np.int64)
        self.valid: Array = np.zeros(shape, dtype=bool)
        self.opens: list[Open] = []
        self.aliases: list[Alias] = []
        self.reason = "nothing has been written there yet"
        self.writer: Site | None = None

    # ---- generic accesses: over when their step is -----------------------------------------------------------------

    def read(self, region: Region, who: Site) -> Array:
        self._conflicts(region, write=False, who=who, order=None)
        self._holds(region, who)
        return np.array(self.data[region.index])  # what is read stays what it was

    def write(self, region: Region, values: Array, who: Site, mask: Array | None = None) -> None:
        """Writes, converting to the cell's dtype; where `mask` says so, if it is given."""
        self._conflicts(region, write=True, who=who, order=None)
        self._put(region, values, mask)
        self._invalidate_aliases(region, who)
        self.writer = who

    # ---- asynchronous accesses -------------------------------------------------------------------------------------

    def open(self, region: Region, write: bool, who: Site, engine: str, order: object | None, *, reads: bool) -> Open:
        """Begins an access. A write takes what was there (unless it also `reads` it, as an accumulator)."""
        self._conflicts(region, write, who, order)
        if reads:
            self._holds(region, who, order)
        if write:
            self._invalidate_aliases(region, who, order)
            if not reads:
                self.valid[region.index] = False
                self.reason = f"{who} has not written it yet"
        access = Open(self, region, write, who, engine, order)
        self.opens.append(access)
        return access

    def close(self, access: Open, values: Array | None = None) -> None:
        """Ends an access; a write leaves its values."""
        self.opens.remove(access)
        if values is not None:
            self._put(access.region, values, None)
            self.writer = access.who

    # ---- poison ----------------------------------------------------------------------------------------------------

    def poison(self, reason: str) -> None:
        """Takes all that the cell holds. What an engine still reads stays: only a write over it is a race."""
        kept = np.zeros(self.shape, dtype=bool)
        for access in self.opens:
            if access.write:
                raise Fault(
                    "race",
                    f"{self.name} {reason} while {access.who} still writes it",
                    ("still under way", access.who),
                )
            kept |= access.region.mask
        self.valid &= kept
        self.reason = f"it {reason}"

    def lost(self) -> None:
        """The CTA has ended: what engines still read of it is gone."""
        for access in self.opens:
            if not access.write:
                raise Fault(
                    "race",
                    f"the CTA ends while {access.who} still reads {self.name}",
                    ("still under way", access.who),
                )

    # ---- how -------------------------------------------------------------------------------------------------------

    def _put(self, region: Region, values: Array, mask: Array | None) -> None:
        values = rounded(values, self.dtype)
        if mask is None:
            self.data[region.index] = values
            self.valid[region.index] = True
            return
        here = self.data[region.index]
        self.data[region.index] = np.where(mask, values, here)
        self.valid[region.index] |= mask

    def _holds(self, region: Region, who: Site, order: object | None = None) -> None:
        valid = self.valid[region.index]
        if np.all(valid):
            return
        if order is not None and any(
            o.order is order and o.write and o.region.overlaps(region) for o in self.opens
        ):  # an earlier operation of this queue writes it first
            return
        raise Fault("unwritten", f"{who} reads {self.name}: {self.reason}", ("reads it", who))

    def _conflicts(self, region: Region, write: bool, who: Site, order: object | None) -> None:
        for access in self.opens:
            if not (write or access.write) or (order is not None and access.order is order):
                continue
            if access.region.overlaps(region):
                raise Fault(
                    "race",
                    f"{who} {'writes' if write else 'reads'} {self.name} while {access.who} still {_doing(access)} it "
                    f"through {access.engine}",
                    ("writes it" if write else "reads it", who),
                    ("still under way", access.who),
                )

    def _invalidate_aliases(self, region: Region, who: Site, order: object | None = None) -> None:
        for alias in self.aliases:
            hit = alias.spread(region.mask)
            if not hit.any():
                continue
            other = alias.cell
            for access in other.opens:
                if order is not None and access.order is order:
                    continue
                if (access.region.mask & hit).any():
                    raise Fault(
                        "race",
                        f"{who} writes {self.name}, which shares bytes with {other.name}, while {access.who} still "
                        f"{_doing(access)} that through {access.engine}",
                        ("writes it", who),
                        ("still under way", access.who),
                    )
            other.valid[hit] = False
            other.reason = f"{who} has written {self.name} over it"


def _doing(access: Open) -> str:
    return "writes" if access.write else "reads"


def rounded(values: Array, dtype: str) -> Array:
    """Values as the dtype holds them."""
    if dtype == "f32" and values.dtype == np.float32:
        return values
    return ARRAYS.value(np.asarray(ARRAYS.cast(values, dtype)))  # type: ignore[arg-type, return-value]
