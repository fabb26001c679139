"""Tensor memory: who allocates it and gives it back, its fields as tensors, and their way to registers.

The first warp of the first task that moves tensor memory to its registers allocates; a named barrier tells all tasks
that touch it. Another one, of the tasks that move it, says that it is free: every MMA is complete by then, as some task
has waited for the last commit. Of a pair of CTAs both allocate, and both must be done before either frees.
"""

from __future__ import annotations

from dataclasses import replace

from tsgen.frozen import frozen
from tsgen.lower import tile_maps
from tsgen.lower.context import Builder, TaskState, join
from tsgen.lower.errors import refuse
from tsgen.lower.mma import fragment, ref_of
from tsgen.lower.positions import stage
from tsgen.lower.program import Statement, assign
from tsgen.lower.pyexpr import Scope, py, py_factor
from tsgen.lower.smem import SubTile, sub_tile
from tsgen.lower.spread import spread
from tsgen.lower.tmem_works import cta_group, moves_tmem, touches_tmem
from tsgen.model.algebra import prune
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Const, Placed, Ref
from tsgen.model.kernel import Field, Task, Work
from tsgen.model.steps import CallStep

NAMED_BARRIERS = 16  # of a CTA; 0 is that of all its threads
ALL_COLUMNS = 512
ROWS = 128  # lanes of tensor memory: one row of a tile in each


def used(b: Builder) -> bool:
    """Whether the kernel has tensor memory."""
    return any(r.kind == "tmem" for r in b.kernel.resources.values())


def enter(s: TaskState) -> list[Statement]:
    """Before a task's steps: tensor memory is allocated, its address known."""
    b = s.builder
    if not touches_tmem(s.task, b.kernel):
        return []
    tasks = [t for t in b.kernel.tasks if touches_tmem(t, b.kernel)]
    comment = "named barrier: tensor memory is allocated"
    out = [_barrier(b, "TMEM_READY", 1, comment, tasks, "barrier")]
    if s.task == owner(b):
        values = {"warp": _first_warp(s.task), "columns": _columns(b), "pair": cta_group(b.kernel) == 2}
        out.insert(0, Statement("ops/tmem_alloc", values))
    if b.derived.tmem_columns == ALL_COLUMNS:  # a constant: no task keeps addresses in registers
        text = "cute.make_ptr(Float32, 0, cute.AddressSpace.tmem, assumed_align=16)"
        return [*out, assign("tmem", text, "all of tensor memory is allocated: it starts at 0")]
    return [*out, assign("tmem", "cute.arch.retrieve_tmem_ptr(Float32, 16, tmem_slot)")]


def leave(s: TaskState) -> list[Statement]:
    """After a task's steps: the one that allocated frees when all are done."""
    b = s.builder
    if not moves_tmem(s.task, b.kernel):
        return []
    tasks = [t for t in b.kernel.tasks if moves_tmem(t, b.kernel)]
    comment = "named barrier: nobody reads tensor memory any more"
    owns = s.task == owner(b)
    out = [_barrier(b, "TMEM_DONE", 2, comment, tasks, "barrier" if owns else "barrier_arrive")]
    if owns:
        values = {"warp": _first_warp(s.task), "columns": _columns(b), "pair": cta_group(b.kernel) == 2}
        out.append(Statement("ops/tmem_dealloc", values))
    return out


def owner(b: Builder) -> Task:
    """The task whose first warp allocates: the first that reads tensor memory."""
    found = next((t for t in b.kernel.tasks if moves_tmem(t, b.kernel)), None)
    if found is None:
        resource = next(r for r in b.kernel.resources.values() if r.kind == "tmem")
        refuse(f"tensor memory `{resource.name}` that no task reads", resource.span)
    return found


def _first_warp(task: Task) -> int:
    return task.instances[0].first_warp


def _columns(b: Builder) -> str:
    fields = ", ".join(x.name for x in b.derived.tmem)
    return b.constant("TMEM_COLUMNS", str(b.derived.tmem_columns), f"of 32 bits: {fields}; a power of two from 32")


