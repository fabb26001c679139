"""Swizzles and the map of shared memory (LANGUAGE.md section 9; ts-semantics section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TypeVar

from tsgen.derive.model import SmemBlock, TmemBlock
from tsgen.derive.storage import bits, root, stage_bytes, stages
from tsgen.derive.uses import Uses
from tsgen.model.expr import Placed, Ref
from tsgen.model.kernel import Field, Kernel, Resource

DEFAULT_ALIGN = 128
BARRIER_BYTES = 8
CLC_RESPONSE_BYTES = 16
_UNSWIZZLED_OPS = {"tcgen05_cp", "peer_store"}  # they address plain rows


_Block = TypeVar("_Block", SmemBlock, TmemBlock)


def instances(resource: Resource) -> int:
    return resource.each.count if resource.each is not None else 1


def instance_name(resource: Resource, index: int) -> str:
    """`res`, or `res[i]` with `each`."""
    return resource.name if resource.each is None else f"{resource.name}[{index}]"


def swizzles(kernel: Kernel, u: Uses) -> dict[tuple[str, str], int]:
    """Bytes of the swizzle of each shared-memory field: the written one, else the widest that divides its rows."""
    found: dict[tuple[str, str], int] = {}
    for resource in kernel.resources.values():
        if resource.kind == "smem":
            for field in resource.fields.values():
                found[resource.name, field.name] = _swizzle(kernel, u, root(kernel, field))
    return found


def _swizzle(kernel: Kernel, u: Uses, field: Field) -> int:
    if field.swizzle is not None:
        return field.swizzle
    key = (field.owner, field.name)
    if not u.engines.get(key, set()) & {"tx", "bulk", "wgmma", "tcgen05"} or u.ops.get(key, set()) & _UNSWIZZLED_OPS:
        return 0
    if not field.shape or not all(field.shape):
        return 0
    row = field.shape[field.major if field.major is not None else -1] * bits(kernel, field.dtype) // 8
    return next((n for n in (128, 64, 32) if row and row % n == 0), 0)


def alignment(field: Field, swizzle: int) -> int:
    """Bytes: a swizzle repeats after eight rows, TMA wants 128."""
    return max(field.align or 1, 8 * swizzle if swizzle else DEFAULT_ALIGN)


def smem_map(kernel: Kernel, u: Uses, swizzle: dict[tuple[str, str], int]) -> tuple[tuple[SmemBlock, ...], int]:
    """All allocations, and the bytes of the whole: data by falling alignment, then the mbarriers."""
    data = list(_data(kernel, swizzle))
    by_name = {b.name: b for b in data}
    grouped: set[str] = set()
    groups: list[tuple[int, int, list[tuple[int, SmemBlock]]]] = []  # alignment, size, (offset in region, block)
    for phases in _aliases(kernel, by_name, "smem"):
        members: list[tuple[int, SmemBlock]] = []
        size, align = 0, 1
        for phase in phases:
            at = 0
            for block in phase:
                at = _up(at, block.align)
                members.append((at, block))
                at += block.size
                align = max(align, block.align)
            size = max(size, at)
        grouped.update(b.name for _, b in members)
        groups.append((align, size, members))
    regions = [(b.align, b.size, [(0, b)]) for b in data if b.name not in grouped] + groups
    placed, at = [], 0
    for align, size, members in sorted(regions, key=lambda r: -r[0]):
        at = _up(at, align)
        placed += [_at(b, at + offset) for offset, b in members]
        at += size
    at = _up(at, BARRIER_BYTES)
    for block in _barriers(kernel, u):
        placed.append(_at(block, at))
        at += block.size
    return tuple(placed), at


def _data(kernel: Kernel, swizzle: dict[tuple[str, str], int]) -> Iterator[SmemBlock]:
    for resource in kernel.resources.values():
        n = stages(resource)
        if resource.kind == "smem":
            for index in range(instances(resource)):
                for field in resource.fields.values():
                    if field.view is None:
                        name = f"{instance_name(resource, index)}.{field.name}"
                        align = alignment(field, swizzle[resource.name, field.name])
                        stage = _up(stage_bytes(kernel, field), align if n > 1 else 1)
                        yield SmemBlock(name, 0, n * stage, align, n, False)
        elif resource.queue is not None and resource.queue.scheduler == "clc_dynamic":
            yield SmemBlock(f"{resource.name}.response", 0, n * CLC_RESPONSE_BYTES, 16, n, False)
    if any(r.kind == "tmem" for r in kernel.resources.values()):
        yield SmemBlock("tmem.address", 0, 4, 4, 1, False)


def _aliases(kernel: Kernel, blocks: dict[str, _Block], kind: str) -> Iterator[list[list[_Block]]]:
    """The phases of each alias group of one kind of memory, once for each instance where its members have instances."""
    for alias in kernel.memory.aliases:
        names = [m.resource for phase in alias.phases for m in phase]
        resources = [kernel.resources[n] for n in names if n in kernel.resources]
        if not resources or any(r.kind != kind for r in resources):
            continue
        for index in range(max(instances(r) for r in resources)):
            phases = []
            for phase in alias.phases:
                members: list[_Block] = []
                for m in phase:
                    r = kernel.resources[m.resource]
                    name = instance_name(r, min(index, instances(r) - 1))
                    fields = [m.field] if m.field is not None else [f.name for f in r.fields.values() if f.view is None]
                    members += [blocks[f"{name}.{f}"] for f in fields if f"{name}.{f}" in blocks]
                phases.append(members)
            yield phases


def _barriers(kernel: Kernel, u: Uses) -> Iterator[SmemBlock]:
    """The mbarriers: full and empty of each stage; those that a group shares stand under the group's name."""
    shared: dict[str, int] = {}
    for group in kernel.groups.values():
        for member in group.members:
            shared[member] = 0 if group.mode == "fused_merge" else 1
    for resource in kernel.resources.values():
        if resource.pipeline is not None:
            n = stages(resource)
            for index in range(instances(resource)):
                size = shared.get(resource.name, 2) * n * BARRIER_BYTES
                if size:
                    yield SmemBlock(instance_name(resource, index), 0, size, BARRIER_BYTES, n, True)
    for group in kernel.groups.values():
        members = [kernel.resources[m] for m in group.members if m in kernel.resources]
        if members and members[0].pipeline is not None:
            n = stages(members[0])
            size = (2 if group.mode == "fused_merge" else 1) * n * BARRIER_BYTES
            yield SmemBlock(group.name, 0, size, BARRIER_BYTES, n, True)
    if u.pair and any(r.kind == "tmem" for r in kernel.resources.values()):
        yield SmemBlock("tmem.free", 0, BARRIER_BYTES, BARRIER_BYTES, 1, True)


