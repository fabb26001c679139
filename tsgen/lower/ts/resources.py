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
from tsgen.lower.tmem_works import cta_group
from tsgen.lower.ts.program import base
from tsgen.lower.ts.tasks import pinned_ctas
from tsgen.lower.ts.walk import Walk
from tsgen.model.kernel import Pipeline, Resource
from tsgen.model.steps import CallStep, calls

_TYPES = {
    "tma_async": "TmaAsync",
    "async_async": "AsyncAsync",
    "tma_umma": "TmaUmma",
    "async_umma": "AsyncUmma",
    "umma_async": "UmmaAsync",
    "umma_umma": "UmmaUmma",
    "clc_fetch_async": "ClcFetchAsync",
}
_CLUSTERED = ("tma_umma", "umma_async", "async_umma", "umma_umma", "clc_fetch_async")  # TS asks for the cluster
_BY_THREAD = ("umma_async", "clc_fetch_async")
_GROUP_MODES = {"merge": "Merge", "fork": "Fork", "fused_merge": "FusedMerge"}


def config(b: Builder, r: Resource, walks: Iterable[Walk]) -> list[str]:
    """The arguments of a ring's PipelineConfig."""
    p = r.pipeline
    assert p is not None
    kind = producer_kind(b, r.name)
    values = _values(b, r, p)
    group = "pipeline.CooperativeGroup(pipeline.Agent.Thread, {})"
    args = [
        f"pipeline_type=PipelineType.{_type(b, r, p)}",
        f"num_stages={values['stages']}",
        f"num_bytes={stage_bytes(b, r.name) if kind == 'peer' else values['bytes'] or 0}",
        f"producer_group={group.format(values['full'])}",
        f"consumer_group={group.format(_releases(b, r, p, values))}",
    ]
    layout = cluster_layout(b, r)
    if layout is not None:
        args.append(f"cta_layout_vmnk={layout}")
    if kind == "peer" or "multicast" in values:
        args.append(f"mcast_mode_mn={values.get('multicast', (0, 1))}")
    args += _signals(b, r, p)
    if kind == "cp_async":
        which = "umma_consumer_producer_op" if p.type == "async_umma" else "async_producer_op"
        args.append(f"{which}=pipeline.PipelineOp.AsyncLoad")
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


def _releases(b: Builder, r: Resource, p: Pipeline, values: Mapping[str, object]) -> str:
    """Arrivals that empty a stage. Where CuTe elects a lane of each warp, TS arrives with all of them, but for TMA."""
    arrivals = b.derived.arrivals[r.name]
    if arrivals.empty_by == "umma":
        return str(arrivals.empty)
    if lane_releases(b, r.name) is not None:
        return "1"
    return f"32 * {values['empty']}" if arrivals.empty_by == "warp" and p.type in _BY_THREAD else str(values["empty"])


def _type(b: Builder, r: Resource, p: Pipeline) -> str:
    """A peer_async ring is one of TMA whose bytes come from peers, or, without peers, one of threads."""
    if p.type == "peer_async":
        return "TmaAsync" if producer_kind(b, r.name) == "peer" else "AsyncAsync"
    return _TYPES[p.type]


def cluster_layout(b: Builder, r: Resource) -> str | None:
    """The CTAs that a ring's barriers speak to as TS has them: of an MMA's pair, rows, columns. None: to one alone."""
    if producer_kind(b, r.name) == "peer":
        return f"(1, {_peers(b, r)}, 1, 1)"
    p = r.pipeline
    assert p is not None
    layout = _values(b, r, p).get("vmnk")
    if layout is not None:
        return str(layout).replace("((", "(").replace(",), ", ", ")  # TS has the CTAs of a pair as a number
    return "(1, 1, 1, 1)" if _wants_a_cluster(b, r) and b.cluster_ctas == 1 else None


def _wants_a_cluster(b: Builder, r: Resource) -> bool:
    """Whether TS wants to know the CTAs of a cluster, for the ring or another of its group."""
    group = group_of(b, r.name)
    rings = [b.kernel.resources[m].pipeline for m in group.members] if group is not None else [r.pipeline]
    return any(p is not None and p.type in _CLUSTERED for p in rings)


