"""Warps of the block: who has which (TS61x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.storage import find_field, window_shape
from tsgen.derive.unfold import Node, work_env
from tsgen.derive.unfold import calls as unfolded
from tsgen.derive.uses import Uses
from tsgen.derive.warps import WARPGROUP
from tsgen.diagnostics import Finding, Related, check
from tsgen.model.expr import Full, Index, Placed, Ref
from tsgen.model.kernel import Kernel, Task, TaskInstance, Work
from tsgen.model.ops import OPS
from tsgen.model.steps import CallStep, calls

MAX_THREADS = 1024
LANES = 32  # of tensor memory that a warp reaches


def _name(task: Task, instance: TaskInstance) -> str:
    return task.name if task.each is None else f"{task.name}[{instance.index}]"


def _range(instance: TaskInstance) -> str:
    last = instance.first_warp + instance.num_warps - 1
    return f"warp {instance.first_warp}" if instance.num_warps == 1 else f"warps {instance.first_warp} to {last}"


@check("TS610", "warps-overlap")
def warps_overlap(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Two tasks have warps in common.

    A warp runs one task. On shared warps the tasks would run one after the other, and wait for each other forever.
    Tasks in different CTAs of a cluster (`cta`) may share warp numbers.
    """
    every = list(kernel.instances())
    for n, (task, instance) in enumerate(every):
        for other, earlier in every[:n]:
            shared = set(instance.warps) & set(earlier.warps)
            apart = isinstance(task.cta, int) and isinstance(other.cta, int) and task.cta != other.cta
            if shared and not apart:
                yield Finding(
                    f"`{_name(task, instance)}` has {_range(instance)}, `{_name(other, earlier)}` has "
                    f"{_range(earlier)}: both have warp {min(shared)}",
                    task.spans.get("warp_idx", task.span),
                    f"`warp_idx: {_free(kernel, instance)}` is free",
                    (Related("the other task", other.spans.get("warp_idx", other.span)),),
                )
                return


def _free(kernel: Kernel, instance: TaskInstance) -> int:
    return max(i.first_warp + i.num_warps for _, i in kernel.instances())


