"""Tiles between memory and registers: windows of tensors, kept inside the tensor, and of fields in shared memory."""

from __future__ import annotations

from tsgen.lower import elements
from tsgen.lower.context import TaskState, join
from tsgen.lower.errors import refuse
from tsgen.lower.positions import stage
from tsgen.lower.program import Statement, assign
from tsgen.lower.pyexpr import py, py_compared, tile_index
from tsgen.lower.smem import element_bytes, needs_fence, slot, smem_field, tile_rank
from tsgen.lower.spread import contiguous, is_multiple, spread_of, thread_slice
from tsgen.lower.tokens import Spread, TileToken
from tsgen.model.algebra import canonical
from tsgen.model.expr import Binary, Const, Expr, Full, Index, Ref, Slice, Window, names
from tsgen.model.kernel import Work

# First index of the window and extent of the dimension, where it may end outside; and whether each vector of a thread
# is inside or outside as a whole, since both are multiples of it
Limit = tuple[str, str, bool] | None
_INSIDE: tuple[Limit, ...] = (None, None)


def read_tile(
    s: TaskState, w: Work, ref: Ref, name: str, into: TileToken | None = None, mask: str | None = None
) -> tuple[TileToken, list[Statement]]:
    """Loads a window into registers: `into`, or fresh ones called `name`. Elements outside, or masked off, are zero."""
    b = s.builder
    spread = spread_of(s, w, ref)
    e = b.field(ref).dtype if ref.resource is not None else b.kernel.tensors[ref.name].dtype
    token = into or TileToken(name, spread, b.dtype(e), b.dtype_word(e))
    if token.spread != spread:
        refuse(f"a load of a tile of `{ref.name}` with another spread than its register field", w.span)
    if ref.resource is not None:
        (part, out), limits = smem_part(s, w, ref, spread, "S"), _INSIDE
    else:
        window, limits = window_tile(s, w, ref, spread)
        part = s.names.new(f"{ref.name}_from")
        out = [assign(part, f"{thread_slice(s, spread)}.partition_S({window})")]
    if into is None:
        out.append(assign(name, f"cute.make_rmem_tensor_like({part})"))
    guards = picks_inside(s, ref)
    if mask is not None or any(limits) or guards:
        out.append(Statement("ops/fill", {"token": token.name, "dtype": token.dtype}))
    return token, [*out, *_guarded(guards, _copy(s, spread, part, token.name, limits, mask))]


def write_tile(s: TaskState, w: Work, ref: Ref, token: TileToken, mask: str | None = None) -> list[Statement]:
    """Stores registers to a window; nothing outside the tensor, and nothing that is masked off."""
    spread = spread_of(s, w, ref)
    if token.spread != spread:
        sizes = f"{token.spread.rows}x{token.spread.cols}", f"{spread.rows}x{spread.cols}"
        refuse(f"a store of a {sizes[0]} tile to a window of {sizes[1]}", w.span)
    if ref.resource is not None:
        part, out = smem_part(s, w, ref, spread, "D")
        out = [*out, *_copy(s, spread, token.name, part, _INSIDE, mask)]
        return [*out, Statement("ops/fence")] if needs_fence(s.builder, ref) else out
    window, limits = window_tile(s, w, ref, spread)
    part = s.names.new(f"{ref.name}_to")
    start = assign(part, f"{thread_slice(s, spread)}.partition_D({window})")
    return _guarded(picks_inside(s, ref), [start, *_copy(s, spread, token.name, part, limits, mask)])


def picks_inside(s: TaskState, ref: Ref) -> list[str]:
    """Conditions under which the indices of a tensor's window are inside: a CTA of a cluster may have a tile past the
    edge. Indices that tensors hold are taken as they are."""
    if ref.resource is not None or ref.window is None:
        return []
    tensor = s.builder.kernel.tensors[ref.name]
    coordinates = {a.name for a in s.builder.kernel.launch.axes if a.cluster > 1}
    return [
        f"{s.py(x.at)} < {py(extent, s.scope)}"
        for x, extent in zip(ref.window, tensor.shape, strict=True)
        if isinstance(x, Index) and names(x.at) & coordinates and not elements.provably_inside(s, x.at, extent)
    ]


