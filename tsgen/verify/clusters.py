"""Clusters and programmatic launch, as far as the text shows (TS71x, TS702)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.unfold import calls as all_calls
from tsgen.derive.unfold import work_env
from tsgen.derive.uses import Uses, cluster_extent, cluster_size, one_peer, peer_axis
from tsgen.diagnostics import Finding, Related, check
from tsgen.model.kernel import Kernel
from tsgen.model.ops import copies
from tsgen.model.steps import CallStep, calls
from tsgen.model.targets import TARGETS

PORTABLE = 8


@check("TS702", "launch-without-wait")
def launch_without_wait(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """The kernel is launched with programmatic stream serialisation, and no task waits.

    `pdl: true` lets it start while the kernels before it still run. Without `wait_griddep` it may read what they have
    not written yet, and write what they still read.
    """
    steps = [s for t in kernel.tasks for s in calls(t.schedule.steps) if s.kind == "pdl"]
    if kernel.launch.pdl and not any(s.method == "wait_griddep" for s in steps):
        yield Finding(
            "`launch.pdl` is true, but no task does `wait_griddep()`",
            kernel.launch.span,
            "add the step before the first access to a tensor, or remove `pdl: true`",
            tuple(Related(f"`{s.text}`", s.span) for s in steps[:2]) + _touching(kernel, uses),
        )


def _touching(kernel: Kernel, uses: Uses) -> tuple[Related, ...]:
    """The first work of each task that touches a tensor which depends on the kernels before."""
    after = {e.downstream for e in kernel.graph if e.upstream in kernel.resources}
    after = {n for n in after if n in kernel.tensors}
    found = []
    for task in kernel.tasks:
        for s in calls(task.schedule.steps):
            work = kernel.work(s.target, s.method) if s.kind == "work" else None
            if work is not None and any(a.ref.name in after for a in uses.accesses(work) if a.ref.resource is None):
                found.append(Related(f"`{task.name}` touches a tensor here", s.span))
                break
    return tuple(found)


@check("TS710", "cluster-size")
def clusters_too_large(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A cluster has more than eight CTAs, which is the most that every GPU of the architecture takes."""
    n = cluster_size(kernel)
    if n > PORTABLE:
        parts = " x ".join(str(a.cluster) for a in kernel.launch.axes if a.cluster > 1)
        yield Finding(f"the cluster has {n} CTAs ({parts}), at most {PORTABLE} are possible", kernel.launch.span)


@check("TS711", "pair-in-cluster")
def pair_in_cluster(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """An MMA spans two CTAs, but the cluster has no pairs.

    `cta_group: 2` joins neighbours along the first clustered axis: its cluster extent is even.
    """
    first = next((a.cluster for a in kernel.launch.axes if a.cluster > 1), 1)
    if uses.pair and first % 2:
        name = sorted(uses.pair)[0]
        resource = kernel.resources[name]
        yield Finding(
            f"`{name}` is used by an MMA of two CTAs, the cluster has {first} along its first axis",
            resource.span,
            "write `launch.cluster` with an even extent",
        )


@check("TS712", "pair-leader")
def pair_leader(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A task issues MMAs of two CTAs in both of them.

    The leader of a pair issues for both: `cta: leader`.
    """
    for task in kernel.tasks:
        if task.cta is not None:
            continue
        for s in calls(task.schedule.steps):
            work = kernel.work(s.target, s.method) if s.kind == "work" else None
            if work is not None and work.op == "tcgen05_mma" and s.target in uses.pair:
                yield Finding(
                    f"`{task.name}` issues `{s.text}` for two CTAs, in both of them", task.span, "write `cta: leader`"
                )
                break


@check("TS715", "leader-without-pairs")
def leader_without_pairs(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A task runs in the leaders of pairs, and the kernel has no pairs.

    `cta: leader` means the first CTA of each two that an MMA with `cta_group: 2` spans.
    """
    for task in kernel.tasks:
        if task.cta == "leader" and not uses.pair:
            yield Finding(
                f"`{task.name}` runs in the leader of each pair, but no MMA of the kernel spans two CTAs",
                task.spans.get("cta", task.span),
                "write the rank of a CTA (`cta: 0`), or leave `cta` out",
            )


@check("TS713", "slow-multicast", "warning")
def slow_multicast(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A box is loaded into several CTAs on a target whose TMA cannot do that at the price of one.

    GeForce cards (sm_120a) have clusters and take the instruction, but nothing of it in hardware: PTX warns that it may
    be much slower there, and CUTLASS builds its kernels for them without clusters.
    """
    shared = {a.name for a in kernel.launch.axes if a.cluster > 1}
    if TARGETS[kernel.target].multicast:
        return
    for resource in kernel.resources.values():
        for work in resource.works.values():
            for c in copies(work) if work.op == "tma_load" else ():
                if c.multicast in shared:
                    what = f"multicast along `{c.multicast}` is slow on `{kernel.target}`: its hardware has none"
                    yield Finding(what, c.span, "leave `multicast` out there: each CTA then loads its own copy")


@check("TS714", "peer-range")
def peer_range(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A `peer_store` names a CTA that the cluster does not have.

    `peer` counts from 0 along the axis that `peers` names.
    """
    for program in uses.programs.values():
        for node in all_calls(program):
            step = node.step
            assert isinstance(step, CallStep)
            work = kernel.work(step.target, step.method) if step.kind == "work" else None
            if work is None or work.op != "peer_store":
                continue
            peer, extent = one_peer(work, work_env(kernel, node, work)), cluster_extent(kernel, peer_axis(work))
            if peer is not None and not 0 <= peer < extent:
                what = f"`peer` of `{step.text}` is {peer}, the cluster has {extent} along `{peer_axis(work)}`"
                yield Finding(what, work.spans.get("peer", work.span), None, (Related("it is called here", step.span),))


# cannot run, or would stumble
CAUSES = (clusters_too_large, launch_without_wait, pair_in_cluster, pair_leader, leader_without_pairs, peer_range)
CHECKS = (slow_multicast,)
