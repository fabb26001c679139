"""`load` and `store`: single elements, and tiles spread over the threads of a task in vectors of up to 16 bytes."""

from __future__ import annotations

from dataclasses import dataclass

from tsgen.lower.context import TaskState, TileToken, join
from tsgen.lower.elementwise import Leaf, Printer
from tsgen.lower.errors import refuse
from tsgen.lower.mma import accumulator, fragment
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import Scope, py, py_factor, tile_index
from tsgen.lower.smem import element_bytes, slot, smem_field, sub_tile, tile_rank
from tsgen.model.algebra import canonical, prune
from tsgen.model.bounds import Interval, interval, intervals
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Binary, Call, Const, Expr, Full, Index, Name, Ref, Slice
from tsgen.model.kernel import Tensor, Work
from tsgen.model.ops import accesses
from tsgen.model.steps import CallStep


def load(s: TaskState, w: Work, step: CallStep, stage: str | None) -> list[Statement]:
    """A `load`: an element to a token or a scalar field, or a tile to a token."""
    source, place = _ref(w, "from")
    if "where" in w.args:
        refuse("`where` on a load", w.span)
    to = w.args.get("to")
    if source.resource is None and _all_indices(source):
        text = element(s, source)
        if to is not None:
            target, _ = _ref(w, "to")
            return [Statement("setup/assign", {"name": f"{fragment(s, s.builder.field(target))}[0]", "text": text}, s.note(step))]
        token = s.names.new(step.results[0])
        s.tokens[step.results[0]] = token
        return [Statement("setup/assign", {"name": token, "text": text}, s.note(step))]
    if to is not None:
        refuse("a load of a tile into a register field", w.span)
    spread = _spread(s, w, source)
    name = s.names.new(step.results[0])
    s.tokens[step.results[0]] = TileToken(name, spread.thread, spread.rows, spread.cols, spread.vector, spread.dtype)
    if source.resource is not None:
        part, index = _smem_side(s, w, source, spread, "S", stage)
        values: dict[str, object] = {"token": name, "part": part, "index": index, "dtype": spread.dtype}
        return [Statement("ops/load_smem", values, s.note(step))]
    return [Statement("ops/load_gmem", {"token": name, "dtype": spread.dtype, **_gmem_side(s, w, source, spread, "S")}, s.note(step))]


def store(s: TaskState, w: Work, step: CallStep, stage: str | None) -> list[Statement]:
    """A `store`: an element, a tile token, or a WGMMA fragment."""
    target, _ = _ref(w, "to")
    value = prune(_value(w), s.scope.env)
    if target.resource is None and _all_indices(target):
        return [_store_element(s, w, step, target, value)]
    token = s.tokens.get(value.id) if isinstance(value, Name) else None
    if isinstance(token, TileToken):
        return _store_tile(s, w, step, target, token, stage)
    if isinstance(value, Ref) and value.resource is not None and s.builder.kind(value) == "rmem":
        field = s.builder.field(value)
        if accumulator(s.builder, field) is not None and target.resource is not None:
            return _store_matrix(s, w, step, target, value, stage)
    refuse(f"the store `{w.owner}.{w.name}`", w.span)


def _ref(w: Work, key: str) -> tuple[Ref, object]:
    from tsgen.lower.mma import ref_of

    return ref_of(w, key)


def _value(w: Work) -> Expr:
    v = w.args["value"]
    return v.expr  # type: ignore[union-attr]


def _all_indices(ref: Ref) -> bool:
    return ref.window is not None and all(isinstance(w, Index) for w in ref.window)


# ---- single elements ------------------------------------------------------------------------------------------------


def element(s: TaskState, ref: Ref) -> str:
    """One element of a tensor; an index that may lie past the edge is clamped to it."""
    b = s.builder
    tensor = b.kernel.tensors[ref.name]
    assert ref.window is not None
    indices = []
    for w, extent in zip(ref.window, tensor.shape, strict=True):
        assert isinstance(w, Index)
        text = s.py(w.at)
        inside = provably_inside(s, w.at, extent)
        indices.append(text if inside else f"cutlass.min({text}, {py_factor(extent, s.scope)} - 1)")
    return f"{b.tensor(ref.name)}[{join(indices)}]"


