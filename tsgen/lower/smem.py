"""Fields in shared memory: their tensors and layouts, and windows of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tsgen.derive.filling import closes_group, copies
from tsgen.derive.model import SmemBlock
from tsgen.frozen import frozen
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.program import SmemField, Statement
from tsgen.lower.pyexpr import Scope, py, py_factor, tile_index
from tsgen.model.algebra import canonical
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Const, Expr, Full, Index, Name, Ref, Slice, Window
from tsgen.model.kernel import Field, Work
from tsgen.model.ops import Access, accesses


def tile_rank(field: Field) -> int:
    """Dimensions of a field's tile: the last two, or one; those before count slots."""
    return min(2, len(field.shape))


def smem_field(b: Builder, ref: Ref) -> SmemField:
    """The shared tensor of a field, made on first use."""
    field = b.field(ref)
    view = b.kernel.resources[ref.resource or field.owner].fields[ref.name].view
    if view is not None and (view.window is not None or view.instance is not None):
        refuse(f"`{ref.resource}.{ref.name}`, a view of a part of `{field.owner}.{field.name}`", field.span)
    key = (field.owner, field.name)
    if key in b.fields:
        return b.fields[key]
    owner = b.kernel.resources[field.owner]
    scope = Scope(b.kernel.env, b.constants)
    rank = tile_rank(field)
    slots = [] if owner.each is None else [str(owner.each.count)]
    slots += [py_factor(d, scope) for d in field.dims[: len(field.dims) - rank]]
    if owner.pipeline is not None:
        slots.append(py_factor(owner.pipeline.stages, scope))
    swizzle = b.derived.swizzles.get(key, 0)
    name = b.names.new(f"{field.owner}_{field.name}")
    tile = [py(d, scope) for d in field.dims[len(field.dims) - rank :]]
    b.fields[key] = SmemField(
        name=name,
        layout=b.names.new(f"{name}_layout"),
        label=f"{field.owner}.{field.name}",
        dtype=b.dtype(field.dtype),
        shape=(*tile, " * ".join(slots) or "1"),
        swizzle=swizzle,
        align=1024 if swizzle else max(128, field.align or 0),
        note=b.note(field.span.line, ""),
        at=_offset(b, field) if aliased(b) else None,
    )
    return b.fields[key]


def aliased(b: Builder) -> bool:
    """Whether fields share shared memory: then all are placed in one allocation, at the derived offsets."""
    kernel = b.kernel
    return any(kernel.resources[m.resource].kind == "smem" for a in kernel.memory.aliases for p in a.phases for m in p)


def _offset(b: Builder, field: Field) -> str:
    """The constant with the field's offset in the allocation."""
    decided = b.kernel.params.get(field.dtype.id) if isinstance(field.dtype, Name) else None
    if decided is not None and decided.decided_by_caller and len({DTYPES[str(c)].bits for c in decided.choices}) > 1:
        refuse(f"memory.alias over `{field.owner}.{field.name}`, whose size the caller's dtype decides", field.span)
    block = next(x for x in b.derived.smem if x.name == f"{field.owner}.{field.name}")
    others = [x.name for x in b.derived.smem if not x.is_barrier and x is not block and _overlap(x, block)]
    comment = f"bytes from the start; shares them with {', '.join(others)}" if others else None
    return b.constant(f"{field.owner}_{field.name}_at".upper(), str(block.offset), comment)


def _overlap(a: SmemBlock, b: SmemBlock) -> bool:
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size


def pool_bytes(b: Builder) -> str:
    """The constant with the size of the one allocation."""
    size = max(x.offset + x.size for x in b.derived.smem if not x.is_barrier)
    return b.constant("SMEM_BYTES", str(size), "all fields")


