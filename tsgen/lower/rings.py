"""Rings of stages in the setup: each a pipeline of the DSL; for the members of a group plain mbarriers, some shared."""

from __future__ import annotations

from math import prod
from typing import Literal

from tsgen.derive.arrivals import COMMIT
from tsgen.derive.filling import copies as copies_of_threads
from tsgen.derive.filling import filled_by_copies
from tsgen.frozen import frozen
from tsgen.lower.clusters import peer_rank, peers_axis
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.instances import in_product
from tsgen.lower.positions import group_of
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import Scope, py, py_factor
from tsgen.lower.queue import cluster_text
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Const
from tsgen.model.kernel import Group, Pipeline, Resource
from tsgen.model.ops import copies
from tsgen.model.steps import calls

CLASSES = {  # of the DSL, by the types of pipeline that it has
    "tma_async": "PipelineTmaAsync",
    "async_async": "PipelineAsync",
    "peer_async": "PipelineAsync",
    "tma_umma": "PipelineTmaUmma",
    "umma_async": "PipelineUmmaAsync",
    "async_umma": "PipelineAsyncUmma",
    "clc_fetch_async": "PipelineClcFetchAsync",
}
CLUSTERED = ("tma_umma", "umma_async", "async_umma", "clc_fetch_async")  # types that speak to the CTAs of a cluster
Producer = Literal["tma", "cp_async", "async", "peer", "umma", "clc"]


@frozen
class Ring:
    """How code reaches the mbarriers of a pipelined resource: through `pipeline`, or as plain pointers.

    `full` and `empty` point to those of stage 0.
    """

    pipeline: str | None
    full: str
    empty: str
    stages: str = ""  # of one instance, as Python

    def full_barrier(self, state: str, instance: str | None = None) -> str:
        return (
            f"{self.pipeline}.producer_get_barrier({state})" if self.pipeline else self._at(self.full, state, instance)
        )

    def empty_barrier(self, state: str, instance: str | None = None) -> str:
        return (
            f"{self.pipeline}.consumer_get_barrier({state})" if self.pipeline else self._at(self.empty, state, instance)
        )

    def _at(self, first: str, state: str, instance: str | None) -> str:
        if instance is None:
            return f"{first} + {state}.index"
        if self.stages == "1":
            return f"{first} + {instance}"
        return f"{first} + {in_product(instance)} * {in_product(self.stages)} + {state}.index"


def ring(b: Builder, resource: str) -> Ring:
    """The names of a resource's barriers in the kernel."""
    g = group_of(b, resource)
    r = b.kernel.resources[resource]
    if g is None and r.pipeline is not None and is_plain(r):
        stages = py(r.pipeline.stages, Scope(b.kernel.env, b.constants))
        return Ring(None, _named(b, f"{resource}_full"), _named(b, f"{resource}_empty"), stages)
    if g is None:
        return Ring(_named(b, resource), f"{resource}_barriers", "")
    full = g.name if g.mode in ("fork", "fused_merge") else resource
    empty = g.name if g.mode in ("merge", "fused_merge") else resource
    return Ring(None, _named(b, f"{full}_full"), _named(b, f"{empty}_empty"))


def _named(b: Builder, wish: str) -> str:
    key = f"ring:{wish}"
    if key not in b.scalars:
        b.scalars[key] = b.names.new(wish)
    return b.scalars[key]


def creations(b: Builder) -> list[Statement]:
    """The statements that make all pipelines: those of resources, then those of groups."""
    resources = [r for r in b.kernel.resources.values() if r.pipeline is not None]
    for r in resources:
        assert r.pipeline is not None
        if is_plain(r) and (group_of(b, r.name) is not None or b.derived.pairs or b.derived.peers[r.name] > 1):
            what = "one of several rings" if r.each is not None else f"of type {r.pipeline.type}"
            refuse(f"`{r.name}`, {what}, in a group, with multicast or beside MMAs of two CTAs", r.span)
        _check_arming(b, r, r.pipeline)
    alone = [r for r in resources if group_of(b, r.name) is None]
    made = [_barriers(b, r) if is_plain(r) else creation(b, r, r.pipeline) for r in alone if r.pipeline is not None]
    return made + [_group(b, g) for g in b.kernel.groups.values()]


