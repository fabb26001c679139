"""The tile space: CTAs' coordinates, and in what order queues hand out tiles (docs/language.md sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from tsgen.model.kernel import Kernel, Queue


class TileSpace:
    """Tiles of one launch, counted in clusters. `extents`: tiles along each axis."""

    def __init__(self, kernel: Kernel, extents: Mapping[str, int]) -> None:
        self.axes = kernel.launch.axes
        self.extents = dict(extents)
        self.clusters = {a.name: -(-extents[a.name] // a.cluster) for a in self.axes}
        self.queue: Queue | None = next((r.queue for r in kernel.resources.values() if r.queue is not None), None)

    @property
    def total(self) -> int:
        """Cluster tiles."""
        return prod(self.clusters.values())

    def coordinates(self, number: int) -> dict[str, int]:
        """The cluster tile with this number: along each axis, in clusters; in the queue's order if there is one."""
        q = self.queue
        order = [(r.axis, r.reverse) for r in q.raster] if q is not None else [(a.name, False) for a in self.axes]
        found: dict[str, int] = {}
        if q is not None and q.swizzle > 1 and len(order) > 1:
            first, second = order[0][0], order[1][0]
            plane = self.clusters[first] * self.clusters[second]
            rest, number = divmod(number, plane)
            band, within = divmod(number, self.clusters[first] * q.swizzle)
            width = min(self.clusters[second] - band * q.swizzle, q.swizzle)
            found[first], column = divmod(within, width)
            found[second] = band * q.swizzle + column
            for name, _ in order[2:]:
                rest, found[name] = divmod(rest, self.clusters[name])
        else:
            for name, _ in order:
                number, found[name] = divmod(number, self.clusters[name])
        for name, reverse in order:
            if reverse:
                found[name] = self.clusters[name] - 1 - found[name]
        return found

    def of_cta(self, number: int, place: Mapping[str, int]) -> dict[str, int]:
        """The coordinates of one CTA of the cluster tile: its axes' values."""
        at = self.coordinates(number)
        return {a.name: at[a.name] * a.cluster + place[a.name] for a in self.axes}

    def static(self, cluster: int, clusters: int) -> Iterator[int]:
        """The numbers of the tiles that a static persistent queue gives to one of so many clusters."""
        assert self.queue is not None
        nth = 0
        while True:
            backwards = self.queue.serpentine and nth % 2 == 1
            number = nth * clusters + (clusters - 1 - cluster if backwards else cluster)
            if nth * clusters >= self.total:
                return
            if number < self.total:
                yield number
            nth += 1
