"""How tiles lie on the threads of a task. All tiles of one shape in a task have one spread, so that works agree on who
holds what: vectors of up to 16 bytes of the widest type that memory holds such a tile in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace

from tsgen.lower.binding import bind
from tsgen.lower.context import Builder, TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.program import Statement
from tsgen.lower.row_fields import is_row_field
from tsgen.lower.smem import element_bytes
from tsgen.lower.tmem_works import moves_tmem
from tsgen.lower.tokens import Spread
from tsgen.model.algebra import canonical
from tsgen.model.expr import Binary, Compare, Const, Expr, Full, Index, Placed, Ref, Slice
from tsgen.model.kernel import Field, Work
from tsgen.model.ops import accesses
from tsgen.model.steps import calls

Shape = tuple[int, ...]


def tile_shape(s: TaskState, ref: Ref) -> Shape | None:
    """Rows and columns (or columns alone) of what a window takes; None if that is one element or not known here."""
    b = s.builder
    extents: tuple[Expr, ...]
    if ref.resource is not None:
        extents = tuple(Const(n) for n in b.field(ref).shape)
    else:
        extents = b.kernel.tensors[ref.name].shape
    window = (*(ref.window or ()), *(Full() for _ in extents))[: len(extents)]
    lengths = [
        canonical(w.length if isinstance(w, Slice) else extent, s.scope.env).value
        for w, extent in zip(window, extents, strict=True)
        if not isinstance(w, Index)
    ]
    if not lengths or any(n is None or n.denominator != 1 for n in lengths):
        return None
    return tuple(int(n) for n in lengths if n is not None)


def spread_of(s: TaskState, w: Work, ref: Ref) -> Spread:
    """The spread of a window over the task's threads (over a warp's, with scope: warp)."""
    shape = tile_shape(s, ref)
    if shape is None or len(shape) > 2:
        refuse(f"a tile of `{ref.name}` whose size is not known, or that has more than two dimensions", w.span)
    return spread(s, w, shape)


def field_spread(s: TaskState, field: Field) -> Spread | None:
    """The spread of a register field that no WGMMA touches; None for a field that is no tile."""
    if len(field.shape) not in (1, 2) or field.shape[-1] == 1 or is_row_field(s, field):
        return None
    works = list(s.builder.kernel.resources[field.owner].works.values())
    return spread(s, works[0], field.shape[-1:] if _is_vector(s, field) else field.shape) if works else None


def _is_vector(s: TaskState, field: Field) -> bool:
    """Whether a field of one row is loaded from something without rows, as a bias is."""
    if len(field.shape) == 1 or field.shape[0] != 1:
        return False
    for w in s.builder.kernel.resources[field.owner].works.values():
        to, source = w.args.get("to"), w.args.get("from")
        if w.op == "load" and isinstance(to, Placed) and isinstance(source, Placed):
            known = isinstance(to.expr, Ref) and isinstance(source.expr, Ref) and s.builder.field(to.expr) == field
            if known and len(tile_shape(s, source.expr) or ()) == 1:  # type: ignore[arg-type]
                return True
    return False


def row_spread(s: TaskState, field: Field) -> Spread | None:
    """The spread of the tiles whose rows a row field speaks of: those of its resource with as many rows."""
    rows = field.shape[0]
    for other in s.builder.kernel.resources[field.owner].fields.values():
        x = field_spread(s, other) if len(other.shape) == 2 and other.shape[0] == rows else None
        if x is not None and x.rank == 2:
            return x
    return None


def spread(s: TaskState, w: Work, shape: Shape) -> Spread:
    key = ("spread", shape, w.scope)
    if key in s.spreads:
        return s.spreads[key]
    rows, cols = (1, *shape)[-2:]
    if len(shape) == 1 and (beside := _tile_of_width(s, w, cols)) is not None:
        s.spreads[key] = _like_its_rows(s, beside)
        return s.spreads[key]
    threads = 32 if w.scope == "warp" else s.threads
    vector, dtype, width = _widest(s, w.scope, shape)
    by_rows = _by_rows(s, shape)
    while vector > 1 and not (cols % vector == 0 if by_rows else _fits(rows, cols, vector, threads)):
        vector //= 2
    if not by_rows and not _fits(rows, cols, vector, threads):
        help = "a register field whose columns each thread holds is marked `rowwise: true`"
        refuse(f"a tile of {rows}x{cols}, which does not spread evenly over {threads} threads", w.span, help)
    across = 1 if by_rows else min(threads, cols // vector)
    s.spreads[key] = Spread(
        thread=s.names.new("tile_thread"),
        index=s.scope.names["thread" if w.scope == "task" else "lane"],
        rows=rows,
        cols=cols,
        rank=len(shape),
        down=rows if by_rows else threads // across,
        across=across,
        vector=vector,
        dtype=dtype,
        bits=vector * width * 8,
    )
    return s.spreads[key]


def _by_rows(s: TaskState, shape: Shape) -> bool:
    """Whether each thread holds a row: as tensor memory has it, in tasks that move it."""
    return len(shape) == 2 and shape[0] == s.threads and moves_tmem(s.task, s.builder.kernel)


def _tile_of_width(s: TaskState, w: Work, cols: int) -> Spread | None:
    """The spread of the task's tiles with rows of so many elements."""
    shapes = {tile_shape(s, ref): None for x, ref in _memory_tiles(s) if x.scope == w.scope}
    return next((spread(s, w, x) for x in shapes if x is not None and len(x) == 2 and x[1] == cols), None)