def _check_arming(b: Builder, r: Resource, p: Pipeline) -> None:
    """A stage's bytes are announced once: by the one warp of its producer, or by the leader among several."""
    if p.producer_signaling not in (None, "all", "task_warp_leader"):
        refuse(f"producer_signaling {p.producer_signaling}", p.spans.get("producer_signaling", p.span))
    for key in ("consumer_signaling", "consumer_wait_signaling"):
        if getattr(p, key) not in (None, "all"):
            refuse(f"{key} {getattr(p, key)}", p.spans.get(key, p.span))
    if b.derived.arrivals[r.name].full_by != "arm" or p.producer_signaling == "task_warp_leader":
        return
    if p.type == "peer_async":
        return
    for task in b.kernel.tasks:
        acquires = any(c.target == r.name and c.method == "acquire" for c in calls(task.schedule.steps))
        n = task.instances[0].num_warps
        if acquires and n > 1 and p.interleave_stride[COMMIT] != n:
            refuse(
                f"`{r.name}`, whose bytes each of the {n} warps of `{task.name}` would announce",
                p.span,
                "write `producer_signaling: task_warp_leader`, or give each warp its own lane with `interleave_stride`",
            )


def producer_kind(b: Builder, resource: str) -> Producer:
    """What arrives when a stage is full: bytes of TMA or of all peers, cp.async, an MMA's commit, or the threads that
    wrote it."""
    r = b.kernel.resources[resource]
    if r.pipeline is not None and r.pipeline.type == "peer_async":
        # without a second CTA st.async has no peer, and is no legal instruction: threads store and arrive
        return "peer" if b.derived.peers[resource] > 1 else "async"
    if r.pipeline is not None and r.pipeline.type == "clc_fetch_async":
        return "clc"
    if b.derived.arrivals[resource].full_by == "arm":
        return "tma"
    if b.derived.arrivals[resource].full_by == "umma":
        return "umma"
    if not filled_by_copies(r):
        return "async"
    if not all(copies_of_threads(w) for w in r.works.values() if w.role == "producer"):
        refuse(f"stages of `{resource}` that threads and cp.async fill", r.span, "fill a ring in one of the two ways")
    return "cp_async"


def empty_arrivals(b: Builder, resource: str, name: str) -> str:
    """The constant with the number of releases of a stage of a resource (of a group, `name`)."""
    arrivals = b.derived.arrivals[resource]
    comment = f"releases of one stage of {name}: {arrivals.why_empty}"
    return b.constant(f"{name.upper()}_ARRIVALS", str(arrivals.empty), comment)


def stage_bytes(b: Builder, resource: str) -> str:
    """The constant with the bytes that TMA writes to one stage of a resource."""
    text = _bytes_text(b, b.kernel.resources[resource])
    return b.constant(f"{resource.upper()}_BYTES", text, f"one stage of {resource}")


