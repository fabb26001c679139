"""WGMMA fragments between registers and memory, a thread's pairs of neighbouring columns at a time."""

from __future__ import annotations

from tsgen.lower.context import TaskState, join
from tsgen.lower.errors import refuse
from tsgen.lower.mma import accumulator, fragment, mma_thread, tiled_mma
from tsgen.lower.positions import stage
from tsgen.lower.program import Statement, assign
from tsgen.lower.proofs import in_names
from tsgen.lower.pyexpr import Scope, py, py_difference, split_index
from tsgen.lower.rows import row_limit
from tsgen.lower.smem import slot, smem_field, sub_tile
from tsgen.lower.tile_copies import picks_inside
from tsgen.model.algebra import canonical
from tsgen.model.expr import Const, Expr, Full, Index, Ref, Slice, text
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep

PAIR = 2  # columns that a thread owns side by side


def load_fragment(s: TaskState, w: Work, step: CallStep, source: Ref, field: Field) -> list[Statement]:
    """A tile in shared memory to a register field with the spread of an accumulator."""
    b = s.builder
    owner = accumulator(b, field)
    assert owner is not None
    if source.resource is None or "where" in w.args:
        refuse(f"a load of `{source.name}` into a WGMMA fragment", w.span, "load it to shared memory first")
    if (
        b.dtype_word(b.field(source).dtype) != b.dtype_word(field.dtype)
        or b.field(source).shape[-2:] != field.shape[-2:]
    ):
        refuse(
            f"a load of `{source.resource}.{source.name}` into `{field.owner}.{field.name}`",
            w.span,
            "a field with the spread of an accumulator has the dtype and the shape of what is loaded",
        )
    part = sub_tile(b, source, s.scope)
    if part is None or part.at is not None:
        refuse(f"a load of part of `{source.resource}.{source.name}` into a WGMMA fragment", w.span)
    shared, thread = smem_field(b, source), mma_thread(s, tiled_mma(s, owner.work))
    key = ("fragment_from", thread, shared.name)
    if key not in s.prelude:
        s.prelude[key] = assign(s.names.new(f"{shared.name}_from"), f"{thread}.partition_C({shared.name})")
    at = slot(b, source, stage(s, source.resource, w), s.scope)
    values = {"source": f"{s.prelude[key].values['name']}[None, None, None, {at}]", "target": fragment(s, field)}
    return [Statement("ops/copy", values, s.note(step))]


def store_fragment(
    s: TaskState, w: Work, step: CallStep, target: Ref, value: Ref, where: Expr | None
) -> list[Statement]:
    """A whole accumulator to a window of a tensor, cut at the tensor's edges and where `where` ends the rows.

    Rows start at even elements.
    """
    b = s.builder
    field = b.field(value)
    owner = accumulator(b, field)
    assert owner is not None
    if value.window is not None:
        refuse("a store of part of a WGMMA accumulator to global memory", w.span, "stage it in shared memory")
    tensor = b.kernel.tensors[target.name]
    window = target.window if target.window is not None else tuple(Full() for _ in tensor.shape)
    if tensor.major != len(tensor.shape) - 1 or isinstance(window[-1], Index):
        refuse("a tile whose last dimension is not the tensor's contiguous one", w.span)
    name = b.tensor(target.name)
    b.vectors[target.name] = max(b.vectors.get(target.name, 1), PAIR)
    picked = [s.py(x.at) if isinstance(x, Index) else "None" for x in window]
    view = name if all(p == "None" for p in picked) else f"{name}[{join(picked)}]"
    dims = [(x, e) for x, e in zip(window, tensor.shape, strict=True) if not isinstance(x, Index)]
    origin, coordinates, limits = [], [], []
    for (x, extent), n in zip(dims, field.shape[-2:], strict=True):
        start: Expr = x.start if isinstance(x, Slice) else Const(0)
        length = x.length if isinstance(x, Slice) else extent
        split = split_index(in_names(b.kernel, start), length, s.scope)
        if canonical(length, s.scope.env).value != n or split is None:
            refuse(f"a store of an accumulator of {list(field.shape)} to this window", w.span)
        coordinates.append(s.py(split[0]))
        origin.append(s.py(split[1]))
        limits.append(py_difference(extent, start, s.scope))
    if any(o != "0" for o in origin):
        view = f"cute.domain_offset(({join(origin)}), {view})"
    if not canonical(dims[-1][0].start if isinstance(dims[-1][0], Slice) else Const(0), s.scope.env).multiple_of(PAIR):
        refuse("a store of an accumulator that starts at an odd column", w.span)
    if where is not None:
        limits[0] = f"cutlass.min({limits[0]}, {_last_row(s, w, where)})"
    thread = mma_thread(s, tiled_mma(s, owner.work))
    tile = join(py(d, Scope(b.kernel.env, b.constants)) for d in field.dims[-2:])
    key = ("coordinates", thread, tile)
    if key not in s.prelude:
        at = s.names.new(f"{field.owner}_{field.name}_at")
        text = f"{thread}.partition_C(cute.make_identity_tensor(({tile})))"
        s.prelude[key] = Statement("setup/assign", {"name": at, "text": text})
    b.functions.setdefault("store_pairs", Statement("functions/store_pairs"))
    args = [
        fragment(s, field),
        f"{thread}.partition_C(cute.local_tile({view}, ({tile}), ({join(coordinates)})))",
        str(s.prelude[key].values["name"]),
        *limits,
    ]
    call = Statement("ops/call", {"function": "store_pairs", "args": args}, s.note(step))
    guards = picks_inside(s, target)
    return [Statement("blocks/if", {"condition": " and ".join(guards)}, None, (call,))] if guards else [call]


def _last_row(s: TaskState, w: Work, where: Expr) -> str:
    """The number of rows that a condition `rows(...) < x` keeps."""
    limit = row_limit(s, w, where)
    if limit is None:
        refuse(
            f"`where: {text(where)}` on a store of a WGMMA accumulator", w.span, "a bound of rows(...) can be emitted"
        )
    return s.py(limit)