def _barrier(b: Builder, name: str, offset: int, comment: str, tasks: list[Task], method: str) -> Statement:
    number = len(b.derived.barriers) + offset
    if number >= NAMED_BARRIERS:
        refuse(f"{number} named barriers, two of them for tensor memory", b.kernel.span, "a CTA has 15")
    identifier = b.constant(name, str(number), comment)
    threads = sum(32 * i.num_warps for t in tasks for i in t.instances)
    return Statement("ops/barrier", {"method": method, "id": identifier, "threads": threads})


@frozen
class Place:
    """Where a field lies: its first column as an address, and how many columns its instances are apart."""

    address: str
    instances: int  # 1 without `each`
    apart: int


def place(b: Builder, field: Field) -> Place:
    """The place of a field in tensor memory."""
    each = b.kernel.resources[field.owner].each
    names = [f"{field.owner}[{i}]" for i in range(each.count)] if each is not None else [field.owner]
    at = [next(x.offset for x in b.derived.tmem if x.name == f"{n}.{field.name}") for n in names]
    apart = at[1] - at[0] if len(at) > 1 else 0
    if any(x != at[0] + i * apart for i, x in enumerate(at)):
        refuse(f"instances of `{field.owner}` at columns {', '.join(map(str, at))}", field.span)
    address = "tmem"
    if at[0]:
        address += f" + {b.constant(f'{field.owner}_{field.name}_AT'.upper(), str(at[0]), 'its first column')}"
    return Place(address, len(at), apart)


def stages_of(b: Builder, field: Field) -> str:
    """Stages of a field, as Python."""
    p = b.kernel.resources[field.owner].pipeline
    return "1" if p is None else py(p.stages, Scope(b.kernel.env, b.constants))


def _columns_of(s: TaskState, field: Field, work: Work) -> str:
    """A field as a tensor of its 32-bit columns: (rows, columns, stages, instances)."""
    b = s.builder
    bits = DTYPES[b.dtype_word(field.dtype)].bits
    if len(field.shape) != 2 or field.shape[0] != ROWS or field.shape[1] * bits % 32:
        shape = f"{list(field.shape)} of {b.dtype_word(field.dtype)}"
        refuse(f"`{work.owner}.{work.name}` on `{field.owner}.{field.name}`, {shape}", work.span, "128 rows")
    key = ("tmem", field.owner, field.name)
    if key not in s.prelude:
        at, scope = place(b, field), Scope(b.kernel.env, b.constants)
        rows, columns = (py(d, scope) for d in field.dims)
        if bits != 32:
            columns = f"{py_factor(field.dims[1], scope)} * {bits} // 32"
        lane = b.constant("TMEM_LANE", "1 << 16", "addresses of tensor memory: the lane above, the column below")
        sizes, strides = [rows, columns, stages_of(b, field)], [lane, "1", columns]
        if at.instances > 1:
            sizes.append(str(at.instances))
            strides.append(str(at.apart))
        text = f"cute.make_tensor({at.address}, cute.make_layout(({join(sizes)}), stride=({join(strides)})))"
        s.prelude[key] = assign(s.names.new(f"{field.owner}_{field.name}"), text)
    return str(s.prelude[key].values["name"])