def creation(b: Builder, r: Resource, p: Pipeline) -> Statement:
    scope = Scope(b.kernel.env, b.constants)
    kind = producer_kind(b, r.name)
    values: dict[str, object] = {
        "name": ring(b, r.name).pipeline,
        "stages": py(p.stages, scope),
        "barriers": f"{r.name}_barriers",
        "count": f"2 * {py_factor(p.stages, scope)}",
        "class": "PipelineCpAsync" if kind == "cp_async" and p.type == "async_async" else CLASSES.get(p.type),
        "full": _full_arrivals(b, r, p, kind),
        "empty": None if _one_commit(b, r) else empty_arrivals(b, r.name, r.name),
        "bytes": stage_bytes(b, r.name) if kind in ("tma", "clc") else None,
    }
    if kind == "cp_async" and r.name in b.derived.pairs:
        refuse(f"`{r.name}`, filled by cp.async for the MMAs of two CTAs", p.span, "its arrivals reach one CTA")
    shared = [a for a in b.kernel.launch.axes if a.cluster > 1]
    axis = peers_axis(b, r.name)
    if r.name in b.derived.pairs or (kind == "clc" and b.cluster_ctas > 1):
        values |= _of_pairs(b, r, p)
    elif axis is not None and b.derived.peers.get(r.name, 1) > 1:
        values["released"] = peer_rank(b, axis, "cute.arch.lane_idx()")
    elif b.derived.peers.get(r.name, 1) > 1:
        if len(shared) > 2:
            refuse("multicast in clusters of three axes", p.span)
        sizes = [py(a.cluster_expr, scope) if a.cluster_expr != Const(a.cluster) else str(a.cluster) for a in shared]
        values["vmnk"] = f"(1, {sizes[0]}, {sizes[1] if len(sizes) > 1 else '1'}, 1)"
        values["multicast"] = _multicast_mode(r, [a.name for a in shared])
    return Statement("setup/pipeline", values, b.note(p.span.line, f"{r.name}: {p.type}"))


def _one_commit(b: Builder, r: Resource) -> bool:
    """Whether one MMA's commit frees a stage."""
    a = b.derived.arrivals[r.name]
    return a.empty_by == "umma" and a.empty == 1


def _of_pairs(b: Builder, r: Resource, p: Pipeline) -> dict[str, object]:
    """The CTAs of a cluster: those of an MMA's pair, then the pairs along the first axis, and along the second.

    An MMA's commit reaches the pairs that share boxes. Where none do it is said to reach those along an axis with one.
    """
    first, *others = b.kernel.launch.axes
    others = [a for a in others if a.cluster > 1]
    if len(others) > 1:
        refuse("MMAs of two CTAs in clusters of three axes", b.kernel.launch.span)
    pairs, second = first.cluster // 2, others[0].cluster if others else 1
    if pairs == second == 1:
        return {"vmnk": f"(({cluster_text(b, first)},), 1, 1, 1)"}
    values: dict[str, object] = {"vmnk": f"((2,), {pairs}, {cluster_text(b, others[0]) if others else '1'}, 1)"}
    if r.name not in b.derived.pairs or p.type != "tma_umma":
        return values
    modes = _multicast_mode(r, [first.name, *(a.name for a in others)])
    if modes == (0, 0):
        modes = (0, 1) if pairs == 1 else (1, 0) if second == 1 else modes
    if modes == (0, 0):
        refuse(f"`{r.name}` without multicast in clusters of {pairs}x{second} pairs", p.span)
    return {**values, "multicast": modes}


def is_plain(r: Resource) -> bool:
    """Whether a ring is reached as plain mbarriers: one of several, or of a type that the DSL has no pipeline for."""
    return r.pipeline is not None and (r.each is not None or r.pipeline.type not in CLASSES)


def _barriers(b: Builder, r: Resource) -> Statement:
    """The mbarriers of a ring, or of all instances of one: the full ones, then the empty ones."""
    assert r.pipeline is not None
    count = stages = py_factor(r.pipeline.stages, Scope(b.kernel.env, b.constants))
    if r.each is not None:
        count = str(r.each.count) if stages == "1" else f"{r.each.count} * {stages}"
    a, names = b.derived.arrivals[r.name], ring(b, r.name)
    empty = "1" if _one_commit(b, r) else empty_arrivals(b, r.name, r.name)
    comment = f"arrivals that fill one stage of {r.name}: {a.why_full}"
    full = "1" if a.full == 1 else b.constant(f"{r.name}_FILLED".upper(), str(a.full), comment)
    values = {
        "barriers": f"{r.name}_barriers",
        "count": f"2 * {count}",
        "stages": count,
        "names": [(names.full, f"{r.name}_barriers"), (names.empty, f"{r.name}_barriers + {count}")],
        "inits": [(names.full, full, ""), (names.empty, empty, "")],
    }
    several = f", for each {r.each.var} of {r.each.count}" if r.each is not None else ""
    note = b.note(r.pipeline.span.line, f"{r.name}: {r.pipeline.type}{several}")
    return Statement("setup/group", values, note)