def provably_inside(s: TaskState, index: Expr, extent: Expr) -> bool:
    """Whether 0 <= index < extent for every value of its unknowns, from the bounds of loops and of the tile space."""
    known = intervals(s.builder.kernel)
    known.update({n: Interval(interval(e, known, s.scope.env).low) for n, e in s.lows.items()})
    low = interval(index, known, s.scope.env).low
    if low is None or low < 0:
        return False
    highest = _highest(s, index)
    if highest is None:
        return False
    room = canonical(Binary("-", Binary("-", extent, highest), Const(1)), s.scope.env)
    if room.value is not None:
        return room.value >= 0
    return False


def _highest(s: TaskState, e: Expr) -> Expr | None:
    """The largest value as an expression: every name with a known last value, times a positive number, replaced by it."""
    p = canonical(e, s.scope.env)
    total: Expr = Const(0)
    for monomial, coefficient in p.terms:
        if coefficient.denominator != 1:
            return None
        if not monomial:
            total = Binary("+", total, Const(int(coefficient)))
            continue
        if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].args or coefficient < 0:
            return None
        name = monomial[0][0].head
        last = s.lasts.get(name)
        if last is None:
            return None
        total = Binary("+", total, Binary("*", Const(int(coefficient)), last))
    return total


def _store_element(s: TaskState, w: Work, step: CallStep, target: Ref, value: Expr) -> Statement:
    b = s.builder
    tensor = b.kernel.tensors[target.name]
    assert target.window is not None
    conditions, indices = [], []
    for x, extent in zip(target.window, tensor.shape, strict=True):
        assert isinstance(x, Index)
        text = s.py(x.at)
        indices.append(text)
        if not provably_inside(s, x.at, extent):
            conditions.append(f"{text} < {py(extent, s.scope)}")
    printer = Printer(s.scope, lambda leaf: _scalar_leaf(s, w, step, leaf), w.span)
    if "where" in w.args:
        conditions.append(printer.print(prune(w.args["where"].expr, s.scope.env), 3))  # type: ignore[union-attr]
    dtype = b.dtype(tensor.dtype)
    text = _converted(printer, value, dtype, b.dtype_word(tensor.dtype))
    values = {"target": f"{b.tensor(target.name)}[{join(indices)}]", "value": text, "condition": " and ".join(conditions)}
    return Statement("ops/store_element", values, s.note(step))


def _converted(printer: Printer, value: Expr, dtype: str, word: str) -> str:
    if isinstance(value, Name):  # a token as it was loaded: converted once, exactly if the types are equal
        leaf = printer.resolve(value)
        return f"{dtype}({leaf.text.removeprefix('Float32(').removesuffix(')')})" if leaf.number == "float" else f"{dtype}({leaf.text})"
    return f"{dtype}({printer.float(value) if DTYPES[word].kind == 'float' else printer.print(value)})"


def _scalar_leaf(s: TaskState, w: Work, step: CallStep, leaf: Name | Ref | Call) -> Leaf:
    """A name or reference in the value of an element store: a token or a scalar register field, as float32."""
    if isinstance(leaf, Name):
        token = s.tokens.get(leaf.id)
        if isinstance(token, str):
            return Leaf(f"Float32({token})", "scalar", "float")
        return Leaf(s.py(leaf), "scalar", "int")
    if isinstance(leaf, Ref) and leaf.resource is None:
        return Leaf(f"Float32({element(s, leaf)})", "scalar", "float")
    if isinstance(leaf, Ref) and s.builder.kind(leaf) == "rmem":
        return Leaf(f"Float32({fragment(s, s.builder.field(leaf))}[0])", "scalar", "float")
    refuse(f"`{w.owner}.{w.name}` with this value", w.span)


