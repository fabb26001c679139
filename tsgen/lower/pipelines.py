"""Pipelines: their creation in the setup, the positions a task keeps, and the steps acquire, commit, wait, release."""

from __future__ import annotations

from typing import Literal

from tsgen.lower.context import Builder, TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.smem import element_bytes
from tsgen.model.expr import Const
from tsgen.model.kernel import Resource
from tsgen.model.ops import accesses, copies
from tsgen.model.steps import CallStep, DomainLoop, Guard, Skippable, StaticFor, StaticIf, Step, TileLoop, When, calls

Side = Literal["producer", "consumer"]
OPEN = {"producer": "acquire", "consumer": "wait"}
CLOSE = {"producer": "commit", "consumer": "release"}
EMITTED = ("tma_async", "async_async")


def pipelined(b: Builder) -> list[Resource]:
    """Resources whose pipelines this module creates."""
    return [r for r in b.kernel.resources.values() if r.pipeline is not None and r.kind != "work_queue"]


def creation(b: Builder, r: Resource) -> Statement:
    """The statement of the setup that makes a pipeline's barriers and object."""
    p = r.pipeline
    assert p is not None
    if p.type not in EMITTED:
        refuse(f"a pipeline of type {p.type} on {b.kernel.target}", p.spans.get("type", p.span))
    if r.name in {m for g in b.kernel.groups.values() for m in g.members}:
        refuse("pipeline groups", r.span)
    if p.interleave_stride != (1, 1, 1, 1):
        refuse("interleave_stride", p.spans.get("interleave_stride", p.span))
    if p.producer_signaling not in (None, "all"):
        refuse("producer_signaling", p.spans.get("producer_signaling", p.span))
    arrivals = b.derived.arrivals[r.name]
    scope = Scope(b.kernel.env, b.constants)
    stages = py(p.stages, scope)
    upper = r.name.upper()
    values: dict[str, object] = {
        "name": pipeline_name(b, r.name),
        "stages": stages,
        "barriers": f"{r.name}_barriers",
        "type": p.type,
        "full": arrivals.full,
        "empty": b.constant(
            f"{upper}_ARRIVALS", str(arrivals.empty), f"releases of one stage of {r.name}: {arrivals.why_empty}"
        ),
    }
    if p.type == "tma_async":
        values["bytes"] = b.constant(f"{upper}_BYTES", _bytes_text(b, r), f"one stage of {r.name}")
        shared = [a for a in b.kernel.launch.axes if a.cluster > 1]
        if b.derived.peers.get(r.name, 1) > 1:
            if len(shared) > 2:
                refuse("multicast in clusters of three axes", p.span)
            sizes = [
                py(a.cluster_expr, scope) if a.cluster_expr != Const(a.cluster) else str(a.cluster) for a in shared
            ]
            values["cluster"] = (sizes[0], sizes[1] if len(sizes) > 1 else "1")
            values["multicast"] = _multicast_mode(b, r, [a.name for a in shared])
    return Statement("setup/pipeline", values, b.note(p.span.line, f"{r.name}: {p.type}"))


def _multicast_mode(b: Builder, r: Resource, shared: list[str]) -> tuple[int, int]:
    """Which rows and columns of the cluster share boxes: (1, 0) = CTAs of equal m, (0, 1) = CTAs of equal n."""
    axes = {c.multicast for w in r.works.values() if w.op == "tma_load" for c in copies(w)}
    along_first = shared[0] in axes
    along_second = len(shared) > 1 and shared[1] in axes
    return int(along_second), int(along_first)


def _bytes_text(b: Builder, r: Resource) -> str:
    """Transaction bytes of one stage as a product over the fields' constants, if that is what they are."""
    scope = Scope(b.kernel.env, b.constants)
    total = b.derived.tx_bytes[r.name]
    by_width: dict[int, list[str]] = {}
    count = 0
    for f in r.fields.values():
        if f.view is not None:
            continue
        width = element_bytes(b, f.dtype)
        product = " * ".join(_factor(py(d, scope)) for d in f.dims)
        by_width.setdefault(width, []).append(product)
        n = width
        for x in f.shape:
            n *= x
        count += n
    if count != total or not by_width:
        return str(total)
    parts = []
    for width, products in by_width.items():
        inner = " + ".join(products)
        parts.append(f"({inner}) * {width}" if len(products) > 1 else f"{inner} * {width}")
    return " + ".join(parts)


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text


def pipeline_name(b: Builder, resource: str) -> str:
    """The pipeline object's name in the kernel: the resource's."""
    key = f"pipeline:{resource}"
    if key not in b.scalars:
        b.scalars[key] = b.names.new(resource)
    return b.scalars[key]


def state(s: TaskState, resource: str, step: str) -> str:
    """The pipeline state that a step of this task uses: one for both ends of a simple bracket, else one for each."""
    side: Side = "producer" if step in ("acquire", "commit", "try_acquire") else "consumer"
    simple = is_simple(s, resource, side)
    at = {"try_acquire": "acquire", "try_wait": "wait"}.get(step, step)
    position = ("state" if not both_sides(s, resource) else side) if simple else at
    key = (resource, position)
    if key not in s.states:
        name = s.names.new(f"{resource}_{position}")
        s.states[key] = name
        user = "Producer" if side == "producer" else "Consumer"
        p = s.builder.kernel.resources[resource].pipeline
        assert p is not None
        stages = py(p.stages, Scope(s.builder.kernel.env, s.builder.constants))
        text = f"pipeline.make_pipeline_state(pipeline.PipelineUserType.{user}, {stages})"
        s.prelude[("state", *key)] = Statement("setup/assign", {"name": name, "text": text})
    return s.states[key]


