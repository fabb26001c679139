"""The map of shared memory: offset, size, stages and what shares the bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tsgen.derive.model import Derived, SmemBlock
from tsgen.model.algebra import fold
from tsgen.model.expr import text
from tsgen.model.kernel import Kernel


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """One allocation. Offsets and sizes in bytes; `stage_size` is one stage, padding included."""

    name: str
    offset: int
    size: int
    stages: int
    stage_size: int
    align: int
    content: str  # dtype, shape and swizzle, or what the barriers are
    shares_with: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryMap:
    kernel: str
    target: str
    variant: str | None
    used: int
    capacity: int
    blocks: tuple[MemoryBlock, ...]


def memory_map(kernel: Kernel, derived: Derived) -> MemoryMap:
    """All allocations by offset."""
    blocks = sorted(derived.smem, key=lambda b: (b.offset, b.name))
    entries = tuple(
        MemoryBlock(
            b.name,
            b.offset,
            b.size,
            b.stages,
            b.size // max(b.stages, 1),
            b.align,
            _content(kernel, derived, b),
            tuple(other.name for other in blocks if other is not b and _overlap(b, other)),
        )
        for b in blocks
    )
    return MemoryMap(
        kernel.name, kernel.target, kernel.variant, derived.smem_bytes, kernel.memory.smem_capacity, entries
    )


def _overlap(a: SmemBlock, b: SmemBlock) -> bool:
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size


def _content(kernel: Kernel, derived: Derived, block: SmemBlock) -> str:
    resource, _, field_name = block.name.partition(".")
    owner = kernel.resources.get(resource.partition("[")[0])
    if block.is_barrier:
        arrivals = derived.arrivals.get(owner.name) if owner is not None else None
        return f"mbarriers, arrivals: full {arrivals.full}, empty {arrivals.empty}" if arrivals else "mbarriers"
    field = owner.fields.get(field_name) if owner is not None else None
    if owner is None or field is None:
        return ""
    dtype = text(fold(field.dtype, kernel.env))
    swizzle = derived.swizzles.get((owner.name, field.name), 0)
    shape = ", ".join(map(str, field.shape))
    return f"{dtype} [{shape}]" + (f", swizzle {swizzle}" if swizzle else "")


def memory_text(m: MemoryMap) -> str:
    """The map as a table, with the sum against the capacity of a block."""
    rows = [("offset", "bytes", "stages", "align", "name", "content")]
    rows += [
        (
            f"{b.offset}",
            f"{b.size}",
            f"{b.stages} x {b.stage_size}" if b.stages > 1 else "1",
            f"{b.align}",
            b.name,
            b.content + (f"; shares bytes with {', '.join(b.shares_with)}" if b.shares_with else ""),
        )
        for b in m.blocks
    ]
    share = f" ({100 * m.used / m.capacity:.1f} %)" if m.capacity else ""
    total = f"shared memory: {m.used} of {m.capacity} bytes{share}, {m.capacity - m.used} free"
    return "\n".join([*table_lines(rows, ">>>><<"), total]) + "\n"


def table_lines(rows: Sequence[Sequence[str]], align: str) -> Iterator[str]:
    """Columns as wide as their widest cell, aligned `<` or `>`; the first row is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(align))]
    for row in rows:
        yield "  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(row, align, widths, strict=True)).rstrip()