# ---- tiles ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """How a tile of rows x cols lies on threads: `down` x `across` threads, each with vectors of `vector` elements."""

    thread: str  # the tiled copy's slice
    rows: int
    cols: int
    down: int
    across: int
    vector: int
    dtype: str
    rank: int


def _tile_shape(s: TaskState, ref: Ref) -> tuple[int, int, int]:
    """Rows, columns and rank of the tile that a window takes."""
    b = s.builder
    if ref.resource is not None:
        part = sub_tile(b, ref, s.scope)
        sizes = part.sizes if part is not None else b.field(ref).shape[-tile_rank(b.field(ref)) :]
    else:
        tensor = b.kernel.tensors[ref.name]
        lengths = []
        for w, extent in zip(ref.window or (Full(),) * len(tensor.shape), tensor.shape, strict=True):
            if isinstance(w, Index):
                continue
            n = canonical(w.length if isinstance(w, Slice) else extent, s.scope.env).value
            lengths.append(int(n) if n is not None else 0)
        sizes = tuple(lengths)
    if len(sizes) == 1:
        return 1, sizes[0], 1
    return (sizes[0], sizes[1], 2) if len(sizes) == 2 else (0, 0, len(sizes))


def _spread(s: TaskState, w: Work, ref: Ref) -> Spread:
    """The spread of a tile over the task's threads (of a warp, with scope: warp)."""
    b = s.builder
    rows, cols, rank = _tile_shape(s, ref)
    e = b.field(ref).dtype if ref.resource is not None else b.kernel.tensors[ref.name].dtype
    width = element_bytes(b, e)
    threads = 32 if w.scope == "warp" else s.threads
    if rows * cols == 0 or rank > 2:
        refuse(f"a tile of `{ref.name}` whose size is not known or that has more than two dimensions", w.span)
    vector = max(1, 16 // width)
    while vector > 1 and not _fits(rows, cols, vector, threads):
        vector //= 2
    if not _fits(rows, cols, vector, threads):
        refuse(f"a tile of {rows}x{cols}, which does not spread evenly over {threads} threads", w.span)
    across = min(threads, cols // vector)
    down = threads // across
    dtype = b.dtype(e)
    key = ("spread", down, across, vector, dtype, rank, w.scope)
    if key not in s.prelude:
        name = s.names.new("tile_thread")
        index = s.scope.names["thread"] if w.scope == "task" else s.scope.names["lane"]
        values = {"name": name, "dtype": dtype, "bits": vector * width * 8, "down": down, "across": across, "vector": vector, "rank": rank, "thread": index}
        s.prelude[key] = Statement("setup/tile_thread", values)
    return Spread(str(s.prelude[key].values["name"]), rows, cols, down, across, vector, dtype, rank)


def _fits(rows: int, cols: int, vector: int, threads: int) -> bool:
    if cols % vector:
        return False
    across = min(threads, cols // vector)
    if threads % across or (cols // vector) % across:
        return False
    return rows % (threads // across) == 0


def _smem_side(s: TaskState, w: Work, ref: Ref, spread: Spread, side: str, stage: str | None) -> tuple[str, str]:
    """The partition of a shared tile, and how a call indexes it."""
    b = s.builder
    field = smem_field(b, ref)
    part = sub_tile(b, ref, s.scope)
    if part is None:
        refuse("a field window that does not start at a multiple of its length", w.span)
    text = field.name
    if part.at is not None:
        text = f"cute.local_tile({text}, ({join(part.box)}), ({join(part.at)}, None))"
    key = ("smem_side", side, text, spread.thread)
    if key not in s.prelude:
        name = s.names.new(f"{field.name}_{'from' if side == 'S' else 'to'}")
        s.prelude[key] = Statement("setup/assign", {"name": name, "text": f"{spread.thread}.partition_{side}({text})"})
    return str(s.prelude[key].values["name"]), f"[{'None, ' * (1 + spread.rank)}{slot(b, ref, stage, s.scope)}]"


def _gmem_side(s: TaskState, w: Work, ref: Ref, spread: Spread, side: str) -> dict[str, object]:
    """The window of a tensor as a tile partitioned over threads, with what is needed to stay inside the tensor."""
    b = s.builder
    tensor = b.kernel.tensors[ref.name]
    name = b.tensor(ref.name)
    window = ref.window if ref.window is not None else tuple(Full() for _ in tensor.shape)
    picked = [s.py(x.at) if isinstance(x, Index) else "None" for x in window]
    text = name if all(p == "None" for p in picked) else f"{name}[{join(picked)}]"
    dims = [(x, e) for x, e in zip(window, tensor.shape, strict=True) if not isinstance(x, Index)]
    starts = [x.start if isinstance(x, Slice) else Const(0) for x, _ in dims]
    lengths = [py(x.length if isinstance(x, Slice) else e, s.scope) for x, e in dims]
    coordinates = [tile_index(x.start, x.length, s.scope) if isinstance(x, Slice) else "0" for x, _ in dims]
    if any(c is None for c in coordinates):
        text = f"cute.domain_offset(({join(s.py(e) for e in starts)}{',' if len(starts) == 1 else ''}), {text})"
        coordinates = ["0"] * len(dims)
    if tensor.major != len(tensor.shape) - 1 or isinstance(window[-1], Index):
        refuse("a tile whose last dimension is not the tensor's contiguous one", w.span)
    if not canonical(starts[-1], s.scope.env).multiple_of(spread.vector):
        refuse(f"a tile that does not start at a multiple of {spread.vector} elements", w.span)
    b.vectors[ref.name] = max(b.vectors.get(ref.name, 1), spread.vector)
    limits = []
    for (x, e), start in zip(dims, starts, strict=True):
        whole = isinstance(x, Full)
        limits.append(None if whole else (py_factor(start, s.scope), py(e, s.scope)))
    tile = ", ".join(lengths) + ("," if len(lengths) == 1 else "")
    at = ", ".join(str(c) for c in coordinates) + ("," if len(coordinates) == 1 else "")
    return {
        "tile": f"cute.local_tile({text}, ({tile}), ({at}))",
        "thread": spread.thread,
        "side": side,
        "index": s.scope.names["thread" if w.scope == "task" else "lane"],
        "limits": limits,
        "rank": spread.rank,
        "down": spread.down,
        "across": spread.across,
        "vector": spread.vector,
        "reps": (spread.rows // spread.down, spread.cols // (spread.across * spread.vector)),
        "i": s.names.new("i") if spread.rows > spread.down else "0",
        "j": s.names.new("j") if spread.cols > spread.across * spread.vector else "0",
        "e": s.names.new("e"),
        "column": s.names.new("column"),
        "fresh": s.names.new(f"{ref.name}_{'from' if side == 'S' else 'to'}"),
    }


def _store_tile(s: TaskState, w: Work, step: CallStep, target: Ref, token: TileToken, stage: str | None) -> list[Statement]:
    spread = _spread(s, w, target)
    if (spread.rows, spread.cols, spread.vector, spread.thread) != (token.rows, token.cols, token.vector, token.copy):
        refuse(f"a store of a {token.rows}x{token.cols} tile with another spread than its load", w.span)
    if target.resource is not None:
        part, index = _smem_side(s, w, target, spread, "D", stage)
        return [Statement("ops/store_smem", {"token": token.name, "part": part, "index": index, "fence": needs_fence(s, target)}, s.note(step))]
    if "where" in w.args:
        refuse("`where` on a tile store", w.span)
    return [Statement("ops/store_gmem", {"token": token.name, **_gmem_side(s, w, target, spread, "D")}, s.note(step))]


def needs_fence(s: TaskState, ref: Ref) -> bool:
    """Whether some work reads the field through the async proxy, so that generic writes to it need a fence."""
    b = s.builder
    field = b.field(ref)
    kernel = b.kernel
    owners = [*kernel.resources.values(), *kernel.tensors.values()]
    for owner in owners:
        for w in owner.works.values():
            for a in accesses(w) if w.op is not None else ():
                if a.ref.resource is not None and a.engine in ("bulk", "wgmma", "tcgen05", "tx") and a.mode == "read":
                    if kernel.resources[a.ref.resource].kind == "smem" and b.field(a.ref) == field:
                        return True
    return False


# ---- WGMMA fragments ------------------------------------------------------------------------------------------------


def _store_matrix(s: TaskState, w: Work, step: CallStep, target: Ref, value: Ref, stage: str | None) -> list[Statement]:
    """Columns of an accumulator to shared memory with stmatrix, four 8x8 blocks at a time."""
    b = s.builder
    acc_field = b.field(value)
    owner = accumulator(b, acc_field)
    assert owner is not None
    field = smem_field(b, target)
    word = b.dtype_word(b.field(target).dtype)
    if word not in ("f16", "bf16"):
        refuse(f"a store of a WGMMA accumulator as {word} to shared memory", w.span, "use f16 or bf16")
    if "where" in w.args:
        refuse("`where` on a store to shared memory", w.span)
    part = sub_tile(b, target, s.scope)
    if part is None:
        refuse("a field window that does not start at a multiple of its length", w.span)
    rows, cols = part.sizes[-2:]
    slices, index = _columns(s, w, value, acc_field.shape, cols)
    if rows != acc_field.shape[-2] or cols % 16:
        refuse(f"a store of {rows}x{cols} of an accumulator of {list(acc_field.shape)}", w.span)
    from tsgen.lower.mma import tiled_mma

    mma = tiled_mma(s, owner.work)
    acc = fragment(s, acc_field)
    text = field.name
    if part.at is not None:
        text = f"cute.local_tile({text}, ({join(part.box)}), ({join(part.at)}, None))"
    key = ("stmatrix", acc, text, cols)
    if key not in s.prelude:
        names = {x: s.names.new(f"{w.name}_{x}") for x in ("copy", "to", "staged", "slices")}
        scope = Scope(b.kernel.env, b.constants)
        values = {
            **names,
            "dtype": b.dtype(b.field(target).dtype),
            "mma": mma.name,
            "thread": s.scope.names["thread"],
            "field": text,
            "acc": acc,
            "fragment_rows": max(1, acc_field.shape[-2] // (16 * s.num_warps)),
            "slice_columns": part.box[-1],
            "columns": py(acc_field.dims[-1], scope),
            "count": "1" if slices == 1 else f"{py(acc_field.dims[-1], scope)} // {part.box[-1]}",
        }
        s.prelude[key] = Statement("setup/stmatrix", values, b.note(w.span.line, f"{w.owner}.{w.name}: stmatrix, four 8x8 blocks at a time"))
        b.needs.add("warp")
    v = s.prelude[key].values
    values = {
        "copy": v["copy"],
        "staged": v["staged"],
        "slices": v["slices"],
        "to": v["to"],
        "dtype": v["dtype"],
        "slice": index,
        "slot": slot(b, target, stage, s.scope),
        "fence": needs_fence(s, target),
    }
    return [Statement("ops/store_matrix", values, s.note(step))]


def _columns(s: TaskState, w: Work, value: Ref, shape: tuple[int, ...], cols: int) -> tuple[int, str]:
    """Runs of `cols` columns in an accumulator, and which of them a window takes."""
    window = value.window or (Full(), Full())
    if not isinstance(window[-2], Full):
        refuse("a window of rows of an accumulator", w.span)
    x = window[-1]
    if isinstance(x, Full):
        return shape[-1] // cols, "0"
    assert isinstance(x, Slice)
    index = tile_index(x.start, x.length, s.scope)
    if index is None or canonical(x.length, s.scope.env).value != cols:
        refuse("columns of an accumulator that do not match the stored tile", w.span)
    return shape[-1] // cols, index
