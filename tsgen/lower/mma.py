"""WGMMA: tiled MMAs, accumulators and operands, and the call."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.frozen import frozen
from tsgen.lower.context import Builder, TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.program import Mma, Statement
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.row_fields import held_whole, is_row_field
from tsgen.lower.smem import slot, smem_field, sub_tile
from tsgen.lower.spread import field_spread, row_spread
from tsgen.model.algebra import canonical, prune
from tsgen.model.expr import Const, Expr, IfElse, Placed, Ref
from tsgen.model.kernel import Field, Kernel, Task, Work
from tsgen.model.ops import accesses
from tsgen.model.steps import CallStep, calls


@frozen
class Accumulator:
    """A field that a wgmma writes: `mma` is the work; m and n the tile's extents."""

    field: Field
    work: Work
    m: int
    n: int


def wgmma_works(kernel: Kernel) -> Iterator[Work]:
    for r in kernel.resources.values():
        yield from (w for w in r.works.values() if w.op == "wgmma")


def ref_of(w: Work, key: str, env: object = None) -> tuple[Ref, Placed]:
    """The reference an op's parameter names."""
    p = w.args[key]
    assert isinstance(p, Placed)
    e = prune(p.expr, env) if isinstance(p.expr, IfElse) and env is not None else p.expr  # type: ignore[arg-type]
    assert isinstance(e, Ref), (w.name, key)
    return e, p


def accumulator(b: Builder, field: Field) -> Accumulator | None:
    """The wgmma that owns a register field's spread, if there is one: it writes the field, or one of the field's shape
    that a map joins with it."""
    written = {_key(b.field(ref_of(w, "c")[0])): w for w in wgmma_works(b.kernel)}
    work = written.get(_key(field))
    if work is None and written and a_operand(b, field) is None:
        joined = (f for f in _joined(b, field) if f.shape == field.shape)
        work = next((written[_key(f)] for f in joined if _key(f) in written), None)
    return None if work is None else Accumulator(field, work, field.shape[-2], field.shape[-1])


def _key(field: Field) -> tuple[str, str]:
    return field.owner, field.name


def _joined(b: Builder, field: Field) -> Iterator[Field]:
    """The register fields that occur together with a field in a map of its resource."""
    for w in b.kernel.resources[field.owner].works.values():
        if w.op == "map":
            fields = {_key(f): f for f in (b.field(a.ref) for a in accesses(w) if b.kind(a.ref) == "rmem")}
            if fields.pop(_key(field), None) is not None:
                yield from fields.values()


def a_operand(b: Builder, field: Field) -> Work | None:
    """The wgmma that reads a register field as its A operand."""
    for w in wgmma_works(b.kernel):
        a, _ = ref_of(w, "a")
        if b.kind(a) == "rmem" and b.field(a) == field:
            return w
    return None


def tiled_mma(s: TaskState, w: Work) -> Mma:
    """The tiled MMA of a wgmma work: one warpgroup for each 64 rows at a time."""
    b = s.builder
    c, placed = ref_of(w, "c")
    a, a_placed = ref_of(w, "a")
    bb, _ = ref_of(w, "b")
    cf, af, bf = b.field(c), b.field(a), b.field(bb)
    word = b.dtype_word(af.dtype)
    if word not in ("f16", "bf16") or b.dtype_word(bf.dtype) != word:
        refuse(
            f"wgmma on {word} and {b.dtype_word(bf.dtype)}", a_placed.span, "both operands must be f16, or both bf16"
        )
    if b.dtype_word(cf.dtype) != "f32":
        refuse(f"a wgmma accumulator of {b.dtype_word(cf.dtype)}", placed.span, "use f32")
    groups = s.num_warps // 4
    m, n = cf.shape[-2:]
    if s.num_warps % 4 or m % (64 * groups):
        refuse(
            f"wgmma of {m} rows on {s.num_warps} warps", placed.span, "a warpgroup of 4 warps takes 64 rows at a time"
        )
    if n % 8 or n > 256:
        refuse(f"wgmma with {n} columns", placed.span, "columns are a multiple of 8, at most 256")
    constants = Scope(b.kernel.env, b.constants)
    a_source = "RMEM" if b.kind(a) == "rmem" else "SMEM"
    if a.transposed and a_source == "RMEM":
        refuse("an A operand in registers through `.T`", a_placed.span, "only operands in shared memory are transposed")
    key = (b.dtype(af.dtype), py(cf.dims[-1], constants), a_source, a.transposed, bb.transposed, groups)
    if key not in b.mmas:
        alone = len(list(wgmma_works(b.kernel))) == 1
        name = b.names.new("tiled_mma" if alone else f"{w.name}_mma")
        majors = ["MN" if r.transposed else "K" for r in (a, bb)]
        values = {"name": name, "dtype": key[0], "n": key[1], "a_source": a_source, "majors": majors, "groups": groups}
        b.mmas[key] = Mma(name, Statement("setup/wgmma", values))
    return b.mmas[key]


def mma_thread(s: TaskState, m: Mma) -> str:
    """The thread's slice of a tiled MMA, made in the task's prelude."""
    if m.name not in s.mma_threads:
        name = s.names.new("mma_thread" if m.name == "tiled_mma" else f"{m.name}_thread")
        s.mma_threads[m.name] = name
        s.prelude[("thread", m.name)] = Statement(
            "setup/assign", {"name": name, "text": f"{m.name}.get_slice({s.scope.names['thread']})"}
        )
    return s.mma_threads[m.name]


