"""`cp_async_load`: windows of tensors to shared memory by cp.async, vectors of 4 to 16 bytes by each thread."""

from __future__ import annotations

from tsgen.derive.filling import closes_group
from tsgen.lower.context import TaskState, join
from tsgen.lower.errors import refuse
from tsgen.lower.program import Statement, assign
from tsgen.lower.smem import element_bytes
from tsgen.lower.spread import spread_of, thread_slice
from tsgen.lower.tile_copies import Limit, loop, picks_inside, smem_part, sum_text, window_tile
from tsgen.lower.tiles import noted
from tsgen.lower.tokens import Spread
from tsgen.model.expr import Placed
from tsgen.model.kernel import CopyArg, Work
from tsgen.model.ops import copies
from tsgen.model.steps import CallStep

SIZES = (4, 8, 16)  # bytes that one cp.async copies


def cp_async_load(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """The copies of one call. On a pipeline its commit arrives when they are complete; else they are one group."""
    out = [statement for c in copies(w) for statement in _load(s, w, c)]
    return noted(s, step, [*out, *closing(s, w)])


def closing(s: TaskState, w: Work) -> list[Statement]:
    """The end of a group of copies, after a call that closes one."""
    if not closes_group(s.builder.kernel, w):
        return []
    return [Statement("ops/completion", {"call": "cute.arch.cp_async_commit_group()", "lead": None})]


def _load(s: TaskState, w: Work, c: CopyArg) -> list[Statement]:
    b = s.builder
    to, source = Placed(c.to, c.to_span), Placed(c.source, c.source_span)
    tensor, field = b.kernel.tensors[c.source.name], b.field(c.to)
    if b.dtype_word(tensor.dtype) != b.dtype_word(field.dtype):
        refuse(f"cp_async_load of {b.dtype_word(tensor.dtype)} into {b.dtype_word(field.dtype)}", to.span)
    spread = spread_of(s, w, c.to)
    if spread != spread_of(s, w, c.source):
        refuse("cp_async_load between windows of different sizes", source.span)
    nbytes = spread.vector * element_bytes(b, tensor.dtype)
    if nbytes not in SIZES:
        multiple = f"N % {SIZES[-1] // element_bytes(b, tensor.dtype)} == 0"
        refuse(
            f"cp.async of {nbytes} bytes at a time",
            source.span,
            f"it copies 4, 8 or 16: say in `launch.assume` how long rows of `{tensor.name}` are, as in `{multiple}`",
        )
    part, before = smem_part(s, w, c.to, spread, "D")
    window, limits = window_tile(s, w, c.source, spread)
    origin = s.names.new(f"{tensor.name}_from")
    out = [*before, assign(origin, f"{thread_slice(s, spread)}.partition_S({window})")]
    inside, tests = _inside(s, spread, f"{tensor.name}_inside", limits, picks_inside(s, c.source))
    values = {"atom": _atom(s, spread, nbytes), "source": origin, "target": part, "inside": inside}
    return [*out, *tests, Statement("ops/cp_async", values)]


def _atom(s: TaskState, spread: Spread, nbytes: int) -> str:
    """The copy atom, in the task's prelude. What is copied 16 bytes at a time passes by the L1 cache."""
    key = ("cp_async", spread.dtype, nbytes)
    if key not in s.prelude:
        mode = "cute.nvgpu.LoadCacheMode.GLOBAL" if nbytes == SIZES[-1] else ""
        text = f"cute.make_copy_atom(cpasync.CopyG2SOp({mode}), {spread.dtype}, num_bits_per_copy={8 * nbytes})"
        s.prelude[key] = assign(s.names.new("cp_async"), text)
    return str(s.prelude[key].values["name"])


def _inside(
    s: TaskState, spread: Spread, wish: str, limits: tuple[Limit, ...], conditions: list[str]
) -> tuple[str | None, list[Statement]]:
    """Which of a thread's vectors lie in the tensor; the others become zeros. None if all do."""
    rows, cols = (None, *limits)[-2:]
    if rows is None and cols is None and not conditions:
        return None, []
    name = s.names.new(wish)
    reps = spread.reps if spread.rank == 2 else spread.reps[1:]
    i = s.names.new("i") if spread.rank == 2 and spread.reps[0] > 1 else "0"
    j = s.names.new("j") if spread.reps[1] > 1 else "0"
    conditions = list(conditions)
    if rows is not None:
        conditions.append(f"{sum_text(rows[0], spread.row(i))} < {rows[1]}")
    if cols is not None:
        conditions.append(f"{sum_text(cols[0], spread.column(j))} < {cols[1]}")
    at = f"{i}, {j}" if spread.rank == 2 else j
    body = [assign(f"{name}[0, {at}]", " and ".join(conditions))]
    if j != "0":
        body = [loop(j, spread.reps[1], body)]
    if i != "0":
        body = [loop(i, spread.reps[0], body)]
    return name, [assign(name, f"cute.make_rmem_tensor((1, {join(map(str, reps))}), cutlass.Boolean)"), *body]
