"""TMA loads and stores: descriptors, partitions of windows in the setup, and the copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tsgen.diagnostics import Span
from tsgen.lower.context import Builder, TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.program import SmemField, Statement, TmaMap, View
from tsgen.lower.proofs import in_names
from tsgen.lower.pyexpr import py, split_index
from tsgen.lower.queue import queue_of
from tsgen.lower.smem import SubTile, element_bytes, slot, smem_field, sub_tile
from tsgen.model.algebra import canonical
from tsgen.model.expr import Const, Expr, Full, Index, Placed, Ref, Slice, text
from tsgen.model.expr import names as free_names
from tsgen.model.kernel import CopyArg, Work
from tsgen.model.ops import copies
from tsgen.model.steps import CallStep
from tsgen.model.targets import TARGETS

BOX = 256  # elements that a TMA box has in each dimension at most
LOAD, SHARED_LOAD, STORE = "CopyBulkTensorTileG2SOp", "CopyBulkTensorTileG2SMulticastOp", "CopyBulkTensorTileS2GOp()"


def _dimensions(b: Builder, ref: Ref) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dimensions of a tensor window: those of the box, and those an index picks."""
    tensor = b.kernel.tensors[ref.name]
    window = ref.window if ref.window is not None else tuple(Full() for _ in tensor.shape)
    box = tuple(i for i, w in enumerate(window) if not isinstance(w, Index))
    return box, tuple(i for i, w in enumerate(window) if isinstance(w, Index))


@dataclass(frozen=True)
class _Place:
    """Where a window lies: coordinates among the tensor's boxes, then of the picked dimensions; `offset` is what the
    boxes are shifted by in each dimension, None if by nothing."""

    coordinates: list[str]
    offset: list[Expr] | None
    span: Span


def _place(s: TaskState, ref: Ref, box: tuple[int, ...], picked: tuple[int, ...], placed: Placed) -> _Place:
    kernel = s.builder.kernel
    out: list[str] = []
    offset: list[Expr] = []
    for i in box:
        w = ref.window[i] if ref.window is not None else Full()
        if isinstance(w, Full):
            out.append("0")
            offset.append(Const(0))
            continue
        assert isinstance(w, Slice)
        split = split_index(in_names(kernel, w.start), w.length, s.scope)
        if split is None:
            refuse(f"a TMA window that starts at `{text(w.start)}` in dimension {i}", placed.span)
        out.append(s.py(split[0]))
        offset.append(split[1])
    for i in picked:
        assert ref.window is not None
        w = ref.window[i]
        assert isinstance(w, Index)
        out.append(s.py(w.at))
        offset.append(Const(0))
    return _Place(out, offset if any(e != Const(0) for e in offset) else None, placed.span)


def _view(b: Builder, v: View) -> str:
    """The kernel's name for a tensor in TMA coordinates."""
    if v not in b.views:
        taken = v.tensor in b.generic or any(x.tensor == v.tensor for x in b.views)
        b.views[v] = b.names.new(f"{v.tensor}_tma" if taken else v.tensor)
    return b.views[v]


def _divided(b: Builder, tensor: str, modes: tuple[int, ...], part: SubTile, field: SmemField) -> int | None:
    """Elements of the chunks that rows wider than a box are divided into, so that one box still takes the whole tile.

    A box has at most 256 elements in each dimension and five dimensions. None where one dimension is wide enough, or
    where the rows, swizzled or ragged, cannot be divided: then the copy is made of several boxes.
    """
    width = part.sizes[-1]
    if width <= BOX or field.swizzle or part.at is not None or len(modes) > 4:
        return None
    t = b.kernel.tensors[tensor]
    extent, size = canonical(t.shape[modes[len(part.box) - 1]], b.kernel.env), element_bytes(b, t.dtype)
    fitting = (n for n in range(BOX, 0, -1) if width % n == 0 and n * size % 16 == 0 and extent.multiple_of(n))
    chunk = next(fitting, None)
    return chunk if chunk is not None and width // chunk <= BOX else None


