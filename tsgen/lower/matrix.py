"""Accumulators to shared memory with stmatrix."""

from __future__ import annotations

from tsgen.lower.context import TaskState, join
from tsgen.lower.errors import refuse
from tsgen.lower.mma import accumulator, fragment, tiled_mma
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import Scope, py, tile_index
from tsgen.lower.smem import needs_fence, slot, smem_field, sub_tile
from tsgen.model.algebra import canonical
from tsgen.model.expr import Full, Ref, Slice
from tsgen.model.kernel import Work
from tsgen.model.steps import CallStep


def store_matrix(s: TaskState, w: Work, step: CallStep, target: Ref, value: Ref, stage: str | None) -> list[Statement]:
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
        s.prelude[key] = Statement(
            "setup/stmatrix", values, b.note(w.span.line, f"{w.owner}.{w.name}: stmatrix, four 8x8 blocks at a time")
        )
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
        "fence": needs_fence(s.builder, target),
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
