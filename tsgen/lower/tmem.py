"""Tensor memory: who allocates it and gives it back, its fields as tensors, and their way to registers.

The first warp of the first task that moves tensor memory to its registers allocates; a named barrier tells all tasks
that touch it. Another one, of the tasks that move it, says that it is free: every MMA is complete by then, as some task
has waited for the last commit. Of a pair of CTAs both allocate, and both must be done before either frees.
"""

from __future__ import annotations

from tsgen.lower.context import Builder, TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.mma import fragment, ref_of
from tsgen.lower.positions import stage
from tsgen.lower.program import Statement, assign
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.smem import sub_tile
from tsgen.lower.tmem_works import cta_group, moves_tmem, touches_tmem
from tsgen.model.kernel import Field, Task, Work
from tsgen.model.steps import CallStep

NAMED_BARRIERS = 16  # of a CTA; 0 is that of all its threads
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


def base(s: TaskState, field: Field) -> str:
    """The address of a field."""
    b = s.builder
    block = next(x for x in b.derived.tmem if x.name == f"{field.owner}.{field.name}")
    if block.offset == 0:
        return "tmem"
    return f"tmem + {b.constant(f'{field.owner}_{field.name}_AT', str(block.offset), 'its first column')}"


def stages_of(b: Builder, field: Field) -> str:
    """Stages of a field, as Python."""
    p = b.kernel.resources[field.owner].pipeline
    return "1" if p is None else py(p.stages, Scope(b.kernel.env, b.constants))


def _tile(s: TaskState, field: Field, work: Work) -> str:
    """A field of 32-bit elements as a tensor (rows, columns, stages)."""
    b = s.builder
    if b.dtype_word(field.dtype) != "f32" or field.shape[0] != ROWS or len(field.shape) != 2:
        shape = f"{list(field.shape)} of {b.dtype_word(field.dtype)}"
        refuse(f"`{work.owner}.{work.name}` on `{field.owner}.{field.name}`, {shape}", work.span, "128 rows of f32")
    key = ("tmem", field.owner, field.name)
    if key not in s.prelude:
        scope = Scope(b.kernel.env, b.constants)
        rows, columns = (py(d, scope) for d in field.dims)
        lane = b.constant("TMEM_LANE", "1 << 16", "addresses of tensor memory: the lane above, the column below")
        layout = f"cute.make_layout(({rows}, {columns}, {stages_of(b, field)}), stride=({lane}, 1, {columns}))"
        text = f"cute.make_tensor({base(s, field)}, {layout})"
        s.prelude[key] = assign(s.names.new(f"{field.owner}_{field.name}"), text)
    return str(s.prelude[key].values["name"])


def tmem_load(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """Columns of a field to registers: thread t gets row t, its register j column j."""
    b = s.builder
    source, placed = ref_of(w, "from")
    to, to_placed = ref_of(w, "to")
    field, registers = b.field(source), b.field(to)
    part = sub_tile(b, source, s.scope)
    if part is None:
        refuse("a window of tensor memory that does not start at a multiple of its length", placed.span)
    if to.window is not None or part.sizes != registers.shape or part.sizes[0] != s.threads:
        shapes = f"{list(part.sizes)} to registers of {list(registers.shape)} of {s.threads} threads"
        refuse(f"a load of {shapes}", to_placed.span, "a thread holds a row")
    copy = _copy(s, w, "Ld32x32bOp", field, registers, part.box, part.sizes[1])
    at = f"0, {part.at[1] if part.at is not None else '0'}, {stage(s, source.resource or '', w) or '0'}"
    values = {"copy": copy["copy"], "source": f"{copy['part']}[None, None, None, {at}]", "target": copy["registers"]}
    return [Statement("ops/tmem_copy", values, s.note(step))]


def _copy(
    s: TaskState, w: Work, op: str, field: Field, registers: Field, box: tuple[str, ...], columns: int
) -> dict[str, str]:
    """Names of the tiled copy between a field's columns and registers, of this thread's part, and of the registers."""
    tile = _tile(s, field, w)
    held = fragment(s, registers)
    key = ("tmem_copy", op, tile, box, held)
    if key not in s.prelude:
        count = next(n for n in (128, 64, 32, 16, 8, 4, 2, 1) if columns % n == 0)
        names = {x: s.names.new(f"{w.name}_{x}") for x in ("tiles", "copy", "part", "registers")}
        values = {
            **names,
            "op": op,
            "tile": tile,
            "box": ", ".join(box),
            "count": box[1] if count == columns else count,
            "held": held,
            "thread": s.scope.names["thread"],
            "side": "S" if op.startswith("Ld") else "D",
            "other": "D" if op.startswith("Ld") else "S",
        }
        s.prelude[key] = Statement("setup/tmem_copy", values, s.builder.note(w.span.line, f"{w.owner}.{w.name}"))
    return {k: str(v) for k, v in s.prelude[key].values.items()}
