"""tcgen05.mma: tiled MMAs, operands as descriptors of shared memory, accumulators in tensor memory, and the call."""

from __future__ import annotations

from math import prod

from tsgen.frozen import frozen
from tsgen.lower import tmem
from tsgen.lower.context import TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.mma import init_text, ref_of
from tsgen.lower.program import Mma, Statement, assign
from tsgen.lower.pyexpr import Scope, py, py_factor
from tsgen.lower.smem import slot, smem_field, tile_rank
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Expr, Placed, Ref
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep


@frozen
class Kind:
    """An instruction for operands of some dtypes: the DSL's class with its arguments, elements of k in one instruction,
    and, if it is block-scaled, the dtypes of the factors and how many elements share one."""

    op: str
    args: tuple[str, ...]
    dtypes: tuple[str, ...]
    k: int
    factors: tuple[str, ...] = ()
    vector: int = 0


_PLAIN = ("a", "acc", "shape", "group", "source", "a_major", "b_major")
_SCALED = ("a", "b", "shape", "group", "source", "a_major", "b_major")
_FP8 = ("f8e4m3", "f8e5m2")
KINDS = (
    Kind("MmaF16BF16Op", _PLAIN, ("f16", "bf16"), 16),
    Kind("MmaFP8Op", _PLAIN, _FP8, 32),
    Kind("MmaMXF8F6F4Op", _SCALED, _FP8, 32, ("f8e8m0",), 32),
    Kind("MmaMXF4Op", ("shape", "group", "source"), ("f4e2m1",), 64, ("f8e8m0",), 32),
    Kind("MmaMXF4NVF4Op", ("factors", "shape", "group", "source"), ("f4e2m1",), 64, ("f8e4m3", "f8e8m0"), 16),
)


def tcgen05_mma(
    s: TaskState, w: Work, step: CallStep, init: Expr, stages: dict[str, str], factors: tuple[str, ...]
) -> Statement:
    """One product over a stage: c (+)= a bᵀ. `stages` has the stage that each pipelined operand's resource is at,
    `factors` the tensors of the scale factors."""
    b = s.builder
    m = tiled(s, w)
    c, _ = ref_of(w, "c")
    values = {
        "mma": m.name,
        "acc": f"{_accumulator(s, w, m, b.field(c))}[None, None, None, {_in_tmem(s, c, stages.get('c'))}]",
        "a": _operand(s, w, m, "a", stages.get("a")),
        "b": _operand(s, w, m, "b", stages.get("b")),
        "init": init_text(s, init),
    }
    if "sfa" not in w.args:
        b.functions.setdefault("mma", Statement("functions/umma"))
        return Statement("ops/umma", values, s.note(step))
    b.functions.setdefault("mma", Statement("functions/umma_scaled"))
    return Statement("ops/umma_scaled", {**values, "sfa": factors[0], "sfb": factors[1]}, s.note(step))


def extents(s: TaskState, w: Work) -> tuple[str, str, str]:
    """M, N and K of the work's tile over all CTAs of its group, as Python."""
    b = s.builder
    constants = Scope(b.kernel.env, b.constants)
    a, c = ref_of(w, "a")[0], ref_of(w, "c")[0]
    rows, n = b.field(c).dims[-2], py(b.field(c).dims[-1], constants)
    k = py(b.field(a).dims[-2 if a.transposed else -1], constants)
    m = py(rows, constants) if group_of_ctas(w) == 1 else f"{group_of_ctas(w)} * {py_factor(rows, constants)}"
    return m, n, k


def group_of_ctas(w: Work) -> int:
    """CTAs that one instruction of a work spans."""
    group = w.args.get("cta_group", 1)
    assert isinstance(group, int)
    return group


