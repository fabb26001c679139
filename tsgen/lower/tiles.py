"""`load` and `store`: single elements, and tiles spread over the threads of a task in vectors of up to 16 bytes."""

from __future__ import annotations

from tsgen.frozen import frozen
from tsgen.lower.context import TaskState, TileToken, join
from tsgen.lower.elements import element, picks_element, store_element
from tsgen.lower.errors import refuse
from tsgen.lower.fragments import store_fragment
from tsgen.lower.matrix import store_matrix
from tsgen.lower.mma import accumulator, fragment, ref_of
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import py, py_factor, tile_index
from tsgen.lower.smem import element_bytes, needs_fence, slot, smem_field, sub_tile, tile_rank
from tsgen.model.algebra import canonical, prune
from tsgen.model.expr import Const, Full, Index, Name, Placed, Ref, Slice
from tsgen.model.kernel import Work
from tsgen.model.steps import CallStep


def load(s: TaskState, w: Work, step: CallStep, stage: str | None) -> list[Statement]:
    """A `load`: an element to a token or a scalar field, or a tile to a token."""
    source, _ = ref_of(w, "from")
    if "where" in w.args:
        refuse("`where` on a load", w.span)
    to = w.args.get("to")
    if source.resource is None and picks_element(source):
        text = element(s, source)
        if to is not None:
            target, _ = ref_of(w, "to")
            return [
                Statement(
                    "setup/assign", {"name": f"{fragment(s, s.builder.field(target))}[0]", "text": text}, s.note(step)
                )
            ]
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
    return [
        Statement(
            "ops/load_gmem",
            {"token": name, "dtype": spread.dtype, **_gmem_side(s, w, source, spread, "S")},
            s.note(step),
        )
    ]


def store(s: TaskState, w: Work, step: CallStep, stage: str | None) -> list[Statement]:
    """A `store`: an element, a tile token, or a WGMMA fragment."""
    target, _ = ref_of(w, "to")
    placed = w.args["value"]
    assert isinstance(placed, Placed)
    value = prune(placed.expr, s.scope.env)
    if target.resource is None and picks_element(target):
        return [store_element(s, w, step, target, value)]
    token = s.tokens.get(value.id) if isinstance(value, Name) else None
    if isinstance(token, TileToken):
        return _store_tile(s, w, step, target, token, stage)
    if isinstance(value, Ref) and value.resource is not None and s.builder.kind(value) == "rmem":
        field = s.builder.field(value)
        if accumulator(s.builder, field) is not None and target.resource is not None:
            return store_matrix(s, w, step, target, value, stage)
        if accumulator(s.builder, field) is not None:
            return store_fragment(s, w, step, target, value)
    refuse(f"the store `{w.owner}.{w.name}`", w.span)


@frozen
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
        values = {
            "name": name,
            "dtype": dtype,
            "bits": vector * width * 8,
            "down": down,
            "across": across,
            "vector": vector,
            "rank": rank,
            "thread": index,
        }
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


def _store_tile(
    s: TaskState, w: Work, step: CallStep, target: Ref, token: TileToken, stage: str | None
) -> list[Statement]:
    spread = _spread(s, w, target)
    if (spread.rows, spread.cols, spread.vector, spread.thread) != (token.rows, token.cols, token.vector, token.copy):
        refuse(f"a store of a {token.rows}x{token.cols} tile with another spread than its load", w.span)
    if target.resource is not None:
        part, index = _smem_side(s, w, target, spread, "D", stage)
        return [
            Statement(
                "ops/store_smem",
                {"token": token.name, "part": part, "index": index, "fence": needs_fence(s.builder, target)},
                s.note(step),
            )
        ]
    if "where" in w.args:
        refuse("`where` on a tile store", w.span)
    return [Statement("ops/store_gmem", {"token": token.name, **_gmem_side(s, w, target, spread, "D")}, s.note(step))]
