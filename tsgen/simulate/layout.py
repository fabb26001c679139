"""A kernel's memory and barriers in the CTAs of one cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from tsgen.derive.memory import instance_name, instances
from tsgen.derive.model import Derived
from tsgen.derive.storage import bits, root, stages
from tsgen.derive.unfold import constant
from tsgen.derive.uses import Uses
from tsgen.model.dtypes import DTYPES
from tsgen.model.kernel import Field, Group, Kernel, Resource
from tsgen.simulate.barriers import MBarrier, NamedBarrier
from tsgen.simulate.memory import Alias, Array, Cell

TMEM_LANES = 128


@dataclass(slots=True)
class Ring:
    """A pipelined resource: its barriers by CTA and stage."""

    resource: Resource
    stages: int
    full: list[list[MBarrier]]
    empty: list[list[MBarrier]]


@dataclass(slots=True)
class Cta:
    """One CTA: the cells of its fields, by (resource, instance, field) and stage."""

    rank: int
    coordinates: dict[str, int]  # in the cluster, by axis
    cells: dict[tuple[str, int, str], list[Cell]] = field(default_factory=dict)
    named: dict[tuple[str, int], NamedBarrier] = field(default_factory=dict)
    running: int = 0  # warps


class Layout:
    """Memory and barriers of a cluster."""

    def __init__(self, kernel: Kernel, derived: Derived, uses: Uses) -> None:
        self.kernel = kernel
        self.derived = derived
        self.uses = uses
        self.paired = bool(uses.pair)
        sizes = [(a.name, a.cluster) for a in kernel.launch.axes]
        count = int(np.prod([n for _, n in sizes], dtype=int)) if sizes else 1
        self.ctas = [Cta(rank, _coordinates(rank, sizes)) for rank in range(count)]
        for cta in self.ctas:
            self._cells(cta)
            for (name, index), barrier in derived.barriers.items():
                label = self._name(instance_name(kernel.resources[name], index), cta.rank)
                cta.named[name, index] = NamedBarrier(f"barrier {label}", barrier.threads)
        self.rings: dict[tuple[str, int], Ring] = {}
        for resource in kernel.resources.values():
            if resource.pipeline is not None:
                for index in range(instances(resource)):
                    self.rings[resource.name, index] = self._ring(resource, index)
        self._emptied()

    # ---- places in the cluster -------------------------------------------------------------------------------------

    def along(self, cta: int, axes: set[str]) -> list[int]:
        """The CTAs that differ from this one along one of the axes, and itself."""
        here = self.ctas[cta].coordinates
        found = []
        for other in self.ctas:
            different = [a for a in here if here[a] != other.coordinates[a]]
            if not different or (len(different) == 1 and different[0] in axes):
                found.append(other.rank)
        return found

    def pair(self, cta: int) -> list[int]:
        """The CTAs of a cta_group of two."""
        even = cta - cta % 2
        return [even, even + 1] if even + 1 < len(self.ctas) else [even]

    def leader(self, resource: str, cta: int) -> int:
        """Whose barriers count for a resource: those of the pair's first CTA if the pair's MMAs use it."""
        return cta - cta % 2 if resource in self.uses.pair else cta

    def _name(self, name: str, cta: int) -> str:
        return f"{name} of CTA {cta}" if len(self.ctas) > 1 else name

    # ---- cells -----------------------------------------------------------------------------------------------------

    def _cells(self, cta: Cta) -> None:
        spans: list[tuple[bool, int, int, Cell, Field]] = []
        smem = {b.name: (b.offset, b.size // b.stages) for b in self.derived.smem if not b.is_barrier}
        tmem = {b.name: (b.offset, b.columns // b.stages) for b in self.derived.tmem}
        for resource in self.kernel.resources.values():
            for index in range(instances(resource)):
                name = instance_name(resource, index)
                if resource.kind in ("smem", "tmem"):
                    for f in resource.fields.values():
                        if f.view is None:
                            made = [
                                self.cell(self._name(f"{name}.{f.name}{_stage(resource, s)}", cta.rank), f)
                                for s in range(stages(resource))
                            ]
                            cta.cells[resource.name, index, f.name] = made
                            start, size = (smem if resource.kind == "smem" else tmem)[f"{name}.{f.name}"]
                            for s, cell in enumerate(made):
                                at = start + s * size
                                spans.append((resource.kind == "smem", at, at + size, cell, f))
                elif resource.queue is not None and resource.queue.scheduler == "clc_dynamic":
                    label = self._name(f"{name}.response", cta.rank)
                    cta.cells[resource.name, index, "response"] = [
                        Cell(f"{label} stage {s}", (1,), "i32", False) for s in range(stages(resource))
                    ]
        for a in spans:
            for b in spans:
                if a[3] is not b[3] and a[0] == b[0] and a[1] < b[2] and b[1] < a[2]:
                    spread = self._shared_bytes(a, b) if a[0] else self._shared_columns(a, b)
                    a[3].aliases.append(Alias(b[3], spread))

    def cell(self, name: str, f: Field, shape: tuple[int, ...] | None = None) -> Cell:
        dtype = str(constant(f.dtype, self.kernel.env))
        floating = dtype in DTYPES and DTYPES[dtype].kind == "float"
        return Cell(name, f.shape if shape is None else shape, dtype, floating)

    def _shared_bytes(
        self, a: tuple[bool, int, int, Cell, Field], b: tuple[bool, int, int, Cell, Field]
    ) -> Callable[[Array], Array]:
        """Elements of b that share bytes with elements of a, as they lie in order; swizzles permute within rows."""
        wide = bits(self.kernel, a[4].dtype), bits(self.kernel, b[4].dtype)
        low = min(a[1], b[1])
        size = 8 * (max(a[2], b[2]) - low)

        def spread(mask: Array) -> Array:
            arena = np.zeros(size, dtype=bool)
            found = np.repeat(mask.reshape(-1), wide[0])
            arena[8 * (a[1] - low) :][: found.size] = found
            mine = arena[8 * (b[1] - low) :][: b[3].data.size * wide[1]]
            return mine.reshape(-1, wide[1]).any(axis=1).reshape(b[3].shape)

        return spread

    def _shared_columns(
        self, a: tuple[bool, int, int, Cell, Field], b: tuple[bool, int, int, Cell, Field]
    ) -> Callable[[Array], Array]:
        """Elements of b in the lanes and columns of tensor memory that elements of a take."""
        wide = bits(self.kernel, a[4].dtype), bits(self.kernel, b[4].dtype)
        low = min(a[1], b[1])
        columns = max(a[2], b[2]) - low

        def spread(mask: Array) -> Array:
            if not (_is_tile(a[3], a[2] - a[1], wide[0]) and _is_tile(b[3], b[2] - b[1], wide[1])):
                return np.full(b[3].shape, bool(mask.any()))
            arena = np.zeros((TMEM_LANES, 32 * columns), dtype=bool)
            rows = np.repeat(mask, wide[0], axis=1)
            at = 32 * (a[1] - low)
            arena[: rows.shape[0], at : at + rows.shape[1]] = rows
            at = 32 * (b[1] - low)
            found = arena[: b[3].shape[0], at : at + b[3].shape[1] * wide[1]]
            return np.asarray(found.reshape(*b[3].shape, wide[1]).any(axis=2))

        return spread

    # ---- barriers --------------------------------------------------------------------------------------------------

    def group_of(self, name: str) -> Group | None:
        return next((g for g in self.kernel.groups.values() if name in g.members), None)

    def _ring(self, resource: Resource, index: int) -> Ring:
        pipeline = resource.pipeline
        assert pipeline is not None
        group = self.group_of(resource.name)
        mode = group.mode if group is not None else ""
        first = self.rings.get((group.members[0], index)) if group is not None else None
        counts = self.derived.arrivals
        need = self._full_count(resource)
        if mode == "fused_merge" and group is not None:
            need = sum(self._full_count(self.kernel.resources[m]) for m in group.members if m in counts)
        name = instance_name(resource, index)
        full = self._barriers(name, "full", need, resource)
        if first is not None and mode in ("fork", "fused_merge"):
            full = _shared(first.full, full)
        wanted = pipeline.consumer_group if pipeline.consumer_group is not None else counts[resource.name].empty
        empty = self._barriers(name, "empty", wanted, resource)
        if first is not None and mode in ("merge", "fused_merge"):
            empty = _shared(first.empty, empty)
        return Ring(resource, pipeline.num_stages, full, empty)

    def _full_count(self, resource: Resource) -> int:
        pipeline = resource.pipeline
        assert pipeline is not None
        written = pipeline.producer_group
        return written if written is not None else self.derived.arrivals[resource.name].full

    def _barriers(self, name: str, side: str, need: int, resource: Resource) -> list[list[MBarrier]]:
        return [
            [
                MBarrier(self._name(f"the {side} barrier of {name}{_stage(resource, s)}", cta.rank), need)
                for s in range(stages(resource))
            ]
            for cta in self.ctas
        ]

    # ---- a stage that has been released holds nothing --------------------------------------------------------------

    def _emptied(self) -> None:
        """Poisons a stage when all rings that show it have been released; not where a graph edge x -> x keeps it."""
        kept = {e.upstream for e in self.kernel.graph if e.upstream == e.downstream}
        showing: dict[tuple[str, str], list[str]] = {}  # root field -> resources with a pipeline that show it
        for resource in self.kernel.resources.values():
            if resource.kind in ("smem", "tmem") and resource.pipeline is not None:
                for f in resource.fields.values():
                    base = root(self.kernel, f)
                    showing.setdefault((base.owner, base.name), []).append(resource.name)
        for (owner, name), rings in showing.items():
            target = self.kernel.resources[owner]
            if kept & {owner, *rings} or any(stages(self.kernel.resources[r]) != stages(target) for r in rings):
                continue
            for cta in self.ctas:
                for index in range(instances(target)):
                    for stage, cell in enumerate(cta.cells[owner, index, name]):
                        barriers = [
                            self.rings[r, index].empty[cta.rank][stage] for r in rings if (r, index) in self.rings
                        ]
                        _poison_when(barriers, cell)


def _shared(first: list[list[MBarrier]], own: list[list[MBarrier]]) -> list[list[MBarrier]]:
    """The barriers of a group's first member for another; stages that only this one has keep their own."""
    return [[*a, *b[len(a) :]][: len(b)] for a, b in zip(first, own, strict=True)]


def _poison_when(barriers: list[MBarrier], cell: Cell) -> None:
    emptied = 0

    def listen(_: int) -> None:
        nonlocal emptied
        least = min(b.completed for b in barriers)
        if least > emptied:
            emptied = least
            cell.poison("has been handed back by all its readers")

    for barrier in dict.fromkeys(barriers):
        barrier.listeners.append(listen)


def _coordinates(rank: int, sizes: list[tuple[str, int]]) -> dict[str, int]:
    found = {}
    for name, n in sizes:
        found[name] = rank % n
        rank //= n
    return found


def _stage(resource: Resource, stage: int) -> str:
    return f" stage {stage}" if stages(resource) > 1 else ""


def _is_tile(cell: Cell, columns: int, width: int) -> bool:
    return len(cell.shape) == 2 and cell.shape[0] <= TMEM_LANES and cell.shape[1] * width <= 32 * columns


def all_cells(layout: Layout, cta: int) -> Iterator[Cell]:
    """The cells of one CTA."""
    for cells in layout.ctas[cta].cells.values():
        yield from cells