def _guarded(conditions: list[str], body: list[Statement]) -> list[Statement]:
    return [_if(conditions, body)] if conditions else body


def fresh(s: TaskState, name: str, spread: Spread, dtype: str, word: str) -> tuple[TileToken, Statement]:
    """New registers for a tile."""
    text = f"cute.make_rmem_tensor({spread.shape}, {dtype})"
    return TileToken(name, spread, dtype, word), assign(name, text)


def convert(source: TileToken, to: TileToken) -> Statement:
    """All of a tile in another type: whole vectors, so that conversions are packed."""
    return Statement("ops/convert", {"source": source.name, "to": to.name, "dtype": to.dtype})


def smem_part(s: TaskState, w: Work, ref: Ref, spread: Spread, side: str) -> tuple[str, list[Statement]]:
    """This thread's part of a field's window at the work's stage, and what makes it if the prelude cannot."""
    b = s.builder
    field, shared = b.field(ref), smem_field(b, ref)
    lead = len(field.shape) - tile_rank(field)
    window = (*(ref.window or ()), *(Full() for _ in field.shape))[lead : len(field.shape)]
    text, boxes = shared.name, list[str]()
    picked = any(isinstance(x, Index) for x in window)
    if picked:
        text += f"[{join(s.py(x.at) if isinstance(x, Index) else 'None' for x in window)}, None]"
    kept = [(x, d) for x, d in zip(window, field.dims[lead:], strict=True) if not isinstance(x, Index)]
    if any(isinstance(x, Slice) and canonical(x.length, s.scope.env) != canonical(d, s.scope.env) for x, d in kept):
        sizes = [py(x.length if isinstance(x, Slice) else d, s.scope) for x, d in kept]
        for x, _ in kept:
            box = tile_index(x.start, x.length, s.scope) if isinstance(x, Slice) else "0"
            if box is None:
                refuse("a field window that does not start at a multiple of its length", w.span)
            boxes.append(box)
        text = f"cute.local_tile({text}, {_tuple(sizes)}, ({'None, ' * len(kept)}None))"
    at = join([*["None"] * (1 + spread.rank), *boxes, slot(b, ref, stage(s, ref.resource or field.owner, w), s.scope)])
    partition = f"{thread_slice(s, spread)}.partition_{side}({text})"
    wish = f"{shared.name}_{'from' if side == 'S' else 'to'}"
    if picked:
        name = s.names.new(wish)
        return f"{name}[{at}]", [assign(name, partition)]
    key = ("smem_part", side, text, spread.thread)
    if key not in s.prelude:
        s.prelude[key] = assign(s.names.new(wish), partition)
    return f"{s.prelude[key].values['name']}[{at}]", []


