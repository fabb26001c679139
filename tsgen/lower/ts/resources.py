"""Resources of the TS form: pipelines as TS's configurations say them, groups, and what depends on what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tsgen.derive.arrivals import RELEASE
from tsgen.lower.clusters import peer_count, peers_axis
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.positions import CLOSE, OPEN, Side, group_of, is_simple
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.rings import creation, empty_arrivals, producer_kind, stage_bytes
from tsgen.lower.ts.walk import Walk
from tsgen.model.kernel import Pipeline, Resource
from tsgen.model.steps import calls

# a peer_async ring is one of TMA whose bytes come from peers, or, without peers, one of threads
_TYPES = {"tma": "TmaAsync", "peer": "TmaAsync", "async": "AsyncAsync", "cp_async": "AsyncAsync"}
_GROUP_MODES = {"merge": "Merge", "fork": "Fork", "fused_merge": "FusedMerge"}


def config(b: Builder, r: Resource, walks: Iterable[Walk]) -> list[str]:
    """The arguments of a ring's PipelineConfig."""
    p = r.pipeline
    assert p is not None
    kind = producer_kind(b, r.name)
    values = _values(b, r, p)
    group = "pipeline.CooperativeGroup(pipeline.Agent.Thread, {})"
    args = [
        f"pipeline_type=PipelineType.{_TYPES[kind]}",
        f"num_stages={values['stages']}",
        f"num_bytes={stage_bytes(b, r.name) if kind == 'peer' else values['bytes'] or 0}",
        f"producer_group={group.format(values['full'])}",
        f"consumer_group={group.format(values['empty'] if lane_releases(b, r.name) is None else 1)}",
    ]
    cluster = _peers(b, r) if kind == "peer" else values.get("cluster")
    if cluster is not None:
        assert isinstance(cluster, tuple)
        args.append(f"cta_layout_vmnk=(1, {cluster[0]}, {cluster[1]}, 1)")
        args.append(f"mcast_mode_mn={values.get('multicast', (0, 1))}")
    if kind == "cp_async":
        args.append("async_producer_op=pipeline.PipelineOp.AsyncLoad")
    if kind == "peer" or "task_warp_leader" in (p.producer_signaling or ""):
        args.append("producer_signaling_threads=SignalingThreads.TaskWarpLeader")
        args.append(f"num_bytes_per_warp_per_cta={_warp_bytes(b, r, p)}")
    tasks = list(walks)
    if any(_runs_ahead(x, r.name, "consumer") for x in tasks):
        args.append("advance_on_wait=True")
    if any(_runs_ahead(x, r.name, "producer") for x in tasks):
        args.append("advance_on_acquire=True")
    if max(p.interleave_stride) > 1:
        _check_lanes(b, r, p)
        s = p.interleave_stride
        args.append(f"interleave_stride={s[0] if len(set(s)) == 1 else s}")
    return args


def _values(b: Builder, r: Resource, p: Pipeline) -> Mapping[str, object]:
    """Counts and bytes, under the constants that the CuTe form has for them."""
    g = group_of(b, r.name)
    if g is None:
        return creation(b, r, p).values
    shared = g.mode != "fork"
    return {
        "stages": py(p.stages, Scope(b.kernel.env, b.constants)),
        "full": b.derived.arrivals[r.name].full,
        "empty": empty_arrivals(b, r.name, g.name if shared else r.name),
        "bytes": stage_bytes(b, r.name) if producer_kind(b, r.name) == "tma" else None,
    }


def _peers(b: Builder, r: Resource) -> tuple[str, str]:
    """The CTAs that store into each other's stages, as the rows of a cluster: TS releases at all of a column.

    TS has CTAs in the order of their ranks, so those of the cluster must be these.
    """
    axis = peers_axis(b, r.name)
    others = [a for a in b.kernel.launch.axes if a.cluster > 1 and a.name != axis]
    if axis is None or others:
        refuse(f"stores of `{r.name}` to a part of the cluster, in TS", r.span)
    return peer_count(b, axis), "1"


def _runs_ahead(walk: Walk, ring: str, side: Side) -> bool:
    """Whether this task opens stages before it has closed those before, or leaves one of the two to another task."""
    b = walk.b
    group = group_of(b, ring)
    targets = (ring, group.name if group is not None else ring)
    methods = {c.method for c in calls(walk.task.schedule.steps) if c.target in targets}
    return bool(methods & {OPEN[side], CLOSE[side]}) and not is_simple(walk.s, ring, side)


def _check_lanes(b: Builder, r: Resource, p: Pipeline) -> None:
    span = p.spans.get("interleave_stride", p.span)
    for task in b.kernel.tasks:
        n = task.instances[0].num_warps
        used = {c.method for c in calls(task.schedule.steps) if c.target == r.name}
        strides = {
            m: p.interleave_stride[i] for i, m in enumerate(("acquire", "commit", "wait", "release")) if m in used
        }
        lanes = {m for m, s in strides.items() if s > 1}
        if any(strides[m] == n for m in lanes) and len(set(p.interleave_stride)) > 1:
            refuse(
                f"lanes of `{r.name}` for the warps of `{task.name}` and none on its other side, in TS",
                span,
                "TS counts the steps of all warps of a task once, and finds the two sides out of balance",
            )


def lane_releases(b: Builder, resource: str) -> str | None:
    """How often a stage is released where TS's check of a tma_async ring with lanes knows one release alone.

    TS takes a lane for a warp. Where a lane is a task of several warps each of them releases, in TS's code as in ours.
    """
    r = b.kernel.resources.get(resource)
    if r is None or r.pipeline is None or r.pipeline.interleave_stride[RELEASE] == 1:
        return None
    if producer_kind(b, resource) != "tma" or b.derived.arrivals[resource].empty == 1:
        return None
    return empty_arrivals(b, resource, resource)


def _warp_bytes(b: Builder, r: Resource, p: Pipeline) -> int:
    """The bytes of one stage that one warp loads, where a leader announces those of all."""
    warps = sum(
        i.num_warps
        for t in b.kernel.tasks
        for i in t.instances
        if any(c.target == r.name and c.method == "commit" for c in calls(t.schedule.steps))
    )
    total = b.derived.tx_bytes[r.name]
    if total % max(1, warps):
        refuse(f"{total} bytes by {warps} warps in TS", p.span, "TS wants every warp to load the same number of bytes")
    return total // warps


def instances(b: Builder, walks: list[Walk], names: dict[str, str], class_names: dict[str, str]) -> list[Statement]:
    """The statements that make the resources of shared memory, groups last."""
    out = []
    for r in b.kernel.resources.values():
        if r.name in names and r.pipeline is not None and r.kind != "work_queue":
            grouped = any(r.name in g.members for g in b.kernel.groups.values())
            barriers = [] if grouped else [f"barrier_ptr=held.{r.name}_barriers"]
            values = {
                "name": names[r.name],
                "label": r.name,
                "cls": class_names.get(r.name, "Resource"),
                "config": [*config(b, r, walks), *barriers],
            }
            note = b.note(r.pipeline.span.line, f"{r.name}: {r.pipeline.type}")
            out.append(Statement("ts/instance", values, note))
    for g in b.kernel.groups.values():
        if g.name in names:
            values = {
                "name": names[g.name],
                "label": g.name,
                "members": [names[m] for m in g.members],
                "mode": _GROUP_MODES[g.mode],
                "barriers": f"held.{g.name}_barriers",
            }
            out.append(Statement("ts/group", values, b.note(g.span.line, f"{g.name}: {g.mode}")))
    return out
