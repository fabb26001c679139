"""Barrier counts and transaction bytes of pipelines (LANGUAGE.md section 9, in the arithmetic of their types)."""

from __future__ import annotations

from collections.abc import Iterable

from tsgen.derive.model import Arrivals, Signal
from tsgen.derive.storage import stage_bytes
from tsgen.derive.uses import Party, Uses, cluster_extent, cluster_size, peer_axis
from tsgen.model.kernel import Kernel, Pipeline, Resource
from tsgen.model.pipelines import PIPELINES

ACQUIRE, COMMIT, WAIT, RELEASE = range(4)  # of interleave_stride
ROLES = {"acquire": ACQUIRE, "commit": COMMIT, "wait": WAIT, "release": RELEASE}
CLC_BYTES = 16


PRODUCER_SIGNAL: dict[str, Signal] = {"tma": "arm", "clc": "arm", "peer": "arm", "async": "thread", "umma": "umma"}
CONSUMER_SIGNAL: dict[str, Signal] = {"async": "warp", "umma": "umma"}


def peers(kernel: Kernel, u: Uses, resource: Resource) -> int:
    """CTAs that a release of the resource arrives at: those that write a stage of this CTA, itself included."""
    kind = resource.pipeline.type if resource.pipeline is not None else ""
    if kind == "peer_async":
        axes = {peer_axis(w) for w in resource.works.values() if w.op == "peer_store"}
    else:
        axes = u.multicast.get(resource.name, set())
    return 1 + sum(cluster_extent(kernel, axis) - 1 for axis in axes)


def arrivals(kernel: Kernel, u: Uses, resource: Resource) -> Arrivals:
    """Arrival counts of one phase of the resource's full and empty barriers."""
    pipeline = resource.pipeline
    assert pipeline is not None
    kind = PIPELINES[pipeline.type]
    pair = 2 if resource.name in u.pair else 1
    if pipeline.type == "clc_fetch_async":
        return _clc(kernel, u, resource)
    shared = peers(kernel, u, resource)
    alone = pipeline.type == "peer_async" and shared == 1  # then threads fill it as any other ring
    by_producer = PRODUCER_SIGNAL[kind.producer]
    by_consumer = "thread" if alone else _consumer_signal(kernel, resource, pipeline)
    full, why_full = _producers(u, resource, pipeline, by_producer, pair)
    leaders = _leaders(kernel, u, resource) if pair > 1 else shared
    empty, why_empty = _consumers(u, resource, pipeline, by_consumer, pair, shared, leaders)
    full, why_full, full_by = _written(pipeline.producer_group, full, why_full, by_producer)
    if by_consumer == "thread":
        empty, why_empty = 32 * empty, f"32 threads x {why_empty}"
    empty, why_empty, empty_by = _written(pipeline.consumer_group, empty, why_empty, by_consumer)
    return Arrivals(full, empty, why_full, why_empty, full_by, empty_by)


def _consumer_signal(kernel: Kernel, resource: Resource, pipeline: Pipeline) -> Signal:
    """Who releases. Stages that threads fill are released by every thread that reads them, as in TS: the order of each
    thread's reads before the next writes then needs no step between the lanes of a warp. A group whose members share
    the empty barrier releases as its members that threads fill.
    """
    sharing = next((g for g in kernel.groups.values() if resource.name in g.members and g.mode != "fork"), None)
    types = [pipeline.type]
    if sharing is not None:
        rings = [kernel.resources[m].pipeline for m in sharing.members if m in kernel.resources]
        types += [p.type for p in rings if p is not None]
    return "thread" if "async_async" in types else CONSUMER_SIGNAL[PIPELINES[pipeline.type].consumer]


def _written(written: int | None, derived: int, why: str, by: Signal) -> tuple[int, str, Signal]:
    """A written count of 32 times the lanes asks for an arrival of every thread, as in TS; others are checked later."""
    if by == "warp" and written is not None and written == 32 * derived:
        return written, f"32 threads x {why}", "thread"
    return derived, why, by


def _producers(u: Uses, resource: Resource, pipeline: Pipeline, by: Signal, pair: int) -> tuple[int, str]:
    parties = u.parties(resource.name, "commit")
    lane = pipeline.interleave_stride[COMMIT]
    if by == "umma" or not parties:
        return 1, "one MMA commit" if by == "umma" else "one producer"
    if by == "thread":
        warps, why = _warps(parties, lane, u, resource.name, producer=True)
        leader = "cta_leader" in (pipeline.producer_signaling or "")
        factor = pair if pipeline.type == "async_umma" and not leader else 1
        return 32 * warps * factor, f"32 threads x {why}" + (f" x {factor} CTAs" if factor > 1 else "")
    if "task_warp_leader" in (pipeline.producer_signaling or "") or pipeline.type == "peer_async":
        return len(parties), _count(len(parties), "task that arms the barrier", "tasks that arm the barrier")
    warps, why = _warps(parties, lane, u, resource.name, producer=True)
    return warps, f"{why} that {'arms' if warps == 1 else 'arm'} the barrier"