def tmem_map(kernel: Kernel) -> tuple[tuple[TmemBlock, ...], int]:
    """Columns of tensor memory: fields in the order of declaration, alias phases from one column; and their sum."""
    blocks = {b.name: b for b in _columns(kernel)}
    placed: dict[str, TmemBlock] = {}
    at = 0
    groups = list(_aliases(kernel, blocks, "tmem"))
    for block in blocks.values():
        if block.name in placed:
            continue
        phases = next((g for g in groups if any(b.name == block.name for phase in g for b in phase)), [[block]])
        end = at
        for phase in phases:
            column = at
            for member in phase:
                placed[member.name] = TmemBlock(member.name, column, member.columns, member.stages)
                column += member.columns
            end = max(end, column)
        at = end
    return tuple(placed.values()), at


def allocated_columns(columns: int) -> int:
    """What tcgen05.alloc takes: a power of two from 32; 0 without tensor memory."""
    return max(32, 1 << (columns - 1).bit_length()) if columns else 0


def _columns(kernel: Kernel) -> Iterator[TmemBlock]:
    for resource in kernel.resources.values():
        if resource.kind == "tmem":
            for index in range(instances(resource)):
                for field in resource.fields.values():
                    if field.view is None:
                        n = stages(resource)
                        one = field.columns or least_columns(kernel, field)
                        yield TmemBlock(f"{instance_name(resource, index)}.{field.name}", 0, n * one, n)


def least_columns(kernel: Kernel, field: Field) -> int:
    """A row of the tile lies in one lane: its bits over 32, for each 128 rows. What `tcgen05_cp` copies are blocks of
    512 bytes (scale factors), which go to 32 lanes, four times over: 4 columns each."""
    if _is_copied(kernel, field):
        return -(-prod(field.shape) * bits(kernel, field.dtype) // (8 * 128))
    rows = prod(field.shape[:-1])
    return -(-field.shape[-1] * bits(kernel, field.dtype) // 32) * -(-rows // 128)


def _is_copied(kernel: Kernel, field: Field) -> bool:
    """Whether a `tcgen05_cp` writes a field."""
    works = (w for w in kernel.resources[field.owner].works.values() if w.op == "tcgen05_cp")
    targets = (w.args.get("to") for w in works)
    return any(isinstance(t, Placed) and isinstance(t.expr, Ref) and t.expr.name == field.name for t in targets)


def _at(block: SmemBlock, offset: int) -> SmemBlock:
    return SmemBlock(block.name, offset, block.size, block.align, block.stages, block.is_barrier)


def _up(n: int, align: int) -> int:
    return -(-n // align) * align