@check("TS611", "warps-without-task", "warning")
def warps_without_task(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Warps between those of the tasks belong to no task.

    They would be launched, take registers and end at once. Let the tasks' warps follow each other; the last warpgroup
    is padded by itself where registers are set.
    """
    taken = {w for _, i in kernel.instances() for w in i.warps}
    padded = {w for warps in derived.padding.values() for w in warps}
    last = max(taken, default=-1)
    missing = [w for w in range(last) if w not in taken and w not in padded]
    if missing:
        after = next((t, i) for t, i in kernel.instances() if i.first_warp > missing[0])
        yield Finding(
            f"no task has warp{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}",
            after[0].spans.get("warp_idx", after[0].span),
            f"move the task to `warp_idx: {missing[0]}`",
        )


@check("TS612", "block-too-large")
def block_too_large(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """The block has more than 1024 threads."""
    if derived.block_warps * 32 > MAX_THREADS:
        task, _ = max(kernel.instances(), key=lambda p: p[1].first_warp + p[1].num_warps)
        yield Finding(
            f"the block has {derived.block_warps * 32} threads ({derived.block_warps} warps), at most {MAX_THREADS} are"
            " possible",
            task.spans.get("num_warps", task.span),
        )


@check("TS614", "lanes-out-of-reach")
def lanes_out_of_reach(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A task moves rows of tensor memory that its warps cannot reach.

    A warp reaches 32 lanes, those of its number modulo four: rows 0 to 127 of a tile take four warps.
    """
    seen = set()
    for task, instance in kernel.instances():
        for node in unfolded(uses.programs[task.name, instance.index]):
            step = node.step
            assert isinstance(step, CallStep)
            work = kernel.work(step.target, step.method)
            if work is None or work.op not in ("tmem_load", "tmem_store") or step.span in seen:
                continue
            warps = 1 if work.scope == "warp" else instance.num_warps
            for access in uses.accesses(work):
                rows = _rows(kernel, access.ref, node, work)
                if rows > LANES * warps:
                    seen.add(step.span)
                    yield Finding(
                        f"`{step.text}` of `{_name(task, instance)}` moves {rows} rows of tensor memory with "
                        f"{'each warp alone' if work.scope == 'warp' else _range(instance)}; a warp reaches {LANES}",
                        step.span,
                        f"give the task {-(-rows // LANES)} warps",
                        (Related("the warps", task.spans.get("num_warps", task.span)),),
                    )


def _rows(kernel: Kernel, ref: Ref, node: Node, work: Work) -> int:
    """Rows of a window of tensor memory; 0 of anything else."""
    field = find_field(kernel, ref)
    if field is None or kernel.resources[field.owner].kind != "tmem":
        return 0
    shape = _tile(kernel, ref, node, work)
    return 0 if shape is None else shape[0]


def _tile(kernel: Kernel, ref: Ref, node: Node, work: Work) -> tuple[int, int] | None:
    """Rows and columns of a window of a field; None if it has not both."""
    field = find_field(kernel, ref)
    if field is None:
        return None
    lengths = window_shape(ref, field.shape, work_env(kernel, node, work))
    window = (*(ref.window or ()), *(Full() for _ in field.shape))
    kept = [n for w, n in zip(window, lengths, strict=False) if not isinstance(w, Index)]
    return (kept[-2], kept[-1]) if len(kept) > 1 else None


@check("TS613", "whole-warpgroups")
def whole_warpgroups(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A task that works by warpgroups does not consist of whole ones.

    WGMMA is issued by four warps together, the first of them a multiple of four; a warp reads the lanes of tensor
    memory that belong to its number modulo four.
    """
    for task, instance in kernel.instances():
        ops: dict[str, str] = {}
        for s in calls(task.schedule.steps):
            work = kernel.work(s.target, s.method) if s.kind == "work" else None
            if work is not None and work.op is not None:
                ops.setdefault(work.op, s.text)
        whole = [op for op in ops if OPS[op].issue == "warpgroup"]
        lanes = [op for op in ops if op in ("tmem_load", "tmem_store")]
        if whole and (instance.num_warps % WARPGROUP or instance.first_warp % WARPGROUP):
            yield Finding(
                f"`{_name(task, instance)}` issues `{whole[0]}` with {_range(instance)}; expected whole warpgroups (a "
                "first warp and a number of warps that are multiples of 4)",
                task.spans.get("num_warps" if instance.num_warps % WARPGROUP else "warp_idx", task.span),
            )
        elif lanes and instance.first_warp % WARPGROUP:
            yield Finding(
                f"`{_name(task, instance)}` uses `{lanes[0]}` and starts at warp {instance.first_warp}; expected a "
                "multiple of 4: a warp reaches the lanes of its number modulo 4",
                task.spans.get("warp_idx", task.span),
            )


@check("TS615", "mma-tile")
def mma_tile(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """An MMA's tile is none that the hardware multiplies.

    A WGMMA gives each warpgroup rows in multiples of 64, and columns in multiples of 8. A tcgen05 MMA has 64 or 128
    rows in each CTA, and columns in multiples of 8 (16 with 128 rows) up to 256.
    """
    seen = set()
    for task, instance in kernel.instances():
        for node in unfolded(uses.programs[task.name, instance.index]):
            step = node.step
            assert isinstance(step, CallStep)
            work = kernel.work(step.target, step.method)
            if work is None or work.op not in ("wgmma", "tcgen05_mma"):
                continue
            c = work.args["c"]
            assert isinstance(c, Placed) and isinstance(c.expr, Ref)
            shape = _tile(kernel, c.expr, node, work)
            reason = None if shape is None else _no_tile(work.op, *shape, instance.num_warps)
            if shape is not None and reason is not None and c.span not in seen:
                seen.add(c.span)
                yield Finding(
                    f"`{step.text}` of `{_name(task, instance)}` multiplies a tile of {shape[0]}x{shape[1]}: {reason}",
                    step.span,
                    related=(Related("the accumulator", c.span),),
                )


def _no_tile(op: str, rows: int, columns: int, warps: int) -> str | None:
    """Why the hardware has no such tile."""
    if op == "wgmma":
        groups = max(warps // WARPGROUP, 1)
        if rows % (64 * groups):
            return f"{groups} warpgroup{'s take' if groups > 1 else ' takes'} a multiple of {64 * groups} rows"
        return f"{columns} columns are no multiple of 8" if columns % 8 else None
    if rows not in (64, 128):
        return "a tcgen05 MMA has 64 or 128 rows in each CTA"
    step = 8 if rows == 64 else 16
    return f"columns are a multiple of {step}, up to 256" if columns % step or columns > 256 else None


CAUSES = (block_too_large,)  # what no SM can hold is not run
CHECKS = (warps_overlap, warps_without_task, whole_warpgroups, lanes_out_of_reach, mma_tile)
