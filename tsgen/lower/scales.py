"""Scale factors of block-scaled MMAs: one for each 16 or 32 elements of a row of A or B.

Blocks of 128 rows by 4 factors (512 bytes, PTX ISA "scale factor layout") lie in shared memory as TMA wrote them;
tcgen05.cp spreads each over four columns of tensor memory, where the MMAs of the same thread read them, in order.
"""

from __future__ import annotations

from tsgen.frozen import frozen
from tsgen.lower import tmem
from tsgen.lower.context import TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.mma import ref_of
from tsgen.lower.positions import stage
from tsgen.lower.program import Statement
from tsgen.lower.smem import smem_field
from tsgen.lower.tmem_works import scaling
from tsgen.lower.umma import elements_per_factor, extents, group_of_ctas, tiled
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep


@frozen
class Scales:
    """Names in the task: the layout of the factors in shared memory, and their tensor in tensor memory."""

    layout: str
    tensor: str


def tcgen05_cp(s: TaskState, w: Work, step: CallStep) -> Statement:
    """One copy of a stage's factors to tensor memory, issued by one thread."""
    b = s.builder
    source, placed = ref_of(w, "from")
    to, _ = ref_of(w, "to")
    found = scaling(b.kernel, to)
    if found is None:
        refuse(f"`{w.owner}.{w.name}` of what scales no MMA", w.span, "`sfa` or `sfb` of a tcgen05_mma names the field")
    mma, which = found
    if source.window is not None or to.window is not None:
        refuse("a window of scale factors", placed.span, "copy all of a stage")
    if group_of_ctas(mma) != group_of_ctas(w):
        refuse(f"`{w.owner}.{w.name}` and its MMA with different `cta_group`", w.span)
    field, shared = b.field(to), smem_field(b, source)
    scales = scales_of(s, mma, which)
    key = ("tcgen05_cp", field.owner, field.name, shared.name)
    if key not in s.prelude:
        names = {x: s.names.new(f"{w.name}_{x}") for x in ("copy", "source", "target")}
        values = {
            **names,
            "group": "TWO" if group_of_ctas(w) == 2 else "ONE",
            "dtype": b.dtype(field.dtype),
            "tmem": scales.tensor,
            "layout": scales.layout,
            "field": shared.name,
        }
        s.prelude[key] = Statement("setup/tcgen05_cp", values, b.note(w.span.line, f"{w.owner}.{w.name}"))
    v = s.prelude[key].values
    at = stage(s, source.resource or "", w) or "0"
    call = {"copy": v["copy"], "source": f"{v['source']}[None, None, None, None, {at}]", "target": v["target"]}
    return Statement("ops/tmem_copy", call, s.note(step))


def scales_of(s: TaskState, mma: Work, which: str) -> Scales:
    """The factors `sfa` or `sfb` of an MMA in tensor memory."""
    b = s.builder
    ref, _ = ref_of(mma, which)
    field = b.field(ref)
    key = ("scales", field.owner, field.name)
    if key not in s.prelude:
        values = {
            "which": which,
            "layout": s.names.new(f"{field.owner}_{field.name}_layout"),
            "tmem": s.names.new(f"{field.owner}_{field.name}"),
            "mma": tiled(s, mma).name,
            "tile": ", ".join(extents(s, mma)),
            "vec": elements_per_factor(s, mma),
            "stages": _stages(s, field),
            "address": tmem.place(b, field).address,
            "dtype": b.dtype(field.dtype),
        }
        s.prelude[key] = Statement("setup/scales", values, b.note(field.span.line, f"{field.owner}.{field.name}"))
    v = s.prelude[key].values
    return Scales(str(v["layout"]), str(v["tmem"]))


def _stages(s: TaskState, field: Field) -> str:
    """Stages of the shared field that the factors are copied from."""
    b = s.builder
    for r in b.kernel.resources.values():
        for w in r.works.values():
            if w.op == "tcgen05_cp" and b.field(ref_of(w, "to")[0]) == field:
                return tmem.stages_of(b, b.field(ref_of(w, "from")[0]))
    refuse(f"scale factors `{field.owner}.{field.name}` that no tcgen05_cp writes", field.span)