def _leaders(kernel: Kernel, u: Uses, resource: Resource) -> int:
    """Pairs of CTAs whose MMAs read what this CTA's pair loads: those along the axes of multicasts; pairs lie along the
    first axis."""
    axes = u.multicast.get(resource.name, set())
    first = kernel.launch.axes[0]
    along_first = max(1, first.cluster // 2) if first.name in axes else 1
    return along_first + sum(a.cluster - 1 for a in kernel.launch.axes[1:] if a.name in axes)


def _consumers(
    u: Uses, resource: Resource, pipeline: Pipeline, by: Signal, pair: int, shared: int, leaders: int
) -> tuple[int, str]:
    if by == "umma":
        return leaders, "one MMA commit" if leaders == 1 else f"MMA commits of {leaders} CTAs"
    parties = u.parties(resource.name, "release")
    if not parties:
        return 1, "one consumer"
    warps, why = _warps(parties, pipeline.interleave_stride[RELEASE], u, resource.name, producer=False)
    leader = "cta_leader" in (pipeline.consumer_signaling or "")
    factor = (1 if leader else pair) if pipeline.type == "umma_async" else shared
    return warps * factor, why + (f" x {factor} CTAs" if factor > 1 else "")


def _warps(parties: list[Party], stride: int, u: Uses, resource: str, *, producer: bool) -> tuple[int, str]:
    """Warps that arrive in one phase. Lanes of a strided ring and tasks that `skip` each other's stages take turns."""
    if stride > 1:
        if any(i.num_warps == stride for _, i in parties):
            return 1, "1 warp of each lane"
        lane = max(1, len(parties) // stride)
        warps = sum(i.num_warps for _, i in parties[:lane])
        return warps, f"{_count(warps, 'warp', 'warps')} of each lane"
    skipping = [] if producer else u.parties(resource, "skip")
    turns = [i.num_warps for t, i in parties if _in(skipping, t.name, i.index)]
    steady = sum(i.num_warps for t, i in parties if not _in(skipping, t.name, i.index))
    warps = steady + max(turns, default=0)
    names = ", ".join(dict.fromkeys(t.name for t, _ in parties))
    note = f" (of {names}, in turn)" if len(turns) > 1 else f" (of {names})" if len(parties) > 1 else ""
    return warps, _count(warps, "warp", "warps") + note


def _clc(kernel: Kernel, u: Uses, resource: Resource) -> Arrivals:
    """Every task releases each response at rank 0's barrier, from every CTA it runs in."""
    ctas = cluster_size(kernel)
    pair = 2 if u.pair else 1
    parts, total = [], 0
    for task, instance in u.parties(resource.name, "release"):
        n = 1 if isinstance(task.cta, int) else ctas // pair if task.cta == "leader" else ctas
        total += instance.num_warps * n
        parts.append(f"{task.name} {_count(instance.num_warps, 'warp', 'warps')}" + (f" x {n} CTAs" if n > 1 else ""))
    assert resource.pipeline is not None
    why = " + ".join(parts) or "no task"
    empty, why, by = _written(resource.pipeline.consumer_group, max(1, total), why, "warp")
    return Arrivals(1, empty, "one arming for each response", why, "arm", by)


def transaction_bytes(kernel: Kernel, u: Uses, resource: Resource) -> int:
    """Bytes that one arming of a stage announces: those written between acquire and commit; 0 without transactions.

    The full barrier that a `fork` shares announces the bytes of all its members' works. A pair of CTAs counts at its
    leader. Where brackets differ the first is taken; the verifier compares the others with it.
    """
    pipeline = resource.pipeline
    assert pipeline is not None
    if not PIPELINES[pipeline.type].counts_bytes:
        return 0
    if pipeline.type == "clc_fetch_async":
        return CLC_BYTES
    members: Iterable[str] = (resource.name,)
    for group in kernel.groups.values():
        if group.mode == "fork" and resource.name in group.members:
            members = group.members
    pair = 2 if resource.name in u.pair and pipeline.type == "tma_umma" else 1
    found = sum(_bracket(u, m) for m in members)
    if not found and pipeline.num_bytes is not None:
        return pipeline.num_bytes  # works without code: nothing to derive it from
    return pair * (found or sum(stage_bytes(kernel, f) for f in resource.fields.values() if f.view is None))


def _bracket(u: Uses, resource: str) -> int:
    for brackets in u.bracket_bytes.get(resource, {}).values():
        for n, _ in brackets:
            if n:
                return n
    return 0


def _in(parties: list[Party], name: str, index: int) -> bool:
    return any(t.name == name and i.index == index for t, i in parties)


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