def tmem_load(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """Columns of a field to registers: thread t gets row t, its register j column j."""
    b = s.builder
    source, placed = ref_of(w, "from")
    to, to_placed = ref_of(w, "to")
    field, registers = b.field(source), b.field(to)
    words = b.dtype_word(field.dtype), b.dtype_word(registers.dtype)
    if words[0] != words[1] or DTYPES[words[0]].bits != 32:
        refuse(f"a load of {words[0]} from tensor memory to registers of {words[1]}", placed.span, "32 bits each")
    if to.window is not None:
        refuse("a load from tensor memory to part of a register field", to_placed.span)
    part = _part(s, source, placed, registers.shape)
    copy = _copy(s, w, "Ld32x32bOp", field, fragment(s, registers), part)
    at = _at(s, source, part, stage(s, source.resource or "", w))
    values = {"copy": copy["copy"], "source": f"{copy['part']}[{at}]", "target": copy["registers"]}
    return [Statement("ops/tmem_copy", values, s.note(step))]


def tmem_store(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """A register field, or an expression over tiles, to columns of a field; two elements of 16 bits share a column."""
    b = s.builder
    to, placed = ref_of(w, "to")
    value = w.args["value"]
    assert isinstance(value, Placed)
    field, e = b.field(to), prune(value.expr, s.scope.env)
    out = list[Statement]()
    if isinstance(e, Ref) and b.kind(e) == "rmem" and e.window is None:
        part = _part(s, to, placed, b.field(e).shape)
        held, word = fragment(s, b.field(e)), b.dtype_word(b.field(e).dtype)
    else:
        part = _part(s, to, placed, None)
        token, out = tile_maps.value(s, w, step, spread(s, w, part.sizes), Const("f32"))
        held, word = token.name, ""
    if b.dtype_word(field.dtype) != word:
        dtype, key = b.dtype(field.dtype), ("staged", w.owner, w.name)
        if key not in s.prelude:
            text = f"cute.make_rmem_tensor({spread(s, w, part.sizes).shape}, {dtype})"
            s.prelude[key] = assign(s.names.new(f"{w.name}_staged"), text)
        staged = str(s.prelude[key].values["name"])
        out = [*out, Statement("ops/convert", {"source": held, "to": staged, "dtype": dtype})]
        held = staged
    copy = _copy(s, w, "St32x32bOp", field, held, part)
    at = _at(s, to, part, stage(s, to.resource or "", w))
    values = {"copy": copy["copy"], "source": copy["registers"], "target": f"{copy['part']}[{at}]"}
    out = [*out, Statement("ops/tmem_copy", values)]
    return [replace(out[0], note=s.note(step)), *out[1:]]


def _part(s: TaskState, ref: Ref, placed: Placed, registers: tuple[int, ...] | None) -> SubTile:
    """The columns of a field that a window takes: as many as the registers (None: any number), in every row."""
    part = sub_tile(s.builder, ref, s.scope)
    if part is None:
        refuse("a window of tensor memory that does not start at a multiple of its length", placed.span)
    registers = part.sizes if registers is None else registers
    if part.sizes != registers or part.sizes[0] != s.threads:
        shapes = f"{list(part.sizes)} of tensor memory and registers of {list(registers)} of {s.threads} threads"
        refuse(f"a copy between {shapes}", placed.span, "a thread holds a row")
    return part


def _at(s: TaskState, ref: Ref, part: SubTile, at_stage: str | None) -> str:
    """The index of a partition: the columns, the stage and the instance."""
    columns = part.at[1] if part.at is not None else "0"
    instance = [] if ref.instance is None else [s.py(ref.instance)]
    return join(["None", "None", "None", "0", columns, at_stage or "0", *instance])


def _copy(s: TaskState, w: Work, op: str, field: Field, held: str, part: SubTile) -> dict[str, str]:
    """Names of the tiled copy between a field's columns and registers, of this thread's part, and of the registers."""
    tile = _columns_of(s, field, w)
    bits = DTYPES[s.builder.dtype_word(field.dtype)].bits
    columns = part.sizes[1] * bits // 32
    box = part.box[1] if bits == 32 else str(columns)
    key = ("tmem_copy", op, tile, box, held)
    if key not in s.prelude:
        count = next(n for n in _widths(op, columns) if columns % n == 0)
        names = {x: s.names.new(f"{w.name}_{x}") for x in ("tiles", "copy", "part", "registers")}
        load, several = op.startswith("Ld"), s.builder.kernel.resources[field.owner].each is not None
        values = {
            **names,
            "op": op,
            "tile": tile,
            "box": f"{part.box[0]}, {box}",
            "first": "None, None, 0, 0, 0" + (", 0" if several else ""),
            "count": box if count == columns else count,
            "held": held if bits == 32 else f"cute.recast_tensor({held}, Float32)",
            "thread": s.scope.names["thread"],
            "side": "S" if load else "D",
            "other": "D" if load else "S",
        }
        s.prelude[key] = Statement("setup/tmem_copy", values, s.builder.note(w.span.line, f"{w.owner}.{w.name}"))
    return {k: str(v) for k, v in s.prelude[key].values.items()}


def _widths(op: str, columns: int) -> tuple[int, ...]:
    """Registers of one instruction, best first. They lie side by side, and no instruction may have more than a thread
    has at launch, whatever setmaxnreg says; those of a store stand beside what they were converted from."""
    if op.startswith("St"):
        return 16, 8, 4, 2, 1
    return (64,) if columns == 64 else (32, 16, 8, 4, 2, 1)
