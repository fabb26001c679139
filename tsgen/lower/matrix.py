"""Fragments and shared memory: accumulators stored with stmatrix, A operands loaded with ldmatrix."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.lower.context import TaskState, join
from tsgen.lower.errors import refuse
from tsgen.lower.mma import accumulator, fragment, tiled_mma
from tsgen.lower.positions import stage
from tsgen.lower.program import Mma, Statement
from tsgen.lower.pyexpr import Scope, py, tile_index
from tsgen.lower.smem import SubTile, needs_fence, slot, smem_field, sub_tile
from tsgen.model.algebra import canonical
from tsgen.model.expr import Full, Ref, Slice
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep


def store_matrix(s: TaskState, w: Work, step: CallStep, target: Ref, value: Ref, at: str | None) -> list[Statement]:
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
    stored = _whole(s, w, mma, acc, text, b.dtype(b.field(target).dtype)) if slices == 1 else None
    if stored is None:
        stored = {**_sliced(s, w, mma, acc_field, acc, text, part, b.dtype(b.field(target).dtype)), "slice": index}
    used = ("copy", "to", "staged", "slices", "slice", "acc", "dtype", "whole")
    values = {k: v for k, v in stored.items() if k in used}
    values |= {"slot": slot(b, target, at, s.scope), "fence": needs_fence(b, target)}
    return [Statement("ops/store_matrix", values, s.note(step))]


def _setup(s: TaskState, w: Work, key: tuple[object, ...], template: str, values: Mapping[str, object]) -> None:
    note = s.builder.note(w.span.line, f"{w.owner}.{w.name}: {template}, four 8x8 blocks at a time")
    s.prelude[key] = Statement(f"setup/{template}", values, note)


def _whole(s: TaskState, w: Work, mma: Mma, acc: str, field: str, dtype: str) -> Mapping[str, object]:
    """The whole accumulator at once, in the order of the accumulator."""
    key = ("stmatrix", acc, field)
    if key not in s.prelude:
        names = {x: s.names.new(f"{w.name}_{x}") for x in ("copy", "to", "staged")}
        values = {**names, "dtype": dtype, "mma": mma.name, "thread": s.scope.names["thread"], "field": field}
        _setup(s, w, key, "stmatrix", {**values, "acc": acc, "whole": True})
        s.builder.functions.setdefault("pack", Statement("functions/pack"))
    return s.prelude[key].values


def _sliced(
    s: TaskState, w: Work, mma: Mma, acc_field: Field, acc: str, field: str, part: SubTile, dtype: str
) -> Mapping[str, object]:
    """Columns of an accumulator, a slice of a store's width at a time."""
    key = ("stmatrix", acc, field, part.sizes[-1])
    if key not in s.prelude:
        names = {x: s.names.new(f"{w.name}_{x}") for x in ("copy", "to", "staged", "slices")}
        columns = py(acc_field.dims[-1], Scope(s.builder.kernel.env, s.builder.constants))
        values = {
            **names,
            "dtype": dtype,
            "mma": mma.name,
            "thread": s.scope.names["thread"],
            "field": field,
            "acc": acc,
            "whole": False,
            "fragment_rows": max(1, acc_field.shape[-2] // (16 * s.num_warps)),
            "slice_columns": part.box[-1],
            "columns": columns,
            "count": f"{columns} // {part.box[-1]}",
        }
        _setup(s, w, key, "stmatrix", values)
    return s.prelude[key].values


def load_matrix(s: TaskState, w: Work, step: CallStep, source: Ref, field: Field, reader: Work) -> list[Statement]:
    """A tile of shared memory into the registers of a WGMMA's A operand with ldmatrix, four 8x8 blocks at a time."""
    b = s.builder
    if source.resource is None or "where" in w.args:
        refuse(f"a load of `{source.name}` into the A operand of a WGMMA", w.span, "load it to shared memory first")
    origin, at = smem_field(b, source), stage(s, source.resource, w)
    word = b.dtype_word(field.dtype)
    if b.dtype_word(b.field(source).dtype) != word:
        refuse(f"a load of {b.dtype_word(b.field(source).dtype)} into registers of {word}", w.span)
    part = sub_tile(b, source, s.scope)
    if part is None:
        refuse("a field window that does not start at a multiple of its length", w.span)
    if part.sizes != field.shape[-2:]:
        refuse(f"a load of {list(part.sizes)} into a field of {list(field.shape)}", w.span)
    mma = tiled_mma(s, reader)
    operand = fragment(s, field)
    text = origin.name
    if part.at is not None:
        text = f"cute.local_tile({text}, ({join(part.box)}), ({join(part.at)}, None))"
    key = ("ldmatrix", operand, text)
    if key not in s.prelude:
        values = {
            "copy": s.names.new(f"{w.name}_copy"),
            "origin": s.names.new(f"{w.name}_from"),
            "to": s.names.new(f"{w.name}_to"),
            "dtype": b.dtype(field.dtype),
            "mma": mma.name,
            "thread": s.scope.names["thread"],
            "field": text,
            "operand": operand,
        }
        _setup(s, w, key, "ldmatrix", values)
    v = s.prelude[key].values
    call = {"copy": v["copy"], "origin": v["origin"], "to": v["to"], "slot": slot(b, source, at, s.scope)}
    return [Statement("ops/load_matrix", call, s.note(step))]


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