def _full_arrivals(b: Builder, r: Resource, p: Pipeline, kind: Producer) -> int:
    """Arrivals that fill a stage: the derived ones, but of every storing thread where a peer ring has no peers."""
    if p.type != "peer_async" or kind == "peer":
        return b.derived.arrivals[r.name].full
    tasks = [
        t for t in b.kernel.tasks if any(c.target == r.name and c.method == "commit" for c in calls(t.schedule.steps))
    ]
    return sum(32 * i.num_warps for t in tasks for i in t.instances)


def _multicast_mode(r: Resource, shared: list[str]) -> tuple[int, int]:
    """Which rows and columns of the cluster share boxes: (1, 0) = CTAs of equal m, (0, 1) = CTAs of equal n."""
    axes = {c.multicast for w in r.works.values() if w.op == "tma_load" for c in copies(w)}
    along_first = shared[0] in axes
    along_second = len(shared) > 1 and shared[1] in axes
    return int(along_second), int(along_first)


def _group(b: Builder, g: Group) -> Statement:
    """The mbarriers of a group in the order of TS: full ones first; those that members share are there once.

    The counts are those of the steps: every member's producers arrive at a full barrier that a fused merge shares, and
    the tasks that release the group at its empty one (TS checks neither).
    """
    p = b.kernel.resources[g.members[0]].pipeline
    assert p is not None
    stages = py_factor(p.stages, Scope(b.kernel.env, b.constants))
    inits: dict[str, tuple[str, str]] = {}  # count, and why
    arrivals = {m: b.derived.arrivals[m] for m in g.members}
    for m, a in arrivals.items():
        inits.setdefault(ring(b, m).full, (str(a.full), "" if a.full == 1 else a.why_full))
    if g.mode == "fused_merge":
        why = ", ".join(f"{a.full} of {m}" for m, a in arrivals.items())
        inits = {name: (str(sum(a.full for a in arrivals.values())), why) for name in inits}
    for m in g.members:
        if b.derived.peers.get(m, 1) > 1:
            refuse(f"the group `{g.name}` over a ring with multicast", g.span)
        shared = g.mode in ("merge", "fused_merge")
        inits.setdefault(ring(b, m).empty, (empty_arrivals(b, m, g.name if shared else m), ""))
    barriers = f"{g.name}_barriers"
    places = [barriers, f"{barriers} + {stages}"] + [f"{barriers} + {i} * {stages}" for i in range(2, len(inits))]
    values = {
        "barriers": barriers,
        "count": f"{len(inits)} * {stages}",
        "stages": stages,
        "names": list(zip(inits, places, strict=False)),
        "inits": [(name, count, why) for name, (count, why) in inits.items()],
    }
    return Statement("setup/group", values, b.note(g.span.line, f"{g.name}: {g.mode} of {', '.join(g.members)}"))


def _bytes_text(b: Builder, r: Resource) -> str:
    """Transaction bytes of one stage as a product over the fields' constants, if that is what they are."""
    scope = Scope(b.kernel.env, b.constants)
    total = b.derived.tx_bytes[r.name]
    by_width: dict[int, list[str]] = {}
    count = 0
    for f in r.fields.values():
        if f.view is not None:
            continue
        bits = DTYPES[b.dtype_word(f.dtype)].bits
        by_width.setdefault(bits, []).append(" * ".join(_factor(py(d, scope)) for d in f.dims))
        count += bits * prod(f.shape)
    pair = 2 if r.name in b.derived.pairs else 1
    if count * pair != 8 * total or not by_width:
        return str(total)
    parts = []
    for bits, products in by_width.items():
        inner = " + ".join(products)
        unit = "" if bits == 8 else f" * {bits // 8}" if bits % 8 == 0 else f" * {bits} // 8"
        parts.append(f"({inner}){unit}" if unit and len(products) > 1 else f"{inner}{unit}")
    return " + ".join(parts) if pair == 1 else f"2 * ({' + '.join(parts)})"


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text