def _map(
    b: Builder, tensor: str, modes: tuple[int, ...], part: SubTile, field: SmemField, op: str, multicast: str | None
) -> TmaMap:
    layout = f"cute.slice_({field.layout}, ({'None, ' * (len(field.shape) - 1)}0))"
    if part.at is not None and not field.swizzle:
        layout = f"cute.make_ordered_layout(({', '.join(part.box)}), order=({'1, 0' if len(part.box) == 2 else '0,'}))"
    elif part.at is not None:
        order = ", ".join(str(i) for i in range(len(part.box)))
        shape = ", ".join(part.box)
        module = TARGETS[b.kernel.target].layouts
        atom = f"{module}.make_smem_layout_atom({module}.SmemLayoutAtomKind.K_SW{field.swizzle}, {field.dtype})"
        layout = f"cute.tile_to_shape({atom}, ({shape}), order=({order}))"
    chunk = _divided(b, tensor, modes, part, field)
    divided = None if chunk is None else (len(part.box) - 1, chunk)
    box = part.box if chunk is None else (*part.box[:-1], f"({chunk}, {_factor(part.box[-1])} // {chunk})")
    key = ("map", tensor, modes, box, layout, op, multicast)
    if key not in b.maps:
        name = b.names.new(f"tma_{tensor}")
        view = _view(b, View(tensor, modes, divided))
        m = TmaMap(name, view, tensor, modes, box, layout, op, multicast, divided)
        if divided is not None:
            m = replace(m, smem_layout=f"cute.logical_divide({layout}, {m.chunks(len(box))})")
        b.maps[key] = m
    return b.maps[key]


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text


def _partition(
    s: TaskState, wish: str, m: TmaMap, field: SmemField, part: SubTile, cta: str, peers: str, at: _Place, line: str
) -> tuple[str, str]:
    """Names of the shared and the global side of a map's boxes: partitioned in the setup, or, where the boxes are
    shifted by a value of the tile, for each tile."""
    b = s.builder
    if m.divided is not None and at.offset is not None:
        refuse("a TMA window of rows wider than a box that does not start at a multiple of its length", at.span)
    offset = None if at.offset is None else tuple(s.py(e) for e in at.offset)
    key = ("partition", m.name, field.name, part.at is None, wish, offset)
    windows, names = b.windows, b.names
    if at.offset is not None:
        moving = [n for e in at.offset for n in free_names(e) if not s.is_fixed(n)]
        if moving:
            refuse(f"a TMA window that `{moving[0]}` moves by other steps than its length", at.span)
        windows, names = (s.tile_windows if queue_of(b) is not None else s.prelude), s.names
    if key not in windows:
        shared, window = names.new(f"{wish}_smem"), names.new(f"{wish}_gmem")
        windows[key] = Statement(
            "setup/tma_partition",
            {
                "smem": shared,
                "gmem": window,
                "map": m.name,
                "cta": cta,
                "peers": peers,
                "field": _whole(field, m),
                "view": m.view,
                "box": m.box,
                "rest": len(m.modes) - len(m.box),
                "split": part.at is not None,
                "offset": offset,
            },
            line,
        )
    v = windows[key].values
    return str(v["smem"]), str(v["gmem"])


def _whole(field: SmemField, m: TmaMap) -> str:
    """The shared tensor, its rows divided as the map's are."""
    if m.divided is None:
        return field.name
    return f"cute.logical_divide({field.name}, {m.chunks(len(field.shape))})"


def _check_box(b: Builder, ref: Ref, box: tuple[int, ...], part: SubTile, s: TaskState, placed: Placed) -> None:
    tensor = b.kernel.tensors[ref.name]
    if tensor.major != len(tensor.shape) - 1 or (box and box[-1] != tensor.major):
        refuse("a TMA window whose last dimension is not the tensor's contiguous one", placed.span)
    lengths = []
    for i in box:
        w = ref.window[i] if ref.window is not None else Full()
        length: Expr = w.length if isinstance(w, Slice) else tensor.shape[i]
        lengths.append(canonical(length, s.scope.env).value)
    if len(box) != len(part.sizes) or any(x != y for x, y in zip(lengths, part.sizes, strict=True)):
        refuse(
            f"a TMA copy between a window {[str(x) for x in lengths]} and a field tile {list(part.sizes)}", placed.span
        )


def tma_load(s: TaskState, work: Work, step: CallStep, stage: str, barrier: str) -> Statement:
    """The copies of one `tma_load`, by one thread (of each warp, with scope: warp); they end on the full barrier."""
    out = [_load_copy(s, work, c, stage) for c in copies(work)]
    lead = s.lead_warp if work.scope == "task" else None
    name = f"{work.owner}_full" if "(" in barrier else None  # a call is made once for all copies
    values = {"copies": out, "barrier": barrier, "full": name, "lead": lead}
    return Statement("ops/tma_load", values, s.note(step))