def both_sides(s: TaskState, resource: str) -> bool:
    """Whether the task produces and consumes the resource."""
    methods = {c.method for c in calls(s.task.schedule.steps) if c.target == resource and c.kind == "pipeline"}
    return bool(methods & {"acquire", "commit"}) and bool(methods & {"wait", "release"})


def is_simple(s: TaskState, resource: str, side: Side) -> bool:
    """Whether opens and closes of a side alternate in this task: open, close, open, close, whatever the conditions."""
    key = (resource, side)
    if key not in s.simple:
        uses = {c.method for c in calls(s.task.schedule.steps) if c.target == resource and c.kind == "pipeline"}
        skips = "skip" in uses and side == "consumer"
        s.simple[key] = not skips and _lag(s.task.schedule.steps, resource, OPEN[side], CLOSE[side], 0) == 0
    return s.simple[key]


def _lag(steps: tuple[Step, ...], resource: str, opens: str, closes: str, lag: int) -> int | None:
    """Open brackets after the steps, or None if they do not strictly alternate."""
    for x in steps:
        if isinstance(x, CallStep):
            if x.target == resource and x.kind == "pipeline":
                if x.method == opens:
                    lag += 1
                elif x.method == closes:
                    lag -= 1
                if lag not in (0, 1):
                    return None
            continue
        if isinstance(x, StaticIf):
            both = {_lag(x.body, resource, opens, closes, lag), _lag(x.orelse, resource, opens, closes, lag)}
            after = both.pop() if len(both) == 1 else None
        else:
            after = _lag(x.body, resource, opens, closes, lag)
            if isinstance(x, DomainLoop | TileLoop | Skippable | Guard | When | StaticFor) and after != lag:
                return None
        if after is None:
            return None
        lag = after
    return lag


def step(s: TaskState, c: CallStep) -> list[Statement]:
    """The statements of a pipeline step."""
    b = s.builder
    name = pipeline_name(b, c.target)
    note = s.note(c)
    match c.method:
        case "try_acquire" | "try_wait":
            side = "acquire" if c.method == "try_acquire" else "wait"
            token = s.names.new(f"{c.target}_{'free' if side == 'acquire' else 'ready'}")
            s.tokens_of_try[(c.target, side)] = token
            tried = {"pipeline": name, "state": state(s, c.target, c.method), "token": token}
            return [Statement(f"pipelines/{c.method}", tried, note)]
        case "acquire" | "wait":
            st = state(s, c.target, c.method)
            token_text = s.tokens_of_try.pop((c.target, c.method), None)
            side_name: Side = "producer" if c.method == "acquire" else "consumer"
            out = [Statement(f"pipelines/{c.method}", {"pipeline": name, "state": st, "token": token_text}, note)]
            if is_simple(s, c.target, side_name):
                s.stages[(c.target, side_name)] = f"{st}.index"
            else:
                stage = s.stages.get((c.target, side_name))
                if stage is None or stage.endswith(".index"):
                    stage = s.names.new(
                        f"{c.target}_stage" if not both_sides(s, c.target) else f"{c.target}_{c.method}_stage"
                    )
                    s.stages[(c.target, side_name)] = stage
                out.append(Statement("pipelines/advance", {"state": st, "stage": stage}))
            return out
        case "commit" | "release":
            st = state(s, c.target, c.method)
            generic = c.method == "release" and reads_generically(s, c.target)
            p = b.kernel.resources[c.target].pipeline
            assert p is not None
            values: dict[str, object] = {"pipeline": name, "state": st, "sync_warp": generic and p.type == "tma_async"}
            return [Statement(f"pipelines/{c.method}", values, note)]
    refuse(f"the step `{c.text}`", c.span)


def reads_generically(s: TaskState, resource: str) -> bool:
    """Whether threads of this task read the resource's stages themselves: then a warp syncs before a lane releases."""
    for c in calls(s.task.schedule.steps):
        w = s.builder.kernel.work(c.target, c.method) if c.kind == "work" else None
        if w is not None and any(
            a.ref.resource == resource and a.engine == "generic" and a.mode == "read" for a in accesses(w)
        ):
            return True
    return False


def drain(s: TaskState) -> list[Statement]:
    """Producer tails: no CTA leaves while a peer may still arrive at its barriers."""
    out = []
    for (resource, position), st in s.states.items():
        produces = any(c.target == resource and c.method == "acquire" for c in calls(s.task.schedule.steps))
        remote = s.builder.derived.peers.get(resource, 1) > 1
        if position in ("acquire", "state", "producer") and produces and remote:
            out.append(Statement("pipelines/tail", {"pipeline": pipeline_name(s.builder, resource), "state": st}))
    return out
