"""Shared and tensor memory: does it fit, is the map possible (TS60x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.memory import least_columns
from tsgen.derive.model import Derived
from tsgen.derive.storage import bits
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, check
from tsgen.model.kernel import Kernel

LARGEST = 3  # allocations named in a message


@check("TS600", "shared-memory-full")
def shared_memory_full(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Shared memory does not fit.

    Data of all stages, mbarriers and responses together must fit into what a block may have. Use fewer stages, smaller
    tiles, or let buffers that are never live together share bytes (`memory.alias`).
    """
    capacity = kernel.memory.smem_capacity
    if derived.smem_bytes <= capacity:
        return
    blocks = sorted((b for b in derived.smem), key=lambda b: -b.size)
    parts = ", ".join(
        f"{b.name} {b.size:,}" + (f" ({b.stages} stages)" if b.stages > 1 else "") for b in blocks[:LARGEST]
    )
    name = blocks[0].name.split(".")[0].split("[")[0]
    resource = kernel.resources.get(name)
    yield Finding(
        f"shared memory needs {derived.smem_bytes:,} bytes, the block may have {capacity:,} "
        f"({derived.smem_bytes - capacity:,} too many): {parts}",
        resource.span if resource is not None else kernel.span,
        "use fewer stages or smaller tiles",
        (),
        tuple(f"{b.offset:>8} {b.size:>8}  {b.name}" for b in derived.smem),
    )


@check("TS601", "tensor-memory-full")
def tensor_memory_full(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Tensor memory does not fit.

    An SM has 512 columns; an allocation is a power of two of them, at least 32.
    """
    capacity = kernel.memory.tmem_capacity
    if derived.tmem_columns > capacity:
        parts = ", ".join(f"{b.name} {b.columns}" for b in sorted(derived.tmem, key=lambda b: -b.columns)[:LARGEST])
        used = max((b.offset + b.columns for b in derived.tmem), default=0)
        name = derived.tmem[0].name.split(".")[0].split("[")[0]
        rounded = f" (rounded up to {derived.tmem_columns})" if derived.tmem_columns != used else ""
        yield Finding(
            f"tensor memory needs {used} columns{rounded}, there are {capacity}: {parts}", kernel.resources[name].span
        )


@check("TS602", "columns")
def columns(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """`columns` of a tensor-memory field is too small for its shape.

    A column has 32 bits in each of 128 lanes. Scale factors that `tcgen05_cp` copies take four columns for each block
    of 512 bytes, since every group of 32 lanes gets them.
    """
    for resource in kernel.resources.values():
        for field in resource.fields.values():
            if resource.kind != "tmem" or field.columns is None:
                continue
            need = least_columns(kernel, field)
            if field.columns < need:
                yield Finding(
                    f"`{resource.name}.{field.name}` needs {need} columns, `columns` is {field.columns}",
                    field.spans.get("columns", field.span),
                    f"write at least {need}, or leave it out",
                )


@check("TS603", "alias-phases")
def alias_phases(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """An alias has fewer than two phases, or names a field twice.

    The phases of an alias start at one address; with one phase nothing is shared.
    """
    for alias in kernel.memory.aliases:
        if len(alias.phases) < 2:
            yield Finding(f"`{alias.name}` has {len(alias.phases)} phase, expected at least 2", alias.span, "remove it")
        seen: dict[tuple[str, str | None], object] = {}
        kinds = {kernel.resources[m.resource].kind for p in alias.phases for m in p if m.resource in kernel.resources}
        if len(kinds) > 1:
            yield Finding(f"`{alias.name}` mixes {' and '.join(sorted(kinds))}", alias.span)
        for phase in alias.phases:
            for member in phase:
                key = (member.resource, member.field)
                if key in seen:
                    yield Finding(f"`{member.resource}` is in `{alias.name}` twice", member.span)
                seen[key] = True


@check("TS604", "swizzle-width")
def swizzle_width(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A written `swizzle` does not divide the rows of the field.

    A row is a whole number of swizzle widths. Left out, the widest that fits is taken.
    """
    for resource in kernel.resources.values():
        for field in resource.fields.values():
            if resource.kind != "smem" or not field.swizzle or not field.shape:
                continue
            row = field.shape[field.major if field.major is not None else -1] * bits(kernel, field.dtype) // 8
            if row % field.swizzle:
                yield Finding(
                    f"a row of `{resource.name}.{field.name}` has {row} bytes, no multiple of the swizzle of "
                    f"{field.swizzle}",
                    field.spans.get("swizzle", field.span),
                    "leave `swizzle` out",
                )


CAUSES = (shared_memory_full, tensor_memory_full)  # what no SM can hold is not run
CHECKS = (columns, alias_phases, swizzle_width)