def slot(b: Builder, ref: Ref, stage: str | None, scope: Scope) -> str:
    """Index of the slot mode that a reference picks: instance, stage and leading dimensions, row-major."""
    field = b.field(ref)
    leading = len(field.shape) - tile_rank(field)
    text: str | None = stage if b.kernel.resources[field.owner].pipeline is not None else None
    constants = Scope(b.kernel.env, b.constants)
    if ref.instance is not None:
        pipeline = b.kernel.resources[field.owner].pipeline
        stages = "1" if pipeline is None else py_factor(pipeline.stages, constants)
        first = py(ref.instance, scope)
        if stages != "1":
            first = f"{py_factor(ref.instance, scope)} * {stages}"
        text = first if stages == "1" or not text else f"{first} + {text}"
    for i in range(leading):
        w = ref.window[i] if ref.window is not None and i < len(ref.window) else Full()
        at: Expr = w.at if isinstance(w, Index) else w.start if isinstance(w, Slice) else Const(0)
        index = py(at, scope)
        if text is None:
            text = index if canonical(at, scope.env).value != 0 else None
        else:
            text = (
                f"({text}) * {py_factor(field.dims[i], constants)} + {index}"
                if " " in text
                else (f"{text} * {py_factor(field.dims[i], constants)} + {index}")
            )
    return text or "0"


@frozen
class SubTile:
    """The part of a field's tile that a window takes: box sizes, and tile coordinates (None: the whole of it)."""

    box: tuple[str, ...]
    sizes: tuple[int, ...]
    at: tuple[str, ...] | None


def sub_tile(b: Builder, ref: Ref, scope: Scope) -> SubTile | None:
    """The window's part of the tile; None if it does not fall on a multiple of its own size."""
    field = b.field(ref)
    rank = tile_rank(field)
    lead = len(field.shape) - rank
    constants = Scope(b.kernel.env, b.constants)
    box, sizes, at = [], [], []
    whole = True
    for i in range(rank):
        dim, extent = field.dims[lead + i], field.shape[lead + i]
        w: Window = ref.window[lead + i] if ref.window is not None and lead + i < len(ref.window) else Full()
        if isinstance(w, Index):
            w = Slice(w.at, Const(1))
        if isinstance(w, Full):
            box.append(py(dim, constants))
            sizes.append(extent)
            at.append("0")
            continue
        length = canonical(w.length, scope.env).value
        coordinate = tile_index(w.start, w.length, scope)
        if length is None or coordinate is None:
            return None
        box.append(py(w.length, scope))
        sizes.append(int(length))
        at.append(coordinate)
        whole = whole and int(length) == extent
    return SubTile(tuple(box), tuple(sizes), None if whole else tuple(at))


def element_bytes(b: Builder, dtype: Expr) -> int:
    """Bytes of one element."""
    return DTYPES[b.dtype_word(dtype)].bits // 8


def needs_fence(b: Builder, ref: Ref) -> bool:
    """Whether some work reads the field through the async proxy, so that generic writes to it need a fence."""
    return any(_through_async_proxy(a) and _same_field(b, a, ref) for w in _works(b) for a in accesses(w))


def fence_after(b: Builder, works: Iterable[Work], engine: str) -> list[Statement]:
    """The fence of threads that have written shared memory through an engine, if the async proxy reads it next. To that
    proxy, what cp.async writes is a generic write as any other."""
    written = (a.ref for w in works for a in accesses(w) if a.mode == "write" and a.engine == engine)
    return [Statement("ops/fence")] if any(b.kind(ref) == "smem" and needs_fence(b, ref) for ref in written) else []


def fence_before(b: Builder, work: Work) -> list[Statement]:
    """The fence before a work that reads through the async proxy what copies have brought into a ring. Their commit is
    made when they are complete, so nobody is there to fence on the other side."""
    read = [a.ref for a in accesses(work) if _through_async_proxy(a) and b.kind(a.ref) == "smem"]
    brought = [a for w in _works(b) if copies(w) and not closes_group(b.kernel, w) for a in accesses(w)]
    found = any(a.mode == "write" and _same_field(b, a, ref) for a in brought for ref in read)
    return [Statement("ops/fence")] if found else []


def _works(b: Builder) -> Iterator[Work]:
    for r in b.kernel.resources.values():
        yield from r.works.values()
    for t in b.kernel.tensors.values():
        yield from t.works.values()


def _through_async_proxy(a: Access) -> bool:
    return a.mode == "read" and a.engine in ("bulk", "wgmma", "tcgen05")


def _same_field(b: Builder, a: Access, ref: Ref) -> bool:
    return b.kind(a.ref) == "smem" and b.field(a.ref) == b.field(ref)