def tiled(s: TaskState, w: Work) -> Mma:
    """The tiled MMA of a work, made once for works with the same operands."""
    b = s.builder
    a, a_placed = ref_of(w, "a")
    bb, b_placed = ref_of(w, "b")
    c, c_placed = ref_of(w, "c")
    af, bf, cf = b.field(a), b.field(bb), b.field(c)
    words = b.dtype_word(af.dtype), b.dtype_word(bf.dtype)
    kind = _kind(s, w, words)
    if b.dtype_word(cf.dtype) != "f32":
        refuse(f"a tcgen05_mma accumulator of {b.dtype_word(cf.dtype)}", c_placed.span, "use f32")
    rows, columns = cf.shape[-2:]
    if rows != tmem.ROWS or columns % 16 or not 16 <= columns <= 256:
        what = f"a tcgen05_mma tile of {rows}x{columns} in each CTA"
        refuse(what, c_placed.span, "128 rows, and columns a multiple of 16, at most 256")
    for x, p in ((af, a_placed), (bf, b_placed)):
        if any(n % (128 // _bits(s, x)) for n in x.shape[-1:]):
            refuse(f"an MMA operand with rows of {x.shape[-1]} elements", p.span, "rows are multiples of 16 bytes")
    m, n, _ = extents(s, w)
    source = "TMEM" if b.kind(a) == "tmem" else "SMEM"
    if a.transposed and source == "TMEM":
        help = "only operands in shared memory are transposed"
        refuse("an A operand in tensor memory through `.T`", a_placed.span, help)
    majors = ["MN" if r.transposed else "K" for r in (a, bb)]
    key = ("umma", kind.op, b.dtype(af.dtype), m, n, source, *majors, group_of_ctas(w))
    if key not in b.mmas:
        alone = sum(x.op == "tcgen05_mma" for r in b.kernel.resources.values() for x in r.works.values()) == 1
        name = b.names.new("tiled_mma" if alone else f"{w.name}_mma")
        known = {
            "a": b.dtype(af.dtype),
            "b": b.dtype(bf.dtype),
            "acc": "Float32",
            "factors": b.dtype(b.field(ref_of(w, "sfa")[0]).dtype) if kind.factors else "",
            "shape": f"({m}, {n}, {kind.k})",
            "group": f"tcgen05.CtaGroup.{'TWO' if group_of_ctas(w) == 2 else 'ONE'}",
            "source": f"tcgen05.OperandSource.{source}",
            "a_major": f"OperandMajorMode.{majors[0]}",
            "b_major": f"OperandMajorMode.{majors[1]}",
        }
        values = {"name": name, "op": kind.op, "args": [known[x] for x in kind.args]}
        b.mmas[key] = Mma(name, Statement("setup/umma", values))
    return b.mmas[key]


def _kind(s: TaskState, w: Work, words: tuple[str, str]) -> Kind:
    """The instruction for a work's operands."""
    b = s.builder
    scales = [b.dtype_word(b.field(ref_of(w, x)[0]).dtype) for x in ("sfa", "sfb") if x in w.args]
    if len(scales) == 1:
        refuse(f"`{w.owner}.{w.name}` with one of `sfa` and `sfb`", w.span, "both operands are scaled, or none")
    per = elements_per_factor(s, w) if scales else 0
    for x in KINDS:
        if words[0] in x.dtypes and words[1] == words[0] and x.vector == per and all(f in x.factors for f in scales):
            return x
    what = f"tcgen05_mma on {words[0]} and {words[1]}"
    if scales:
        what += f" with a factor of {scales[0]} for {per} elements"
    known = [
        f"{'/'.join(k.dtypes)}" + (f" with {'/'.join(k.factors)} for {k.vector}" if k.factors else "") for k in KINDS
    ]
    refuse(what, w.span, f"both operands are of one of {', '.join(known)}")


def elements_per_factor(s: TaskState, w: Work) -> int:
    """Elements of A that share a scale factor, by the sizes of the operand and of its factors."""
    b = s.builder
    ref, placed = ref_of(w, "sfa")
    operand, factors = b.field(ref_of(w, "a")[0]), prod(b.field(ref).shape)
    elements = prod(operand.shape)
    if not factors or elements % factors:
        refuse(f"{factors} scale factors of {elements} elements", placed.span)
    return elements // factors


def _bits(s: TaskState, field: Field) -> int:
    return DTYPES[s.builder.dtype_word(field.dtype)].bits


def _accumulator(s: TaskState, w: Work, m: Mma, field: Field) -> str:
    """The accumulator as the MMA sees it: ((rows, columns), 1, 1, stages)."""
    b = s.builder
    key = ("accumulator", field.owner, field.name, m.name)
    if key not in s.prelude:
        rows, columns, _ = extents(s, w)
        shape = f"cute.append({m.name}.partition_shape_C(({rows}, {columns})), {tmem.stages_of(b, field)})"
        text = _tensor(tmem.place(b, field), f"{m.name}.make_fragment_C({shape}).layout", None)
        name = s.names.new(f"{field.owner}_{field.name}")
        s.prelude[key] = assign(name, text, b.note(field.span.line, f"{field.owner}.{field.name}"))
    return str(s.prelude[key].values["name"])


def _operand(s: TaskState, w: Work, m: Mma, which: str, stage: str | None) -> str:
    """An operand at its stage: descriptors of the field in shared memory."""
    b = s.builder
    ref, placed = ref_of(w, which)
    if ref.window is not None:
        refuse("a window of an MMA operand", placed.span, "an operand is a whole stage of a field")
    if b.kind(ref) == "tmem":
        return f"{_tmem_operand(s, w, m, b.field(ref))}[None, None, None, {_in_tmem(s, ref, stage)}]"
    plain = Ref(ref.resource, ref.instance, ref.name, None)
    field, shared = b.field(ref), smem_field(b, ref)
    key = ("operand", which, shared.name, m.name, ref.transposed)
    if key not in s.prelude:
        rows, columns, k = extents(s, w)
        side = which.upper()
        shape = f"{m.name}.partition_shape_{side}(({rows if which == 'a' else columns}, {k}))"
        swizzle = b.derived.swizzles[(field.owner, field.name)]
        if not swizzle:
            refuse(f"an MMA operand without a swizzle, `{field.owner}.{field.name}`", field.span)
        atom = f"tcgen05.SmemLayoutAtomKind.{'MN' if ref.transposed else 'K'}_SW{swizzle}"
        order = "(2, 1, 3)" if ref.transposed else "(1, 2, 3)"  # the atoms of a row tile lie one after another
        view = f"mma_operand({shared.name}, {atom}, {shape}, {shared.shape[tile_rank(field)]}, {order})"
        b.functions.setdefault("mma_operand", Statement("functions/umma_operand"))
        s.prelude[key] = assign(s.names.new(f"{w.name}_{which}"), f"{m.name}.make_fragment_{side}({view})")
    return f"{s.prelude[key].values['name']}[None, None, None, {slot(b, plain, stage, s.scope)}]"


def _tmem_operand(s: TaskState, w: Work, m: Mma, field: Field) -> str:
    """The A operand in tensor memory: rows in lanes, elements of 16 bits two in a column."""
    b = s.builder
    key = ("tmem operand", field.owner, field.name, m.name)
    if key not in s.prelude:
        rows, _, k = extents(s, w)
        shape = f"cute.append({m.name}.partition_shape_A(({rows}, {k})), {tmem.stages_of(b, field)})"
        dtype, per_column = b.dtype(field.dtype), 32 // _bits(s, field)
        at = tmem.place(b, field)
        text = _tensor(at, f"{m.name}.make_fragment_A({shape}).layout", dtype, per_column)
        name = s.names.new(f"{field.owner}_{field.name}")
        s.prelude[key] = assign(name, text, b.note(field.span.line, f"{field.owner}.{field.name}"))
    return str(s.prelude[key].values["name"])


def _tensor(at: tmem.Place, layout: str, dtype: str | None, per_column: int = 1) -> str:
    """A tensor in tensor memory; instances are its last mode."""
    if at.instances > 1:
        layout = f"cute.append({layout}, cute.make_layout({at.instances}, stride={at.apart * per_column}))"
    address = at.address if dtype is None else f"cute.recast_ptr({at.address}, dtype={dtype})"
    return f"cute.make_tensor({address}, {layout})"


def _in_tmem(s: TaskState, ref: Ref, stage: str | None) -> str:
    """Stage and instance of a reference."""
    instance = [] if ref.instance is None else [s.py(ref.instance)]
    return ", ".join([stage or "0", *instance])


def operands(w: Work) -> dict[str, Ref]:
    """The references of a work to what is pipelined."""
    return {k: p.expr for k in ("a", "b", "c") if isinstance(p := w.args[k], Placed) and isinstance(p.expr, Ref)}