def _like_its_rows(s: TaskState, tile: Spread) -> Spread:
    """A vector as each row of a tile lies: threads of one column hold the same, so that the two can be combined."""
    index = tile.index if tile.down == 1 else f"{tile.index} % {tile.across}"
    return replace(tile, thread=s.names.new("row_thread"), index=index, rows=1, rank=1, down=1)


def thread_slice(s: TaskState, spread: Spread) -> str:
    """The tiled copy's slice that partitions tensors over a spread, in the task's prelude on first use."""
    s.prelude.setdefault(("spread", spread.thread), Statement("setup/tile_thread", asdict(spread)))
    return spread.thread


def _fits(rows: int, cols: int, vector: int, threads: int) -> bool:
    if cols % vector:
        return False
    across = min(threads, cols // vector)
    if threads % across or (cols // vector) % across:
        return False
    return rows % (threads // across) == 0


def _widest(s: TaskState, scope: str, shape: Shape) -> tuple[int, str, int]:
    """The vector that every tile of this shape in memory can be moved in; the widest element type and its bytes."""
    b = s.builder
    vector, dtype, width = 16, "Float32", 0
    for w, ref in _memory_tiles(s):
        if w.scope != scope or tile_shape(s, ref) != shape:
            continue
        e = b.field(ref).dtype if ref.resource is not None else b.kernel.tensors[ref.name].dtype
        vector = min(vector, _vector(s, ref, element_bytes(b, e), whole=w.op == "cp_async_load"))
        if element_bytes(b, e) > width:
            dtype, width = b.dtype(e), element_bytes(b, e)
    return (vector, dtype, width) if width else (4, "Float32", 4)


def _memory_tiles(s: TaskState) -> Iterator[tuple[Work, Ref]]:
    b = s.builder
    for c in calls(s.task.schedule.steps):
        w = b.kernel.work(c.target, c.method) if c.kind == "work" else None
        if w is None or w.op not in ("load", "store", "map", "cp_async_load"):
            continue
        w = bind(w, c)
        for a in accesses(w):
            if b.kind(a.ref) in ("tensor", "smem") and (w.op != "map" or a.ref.resource is not None):
                yield w, a.ref


def _vector(s: TaskState, ref: Ref, width: int, *, whole: bool) -> int:
    """The longest vector of a window: 16 bytes, less if it does not start at a multiple or is not contiguous.

    `whole`: each vector must lie inside the tensor or outside, none across its edge.
    """
    vector = max(1, 16 // width)
    if ref.resource is not None:
        return vector
    if not contiguous(s.builder, ref):
        return 1
    last = ref.window[-1] if ref.window is not None else Full()
    start: Expr = last.start if isinstance(last, Slice) else Const(0)
    extent = s.builder.kernel.tensors[ref.name].shape[-1]
    while vector > 1 and not (
        canonical(start, s.scope.env).multiple_of(vector) and (not whole or is_multiple(s, extent, vector))
    ):
        vector //= 2
    return vector


def is_multiple(s: TaskState, e: Expr, n: int) -> bool:
    """Whether a value is a multiple of n, by its form or by `launch.assume`: `N % 8 == 0`."""
    form = canonical(e, s.scope.env)
    if form.multiple_of(n):
        return True
    for assumed in s.builder.kernel.launch.assume:
        match assumed.expr:
            case Compare(ops=("==",), operands=(Binary(op="%", left=x, right=m), zero)):
                same = canonical(x, s.scope.env) == form and canonical(zero, s.scope.env).value == 0
                divisor = canonical(m, s.scope.env)
                if same and divisor.value is not None and divisor.multiple_of(n):
                    return True
    return False


def contiguous(b: Builder, ref: Ref) -> bool:
    """Whether the last dimension of a tensor's window is contiguous in memory."""
    tensor = b.kernel.tensors[ref.name]
    return tensor.major == len(tensor.shape) - 1 and not (ref.window is not None and isinstance(ref.window[-1], Index))
