"""Arrival counts, signaling and lanes of pipelines, as written against as derived (TS31x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.arrivals import ACQUIRE, COMMIT, RELEASE, WAIT
from tsgen.derive.model import Derived
from tsgen.derive.unfold import constant
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, check
from tsgen.model.kernel import Kernel, Pipeline, Resource, Task
from tsgen.model.pipelines import PIPELINES
from tsgen.model.steps import DomainLoop, walk

_ROLES = ("acquire", "commit", "wait", "release")


def _pipelined(kernel: Kernel) -> Iterator[tuple[Resource, Pipeline]]:
    for resource in kernel.resources.values():
        if resource.pipeline is not None:
            yield resource, resource.pipeline


@check("TS310", "arrival-count")
def arrival_count(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """`producer_group` or `consumer_group` is not the number of arrivals in a phase.

    A barrier with too high a count never completes; with too low a count it completes before everybody has arrived. The
    count follows from the tasks that arrive: threads, one lane of each warp, or one commit of the tensor core. For a
    release, one lane for each warp and every thread are both possible: the written count chooses.
    """
    for resource, pipeline in _pipelined(kernel):
        counts = derived.arrivals[resource.name]
        for key, written, expected, why, method in (
            ("producer_group", pipeline.producer_group, counts.full, counts.why_full, "commit"),
            ("consumer_group", pipeline.consumer_group, counts.empty, counts.why_empty, "release"),
        ):
            if written is not None and written != expected and uses.parties(resource.name, method):
                yield Finding(
                    f"`{key}` of `{resource.name}` is {written}, expected {expected} = {why}",
                    pipeline.spans.get(key, pipeline.span),
                    f"write {expected}, or leave it out",
                )


@check("TS311", "several-tma-warps")
def several_tma_warps(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A task of several warps fills a TMA ring, and nothing says which of them arms the barrier.

    Give the task one warp; or `producer_signaling: task_warp_leader`, so that its first warp arms for all; or an
    `interleave_stride` equal to its warps, so that each has lanes of its own. Not two of these at once.
    """
    for resource, pipeline in _pipelined(kernel):
        if PIPELINES[pipeline.type].producer != "tma":
            continue
        leader = "task_warp_leader" in (pipeline.producer_signaling or "")
        lanes = pipeline.interleave_stride[COMMIT] > 1
        for task, instance in uses.parties(resource.name, "commit"):
            if instance.num_warps > 1 and not leader and not lanes:
                yield Finding(
                    f"`{task.name}` fills `{resource.name}` with {instance.num_warps} warps: each would arm it",
                    task.spans.get("num_warps", task.span),
                    f"one warp, or `producer_signaling: task_warp_leader` for `{resource.name}`",
                )
                break
        if leader and lanes:
            yield Finding(
                f"`{resource.name}` has both `task_warp_leader` and lanes",
                pipeline.spans.get("producer_signaling", pipeline.span),
                "leave one out",
            )