def _load_copy(s: TaskState, work: Work, c: CopyArg, stage: str) -> Mapping[str, object]:
    b = s.builder
    source, to = c.source, c.to
    placed, to_placed = Placed(source, c.source_span), Placed(to, c.to_span)
    field = smem_field(b, to)
    part = sub_tile(b, to, s.scope)
    if part is None:
        refuse("a field window that does not start at a multiple of its length", to_placed.span)
    box, picked = _dimensions(b, source)
    _check_box(b, source, box, part, s, placed)
    peers, cta, mask = "cute.make_layout(1)", "0", None
    multicast = None
    if c.multicast is not None:
        multicast, cta, mask = _multicast(s, c.multicast)
        if multicast is not None:
            peers = f"cute.make_layout({multicast})"
    # the bytes of a pair of CTAs are counted by its leader
    group = "tcgen05.CtaGroup.TWO" if work.owner in b.derived.pairs else ""
    op = f"{SHARED_LOAD if multicast else LOAD}({group})"
    m = _map(b, source.name, (*box, *picked), part, field, op, multicast)
    wish = f"{work.name}_{source.name}"
    place = _place(s, source, box, picked, placed)
    smem, gmem = _partition(s, wish, m, field, part, cta, peers, place, b.note(c.span.line, f"boxes of {source.name}"))
    at = [*(part.at or ()), slot(b, to, stage, s.scope)]
    return {
        "map": m.name,
        "source": f"{gmem}[None, {', '.join(place.coordinates)}]",
        "to": f"{smem}[None, {', '.join(at)}]",
        "mask": mask,
    }


def _multicast(s: TaskState, axis: str) -> tuple[str | None, str, str | None]:
    """Number of CTAs that share the box, this CTA's rank among them, and the name of the mask; none for one CTA."""
    b = s.builder
    a = next(x for x in b.kernel.launch.axes if x.name == axis)
    if a.cluster == 1:
        return None, "0", None
    count = py(a.cluster_expr, s.scope) if a.cluster_expr != Const(a.cluster) else str(a.cluster)
    others = [x for x in b.kernel.launch.axes if x.cluster > 1 and x.name != axis]
    key = ("mask", axis)
    if key not in b.windows:
        name = b.names.new(f"{axis}_mask")
        stride = 1
        for x in b.kernel.launch.axes:
            if x.name == axis:
                break
            stride *= x.cluster
        ones = f"(1 << {count}) - 1" if stride == 1 else str(sum(1 << (i * stride) for i in range(a.cluster)))
        shift = "" if not others else f" << (cta_rank - cta_{axis} * {stride})"
        b.windows[key] = Statement(
            "setup/assign", {"name": name, "text": f"Int16(({ones}){shift})" if shift else f"Int16({ones})"}
        )
    return count, f"cta_{axis}" if others else "cta_rank", str(b.windows[key].values["name"])


def tma_store(s: TaskState, work: Work, step: CallStep, stage: str | None) -> Statement:
    """One TMA store by the task's elected thread; it closes one bulk group."""
    b = s.builder
    source_arg, to_arg = work.args["from"], work.args["to"]
    assert isinstance(source_arg, Placed) and isinstance(to_arg, Placed)
    source, to = source_arg.expr, to_arg.expr
    assert isinstance(source, Ref) and isinstance(to, Ref)
    if work.args.get("reduce", "none") != "none":
        refuse("tma_store with reduce", step.span)
    field = smem_field(b, source)
    part = sub_tile(b, source, s.scope)
    if part is None:
        refuse("a field window that does not start at a multiple of its length", source_arg.span)
    box, picked = _dimensions(b, to)
    _check_box(b, to, box, part, s, to_arg)
    m = _map(b, to.name, (*box, *picked), part, field, STORE, None)
    wish = f"{work.name}_{to.name}"
    place = _place(s, to, box, picked, to_arg)
    smem, gmem = _partition(
        s, wish, m, field, part, "0", "cute.make_layout(1)", place, b.note(work.span.line, f"boxes of {to.name}")
    )
    at = [*(part.at or ()), slot(b, source, stage, s.scope)]
    values = {
        "map": m.name,
        "source": f"{smem}[None, {', '.join(at)}]",
        "to": f"{gmem}[None, {', '.join(place.coordinates)}]",
        "lead": s.lead_warp,
    }
    return Statement("ops/tma_store", values, s.note(step))
