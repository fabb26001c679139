"""Global memory: the tensors of a launch. Windows past an edge load zeros and store nothing; elements are clamped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tsgen.model.dtypes import DTYPES
from tsgen.simulate.deal import Pick
from tsgen.simulate.faults import Fault, Site
from tsgen.simulate.memory import Array, Selector, rounded
from tsgen.simulate.windows import Value, inside, selector, shape_of

if TYPE_CHECKING:
    from tsgen.simulate.warp import Site as Step


class Tensor:
    """A tensor argument. Of an output, `written` says which elements hold something, and `tile` which tile has written
    them last, by its number in `tiles` (0: none); of an input both are None."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, data: Array | None) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        floating = DTYPES[dtype].kind == "float"
        poison = math.nan if floating else -0x5A5A5A5B
        made = np.full(shape, poison, np.float32 if floating else np.int64)
        self.data: Array = made if data is None else np.array(data, dtype=made.dtype)
        self.written: Array | None = np.zeros(shape, dtype=bool) if data is None else None
        self.tile: Array | None = np.zeros(shape, dtype=np.int32) if data is None else None
        self.tiles: dict[tuple[int, int, int], int] = {}  # (grid, tile, CTA of the cluster) -> number

    def read(self, picks: Sequence[Pick], who: Site) -> Array:
        """A window with all dimensions; zeros outside."""
        cut = inside(picks, self.shape)
        if cut is None:
            index = selector(picks)
            self._holds(index, who)
            return self.data[index] if self.written is None else np.array(self.data[index])
        kept, places = cut
        out = np.zeros(shape_of(picks), dtype=self.data.dtype)
        index = selector(kept)
        self._holds(index, who)
        out[selector(places)] = self.data[index]
        return out

    def write(
        self, picks: Sequence[Pick], values: Array, who: Step, mask: Array | None = None, reduce: str = "none"
    ) -> None:
        """Writes what lies inside; where `mask` says so. `reduce` combines with what is there."""
        cut = inside(picks, self.shape)
        index = selector(picks if cut is None else cut[0])
        if cut is not None:
            places = selector(cut[1])
            values = np.broadcast_to(values, shape_of(picks))[places]
            mask = None if mask is None else np.broadcast_to(mask, shape_of(picks))[places]
        values = np.asarray(rounded(values, self.dtype), dtype=self.data.dtype)
        if reduce == "none":
            self._only(index, values, who, mask)
        else:
            here = self.data[index]
            combined = {"add": np.add, "min": np.minimum, "max": np.maximum}[reduce](here, values)
            values = rounded(combined, self.dtype)
        if mask is not None:
            values = np.where(mask, values, self.data[index])
        self.data[index] = values
        if self.written is not None:
            self.written[index] = True if mask is None else self.written[index] | mask

    def gather(self, at: Sequence[int | Array], who: Site) -> Value:
        """Single elements, one or one for each lane; past an edge the last one."""
        if not self.data.size:
            return 0
        index = tuple(np.clip(i, 0, n - 1) for i, n in zip(at, self.shape, strict=True))
        self._holds(index, who)
        found = self.data[index]
        return found.item() if found.ndim == 0 else found

    def scatter(self, at: Sequence[int | Array], values: Value, who: Step, mask: Value) -> None:
        """Single elements; nothing past an edge, nor where the mask does not hold."""
        parts = np.broadcast_arrays(*at, np.asarray(values), np.asarray(mask, dtype=bool))
        *index, value, good = (p.reshape(-1) for p in parts)
        for i, n in zip(index, self.shape, strict=True):
            good = good & (i >= 0) & (i < n)
        place = tuple(i[good] for i in index)
        values = rounded(value[good], self.dtype)
        self._only(place, values, who, None)
        self.data[place] = values
        if self.written is not None:
            self.written[place] = True

    def _only(self, index: Selector, values: Array, who: Step, mask: Array | None) -> None:
        """Tiles of one grid may run in any order: no two of them write different values to an element."""
        if self.tile is None:
            return
        mine = self.tiles.setdefault(who.place, len(self.tiles) + 1)
        before = self.tile[index]
        other = (before != mine) & (before != 0) & (values != self.data[index])
        if mask is not None:
            other &= mask
        if np.any(other):
            grids = {n: grid for (grid, _, _), n in self.tiles.items()}
            if any(grids[int(n)] == who.place[0] for n in np.unique(before[other])):
                raise Fault(
                    "race", f"{who} writes other values where another tile has written {self.name}", ("writes", who)
                )
        self.tile[index] = mine if mask is None else np.where(mask, mine, before)

    def _holds(self, index: Selector, who: Site) -> None:
        if self.written is not None and not np.all(self.written[index]):
            raise Fault("unwritten", f"{who} reads {self.name}, which nobody has written there", ("reads it", who))