@check("TS312", "signaling")
def signaling(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A signaling mode does not fit the pipeline.

    `task_warp_leader` chooses the warp that arms a transaction barrier, so it is for the producer of a TMA pipeline.
    `consumer_wait_signaling` is for a resource that one task waits for and another releases.
    """
    for resource, pipeline in _pipelined(kernel):
        for key, value in (
            ("producer_signaling", pipeline.producer_signaling),
            ("consumer_signaling", pipeline.consumer_signaling),
            ("consumer_wait_signaling", pipeline.consumer_wait_signaling),
        ):
            span = pipeline.spans.get(key, pipeline.span)
            tma = PIPELINES[pipeline.type].producer == "tma"
            if value is not None and "task_warp_leader" in value and not (key == "producer_signaling" and tma):
                yield Finding(f"`{key}` of `{resource.name}` cannot be `{value}`: no bytes are armed there", span)
        if pipeline.consumer_wait_signaling is not None:
            releasing = {(t.name, i.index) for t, i in uses.parties(resource.name, "release")}
            waiting = {(t.name, i.index) for t, i in uses.parties(resource.name, "wait")}
            if waiting <= releasing:
                yield Finding(
                    f"`consumer_wait_signaling` of `{resource.name}`: every task that waits for it releases it, too",
                    pipeline.spans.get("consumer_wait_signaling", pipeline.span),
                    "leave it out",
                )


@check("TS313", "lanes")
def lanes(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A task does not fit the lanes of an interleaved ring.

    With `interleave_stride: N` the stages are dealt to N lanes. A task has as many warps as there are lanes (each warp
    is a lane), or its domain loop starts at its lane and steps by N. TMA rings with lanes need a cluster of one CTA;
    the tensor core has no lanes.
    """
    for resource, pipeline in _pipelined(kernel):
        strides = pipeline.interleave_stride
        if max(strides) == 1:
            continue
        span = pipeline.spans.get("interleave_stride", pipeline.span)
        kind = PIPELINES[pipeline.type]
        for side, roles in ((kind.producer, (ACQUIRE, COMMIT)), (kind.consumer, (WAIT, RELEASE))):
            if side == "umma" and any(strides[r] > 1 for r in roles):
                words = "acquire and commit" if roles[0] == ACQUIRE else "wait and release"
                yield Finding(f"`{resource.name}`: {words} of the tensor core have no lanes", span, "write 1 for them")
        if pipeline.type == "tma_async" and any(a.cluster > 1 for a in kernel.launch.axes):
            yield Finding(f"`{resource.name}`: a TMA ring with lanes needs a cluster of one CTA", span)
        if resource.name in {m for g in kernel.groups.values() if g.mode == "fused_merge" for m in g.members}:
            yield Finding(f"`{resource.name}`: members of a fused_merge group have no lanes", span)
        yield from _tasks(kernel, uses, resource, strides)


def _tasks(kernel: Kernel, uses: Uses, resource: Resource, strides: tuple[int, int, int, int]) -> Iterator[Finding]:
    seen = set()
    for role, method in enumerate(_ROLES):
        if strides[role] == 1:
            continue
        for task, instance in uses.parties(resource.name, method):
            if task.name in seen or instance.num_warps == strides[role]:
                continue
            step = _loop_step(kernel, task, instance.index)
            if step != strides[role]:
                seen.add(task.name)
                loop = (
                    f"its domain loop steps by {step}" if step is not None else "it has no domain loop of constant step"
                )
                yield Finding(
                    f"`{task.name}` does `{resource.name}.{method}()`, which has {strides[role]} lanes, but has "
                    f"{instance.num_warps} warp{'s' if instance.num_warps > 1 else ''} and {loop}",
                    task.span,
                    f"give it {strides[role]} warps, or a domain loop from its lane with `step: {strides[role]}`",
                )


def _loop_step(kernel: Kernel, task: Task, index: int) -> int | None:
    env = kernel.env
    if task.each is not None:
        env[task.each.var] = index
    for s in walk(task.schedule.steps):
        if isinstance(s, DomainLoop):
            step, start = constant(s.step.expr, env), constant(s.start.expr, env)
            return step if isinstance(step, int) and isinstance(start, int) else None
    return None


@check("TS314", "instances-differ")
def instances_differ(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Instances of a resource are used by different numbers of threads.

    The instances of `each` share one declaration, and so their barriers have one count. Use two resources where the
    tasks differ.
    """
    for resource, pipeline in _pipelined(kernel):
        if resource.each is None:
            continue
        for method in ("commit", "release"):
            warps = [
                sum(i.num_warps for _, i in uses.parties(resource.name, method, n)) for n in range(resource.each.count)
            ]
            if len(set(warps)) > 1:
                yield Finding(
                    f"`{resource.name}.{method}()` is done by {', '.join(map(str, warps))} warps for its instances: "
                    "their barriers need one count",
                    pipeline.span,
                )


CAUSES = (arrival_count, several_tma_warps, signaling, lanes, instances_differ)