def fragment(s: TaskState, field: Field) -> str:
    """The register tensor of a field, declared in the task's prelude. Its spread is that of the wgmma that uses it."""
    key = (field.owner, field.name)
    if key in s.fragments:
        return s.fragments[key]
    b = s.builder
    if b.kernel.resources[field.owner].each is not None:
        refuse(f"registers for each instance of `{field.owner}`", field.span, "give the task `each`")
    name = s.names.new(f"{field.owner}_{field.name}")
    dtype = b.dtype(field.dtype)
    scope = Scope(b.kernel.env, b.constants)
    owner = accumulator(b, field)
    reader = a_operand(b, field)
    shape = ", ".join(py(d, scope) for d in field.dims[-2:])
    if owner is not None:
        text = f"cute.make_rmem_tensor({mma_thread(s, tiled_mma(s, owner.work))}.partition_shape_C(({shape})), {dtype})"
    elif reader is not None:
        text = f"cute.make_rmem_tensor({tiled_mma(s, reader).name}.partition_shape_A(({shape})), {dtype})"
    elif not field.shape or all(x == 1 for x in field.shape):
        text = f"cute.make_rmem_tensor(1, {dtype})"
    elif is_row_field(s, field):
        text = f"cute.make_rmem_tensor({_row_registers(s, field)}, {dtype})"
    elif (spread := field_spread(s, field)) is not None:
        text = f"cute.make_rmem_tensor({spread.shape}, {dtype})"
    else:
        refuse(f"register field `{field.name}`, whose spread over threads follows from no op", field.span)
    s.fragments[key] = name
    s.prelude[("fragment", *key)] = Statement(
        "setup/assign", {"name": name, "text": text}, b.note(field.span.line, f"{field.owner}.{field.name}")
    )
    return name


def _row_registers(s: TaskState, field: Field) -> str:
    """The registers of a row field: for each row that the thread owns part of, one, or all columns held whole."""
    scope = Scope(s.builder.kernel.env, s.builder.constants)
    if has_wgmma(s.task, s.builder.kernel):
        rows = str(rows_per_thread(s, field))
    else:
        spread = row_spread(s, field)
        if spread is None:
            help = "a row field belongs to a tile of its resource with as many rows"
            refuse(f"register field `{field.name}`, whose rows no tile has", field.span, help)
        rows = py(field.dims[-2], scope) if spread.down == 1 else str(spread.reps[0])
    if not held_whole(field):
        return rows
    return f"cute.make_ordered_layout(({rows}, {py(field.dims[-1], scope)}), order=(1, 0))"


def rows_per_thread(s: TaskState, field: Field) -> int:
    """Rows of a WGMMA fragment that a thread owns part of: two of each 64."""
    groups = max(1, s.num_warps // 4)
    return max(1, field.shape[-2] // (64 * groups)) * 2


def _operand(s: TaskState, w: Work, which: str, thread: str, stage_of: object) -> tuple[str, str]:
    """The operand's name and how the call indexes it."""
    b = s.builder
    ref, placed = ref_of(w, which)
    side = which.upper()
    if b.kind(ref) == "rmem":
        return fragment(s, b.field(ref)), ""
    field = smem_field(b, ref)
    plain = Ref(ref.resource, ref.instance, ref.name, ref.window)
    part = sub_tile(b, plain, s.scope)
    if part is None:
        refuse("a WGMMA operand window that does not start at a multiple of its length", placed.span)
    text = field.name
    if part.at is not None:
        text = f"cute.local_tile({text}, ({', '.join(part.box)}), ({', '.join(part.at)}, None))"
    if ref.transposed:
        rows, cols = part.box
        order = f"cute.make_ordered_layout(({cols}, {rows}, {field.shape[-1]}), order=(1, 0, 2))"
        text = f"cute.composition({text}, {order})"
    key = ("operand", which, text, thread)
    if key not in s.prelude:
        name = s.names.new(f"{w.name}_{which}")
        s.prelude[key] = Statement(
            "setup/assign", {"name": name, "text": f"{thread}.make_fragment_{side}({thread}.partition_{side}({text}))"}
        )
    return str(s.prelude[key].values["name"]), slot(b, plain, str(stage_of), s.scope)


def wgmma(s: TaskState, w: Work, step: CallStep, init: Expr, stages: dict[str, str]) -> Statement:
    """One WGMMA group: c (+)= a bᵀ. `stages` has the stage that each pipelined operand's resource is at."""
    b = s.builder
    m = tiled_mma(s, w)
    thread = mma_thread(s, m)
    c, _ = ref_of(w, "c")
    acc = fragment(s, b.field(c))
    a, a_slot = _operand(s, w, "a", thread, stages.get("a"))
    bb, b_slot = _operand(s, w, "b", thread, stages.get("b"))
    b.functions.setdefault("mma", Statement("functions/mma"))
    values = {
        "mma": m.name,
        "acc": acc,
        "a": f"{a}[None, None, None, {a_slot}]" if a_slot else a,
        "b": f"{bb}[None, None, None, {b_slot}]",
        "init": init_text(s, init),
    }
    return Statement("ops/wgmma", values, s.note(step))


def init_text(s: TaskState, e: Expr) -> str:
    """The condition under which an accumulator is overwritten, as Python."""
    value = canonical(e, s.scope.env).value
    if value is not None and not isinstance(e, Const):
        return str(bool(value))
    return s.py(e)


def has_wgmma(task: Task, kernel: Kernel) -> bool:
    """Whether a task issues WGMMAs."""
    for c in calls(task.schedule.steps):
        w = kernel.work(c.target, c.method) if c.kind == "work" else None
        if w is not None and w.op == "wgmma":
            return True
    return False