def speaks_to_itself(b: Builder, resource: str) -> bool:
    """Whether a ring stays within its CTA though TS wants to know the CTAs of a cluster, and the same for all rings."""
    r = b.kernel.resources.get(resource)
    return r is not None and r.pipeline is not None and _wants_a_cluster(b, r) and cluster_layout(b, r) is None


def _signals(b: Builder, r: Resource, p: Pipeline) -> list[str]:
    """Who arrives: one warp for all of a task, or one CTA for those of a cluster."""
    group = group_of(b, r.name)
    targets = (r.name, group.name if group is not None else r.name)

    def in_one_cta(*methods: str) -> bool:
        tasks = [t for t in b.kernel.tasks if any(_is(c, targets, methods) for c in calls(t.schedule.steps))]
        return any(pinned_ctas(b, t) for t in tasks)

    args = []
    leader = producer_kind(b, r.name) == "peer" or "task_warp_leader" in (p.producer_signaling or "")
    words = ["CtaLeader"] if in_one_cta("acquire", "commit") else []
    words += ["TaskWarpLeader"] if leader else []
    if words:
        args.append(f"producer_signaling_threads={' | '.join(f'SignalingThreads.{w}' for w in words)}")
    routed = p.type in ("tma_umma", "tma_async") and in_one_cta("wait", "release")
    if routed:
        args.append("consumer_signaling_threads=SignalingThreads.CtaLeader")
    if leader or routed:
        args.append(f"num_bytes_per_warp_per_cta={_warp_bytes(b, r, p, cta_group(b.kernel) if routed else 1)}")
    return args


def _is(c: CallStep, targets: tuple[str, ...], methods: tuple[str, ...]) -> bool:
    return c.target in targets and c.method in methods


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


def _peers(b: Builder, r: Resource) -> str:
    """The CTAs that store into each other's stages: all of the cluster, which TS takes for a column of it."""
    axis = peers_axis(b, r.name)
    others = [a for a in b.kernel.launch.axes if a.cluster > 1 and a.name != axis]
    if axis is None or others:
        refuse(f"stores of `{r.name}` to a part of the cluster, in TS", r.span)
    return peer_count(b, axis)


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


def _warp_bytes(b: Builder, r: Resource, p: Pipeline, ctas: int) -> int:
    """The bytes of one stage that one warp of one CTA loads, where a leader announces those of all."""
    warps = ctas * sum(
        i.num_warps
        for t in b.kernel.tasks
        for i in t.instances
        if any(c.target == r.name and c.method == "commit" for c in calls(t.schedule.steps))
    )
    total = b.derived.tx_bytes[r.name]
    if total % max(1, warps):
        refuse(f"{total} bytes by {warps} warps in TS", p.span, "TS wants every warp to load the same number of bytes")
    return total // max(1, warps)


def instances(b: Builder, walks: list[Walk], names: dict[str, str], class_names: dict[str, str]) -> list[Statement]:
    """The statements that make the resources of shared memory, groups last."""
    out = []
    for r in b.kernel.resources.values():
        for owner in [n for n in names if base(n) == r.name] if r.pipeline is not None else []:
            assert r.pipeline is not None
            if owner == r.name and r.each is not None:
                continue  # all instances in turn, in a schedule
            grouped = any(r.name in g.members for g in b.kernel.groups.values())
            at = "" if owner == r.name else f" + {2 * r.pipeline.num_stages * int(owner[len(r.name) + 1 : -1])}"
            barriers = [] if grouped else [f"barrier_ptr=held.{r.name}_barriers{at}"]
            values = {
                "name": names[owner],
                "label": owner,
                "cls": class_names.get(r.name, "Resource"),
                "config": [*config(b, r, walks), *barriers],
            }
            note = b.note(r.pipeline.span.line, f"{owner}: {r.pipeline.type}")
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