def window_tile(s: TaskState, w: Work, ref: Ref, spread: Spread) -> tuple[str, tuple[Limit, ...]]:
    """A tensor's window as a tile, and along which of its dimensions it may end outside the tensor."""
    b = s.builder
    tensor = b.kernel.tensors[ref.name]
    if contiguous(b, ref):
        b.vectors[ref.name] = max(b.vectors.get(ref.name, 1), min(spread.vector, 16 // element_bytes(b, tensor.dtype)))
    window = ref.window if ref.window is not None else tuple(Full() for _ in tensor.shape)
    kept = [(x, e) for x, e in zip(window, tensor.shape, strict=True) if not isinstance(x, Index)]
    limits = tuple(_limit(s, x, e, spread.vector) for x, e in kept)
    return tile_of(s, b.tensor(ref.name), window, tensor.shape, ""), limits


def tile_of(s: TaskState, text: str, window: tuple[Window, ...], dims: tuple[Expr, ...], last: str) -> str:
    """The part of a tensor that a window takes; `last` is the index of a further mode, if there is one."""
    modes = [s.py(x.at) if isinstance(x, Index) else "None" for x in window] + ([last] if last else [])
    if any(m != "None" for m in modes):
        text += f"[{join(modes)}]"
    kept = [(x, e) for x, e in zip(window, dims, strict=True) if not isinstance(x, Index)]
    if all(isinstance(x, Full) for x, _ in kept):
        return text
    starts: list[Expr] = [x.start if isinstance(x, Slice) else Const(0) for x, _ in kept]
    lengths = [py(x.length if isinstance(x, Slice) else e, s.scope) for x, e in kept]
    at = [tile_index(x.start, x.length, s.scope) if isinstance(x, Slice) else "0" for x, _ in kept]
    if any(c is None for c in at):
        text = f"cute.domain_offset({_tuple([s.py(e) for e in starts])}, {text})"
        at = ["0"] * len(kept)
    return f"cute.local_tile({text}, {_tuple(lengths)}, {_tuple([str(c) for c in at])})"


def _limit(s: TaskState, x: Window, extent: Expr, vector: int) -> Limit:
    if not isinstance(x, Slice):
        return None
    last = Binary("-", Binary("+", x.start, x.length), Const(1))
    if elements.provably_inside(s, last, extent):
        return None
    whole = is_multiple(s, extent, vector) and canonical(x.start, s.scope.env).multiple_of(vector)
    return s.py(x.start), py_compared(extent, s.scope), whole


def _copy(
    s: TaskState, spread: Spread, source: str, target: str, limits: tuple[Limit, ...], mask: str | None
) -> list[Statement]:
    """The copy of a thread's part: whole, or vector by vector and, at the edge, element by element."""
    rows, cols = (None, *limits)[-2:]
    if rows is None and cols is None and mask is None:
        return [Statement("ops/copy", {"source": source, "target": target})]
    reps = spread.reps
    i = s.names.new("i") if spread.rank == 2 and reps[0] > 1 else "0"
    j = s.names.new("j") if reps[1] > 1 else "0"
    at = f"{i}, {j}" if spread.rank == 2 else j
    body = _vector(s, spread, source, target, at, j, cols, mask)
    if j != "0":
        body = [loop(j, reps[1], body)]
    if rows is not None:
        row = spread.row(i)
        inside = f"{sum_text(rows[0], row)} < {rows[1]}"
        body = [Statement("blocks/if", {"condition": inside}, None, tuple(body))]
    return [loop(i, reps[0], body)] if i != "0" else body


def _vector(
    s: TaskState, spread: Spread, source: str, target: str, at: str, j: str, cols: Limit, mask: str | None
) -> list[Statement]:
    """One vector: at once where all of it is inside and wanted."""
    vector = Statement("ops/copy", {"source": f"{source}[None, {at}]", "target": f"{target}[None, {at}]"})
    if spread.vector == 1:
        conditions = [f"{sum_text(cols[0], spread.column(j))} < {cols[1]}"] if cols is not None else []
        conditions += [f"{mask}[0, {at}]"] if mask is not None else []
        return [_if(conditions, [vector])]
    if cols is not None and cols[2] and mask is None:
        inside = f"{sum_text(cols[0], spread.column(j))} < {cols[1]}"
        return [_if([inside], [vector])]
    e = s.names.new("e")
    single = assign(f"{target}[{e}, {at}]", f"{source}[{e}, {at}]")
    if cols is None:
        return [loop(e, spread.vector, [_if([f"{mask}[{e}, {at}]"], [single])])] if mask is not None else [vector]
    column = s.names.new("column")
    start = assign(column, sum_text(cols[0], spread.column(j)))
    conditions = [f"{column} + {e} < {cols[1]}", *([f"{mask}[{e}, {at}]"] if mask is not None else [])]
    edge = loop(e, spread.vector, [_if(conditions, [single])])
    if mask is not None:
        return [start, edge]
    values = {"condition": f"{column} + {spread.vector} <= {cols[1]}", "orelse": (edge,)}
    return [start, Statement("blocks/if_else", values, None, (vector,))]


def loop(var: str, count: int, body: list[Statement]) -> Statement:
    return Statement("blocks/static_for", {"var": var, "over": f"cutlass.range_constexpr({count})"}, None, tuple(body))


def _if(conditions: list[str], body: list[Statement]) -> Statement:
    return Statement("blocks/if", {"condition": " and ".join(conditions)}, None, tuple(body))


def sum_text(start: str, offset: str) -> str:
    return offset if start == "0" else start if offset == "0" else f"{start} + {offset}"


def _tuple(items: list[str]) -> str:
    return f"({join(items)}{',' if len(items) == 1 else ''})"
