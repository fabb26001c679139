"""`resources`: storage, pipelines and queues. Works are resolved in works.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, cast

from tsgen.diagnostics import Related, Span
from tsgen.model.algebra import prune
from tsgen.model.expr import Const, Expr, IfElse, Name, Ref, text
from tsgen.model.kernel import SCHEDULERS, Field, Pipeline, Queue, Resource, ResourceKind, Scheduler, Symbol, Work
from tsgen.model.methods import ENGINES
from tsgen.model.pipelines import PIPELINES
from tsgen.model.targets import SM100
from tsgen.spec import rules_names, rules_parts
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode, Node
from tsgen.spec.parse import parse_expr
from tsgen.spec.resolve.context import Context, Head, mapping, show, string
from tsgen.spec.resolve.raster import resolve_raster
from tsgen.spec.resolve.refs import Scope, bind_ref
from tsgen.spec.resolve.tensors import dtype_of
from tsgen.spec.rules_expr import expression_value

MAX_STAGES = 1024


def spans_of(node: MapNode) -> dict[str, Span]:
    """The places of the values of a mapping's keys."""
    return {key: value.span for key, _, value in node.items()}


def resource_heads(ctx: Context) -> None:
    """Declares the resources and finds out which fields they have."""
    for name, span, node in mapping(ctx.root.get("resources")).items():
        assert isinstance(node, MapNode)
        if name in ENGINES:
            ctx.add(rules_names.reserved_name(name, "a resource", span))
        ctx.declare(Symbol(name, "resource", "compile", span))
        if not ctx.present(node):
            ctx.absent[name] = "resource"
            continue
        with ctx.catching():
            _head(ctx, name, span, node)
    for head in ctx.resources.values():
        _views(ctx, head)


def _head(ctx: Context, name: str, span: Span, node: MapNode) -> None:
    kind = cast(ResourceKind, string(node.get("kind")))
    fields: dict[str, tuple[Expr, ...]] = {}
    absent = set()
    for field, _, spec in mapping(node.get("storage")).items():
        if not ctx.present(spec):
            absent.add(field)
            continue
        shape = mapping(spec).get("shape")
        with ctx.catching():
            fields[field] = () if shape is None else tuple(_dim(ctx, n) for n in cast(ListNode, shape).items)
    pipelined = node.get("pipeline") is not None
    if kind == "work_queue" and pipelined:  # the ring of answers, where the hardware answers
        pipelined = _scheduler(ctx, node) == "clc_dynamic"
    ctx.resources[name] = Head(name, kind, ctx.each(node), fields, frozenset(absent), pipelined, node, span)


def _dim(ctx: Context, node: Node) -> Expr:
    return prune(ctx.parse(node), ctx.env)


def _views(ctx: Context, head: Head) -> None:
    """Gives each `view` the dims of the field it shows."""
    fields = cast(dict[str, tuple[Expr, ...]], head.fields)
    for name, _, spec in mapping(head.node.get("storage")).items():
        if name in fields and (node := mapping(spec).get("view")) is not None:
            with ctx.catching():
                source = _source(ctx, head, node)
                fields[name] = ctx.resources[source.resource or ""].fields[source.name]


def _source(ctx: Context, head: Head, node: Node) -> Ref:
    """The field that a view shows. Raises SpecError."""
    ref = bind_ref(ctx, node, Scope("a view", "step", _each_scope(head)))
    assert isinstance(ref.expr, Ref)
    r = ref.expr
    source = ctx.resources.get(r.resource or "")
    if source is None or source is head or source.kind != head.kind or r.window is not None or r.transposed:
        reason = f"expected `resource.field`, a whole field of another {head.kind} resource"
        raise SpecError(rules_parts.view_source(text(r), reason, node.span))
    if mapping(mapping(source.node.get("storage")).get(r.name)).get("view") is not None:
        raise SpecError(rules_parts.view_source(text(r), "it is a view itself", node.span))
    own, other = _stages(ctx, head), _stages(ctx, source)
    if own != other:
        reason = f"`{source.name}` has {other or 'no'} stages, `{head.name}` has {own or 'no'}"
        related = tuple(
            Related(f"the stages of `{h.name}`", n.span)
            for h in (source, head)
            if (n := mapping(h.node.get("pipeline")).get("num_stages")) is not None
        )
        raise SpecError(rules_parts.view_source(text(r), reason, node.span, related))
    return r


def _stages(ctx: Context, head: Head) -> int | None:
    """The number of stages of a resource's pipeline. Raises SpecError."""
    node = mapping(head.node.get("pipeline")).get("num_stages")
    return None if node is None else ctx.integer(node, low=1, high=MAX_STAGES)


def _each_scope(head: Head) -> Mapping[str, Literal["compile"]]:
    return {} if head.each is None else {head.each.var: "compile"}


def resolve_resource(ctx: Context, head: Head, works: Mapping[str, Work]) -> Resource:
    """The resource of a head. Raises SpecError."""
    node = head.node
    if head.kind == "tmem" and ctx.target not in SM100:
        ctx.add(rules_parts.needs_target("tensor memory", SM100, ctx.target, node.key_span("kind")))
    if head.kind in ("smem", "tmem") and not head.fields and not head.absent_fields and not head.pipelined:
        ctx.add(rules_parts.empty_resource(head.name, head.kind, head.span))
    fields: dict[str, Field] = {}
    for name, span, spec in mapping(node.get("storage")).items():
        if name in head.fields:
            ctx.local_name(name, "a field", span, field=True)
            with ctx.catching():
                fields[name] = _field(ctx, head, name, span, mapping(spec))
    pipeline = None
    if head.pipelined and (p := node.get("pipeline")) is not None:
        pipeline = resolve_pipeline(ctx, mapping(p), head.kind, node.key_span("pipeline"))
    queue = _queue(ctx, node, pipeline) if head.kind == "work_queue" else None
    threads = None if (n := node.get("threads")) is None else ctx.integer(n, low=1)
    doc = None if (n := node.get("doc")) is None else string(n)
    return Resource(
        head.name, head.kind, head.each, fields, pipeline, works, queue, threads, doc, head.span, spans_of(node)
    )


def _field(ctx: Context, head: Head, name: str, span: Span, spec: MapNode) -> Field:
    if (view := spec.get("view")) is not None:
        ref = _source(ctx, head, view)
        source = ctx.resources[ref.resource or ""]
        shown = _field(ctx, source, ref.name, span, mapping(mapping(source.node.get("storage")).get(ref.name)))
        return replace(shown, name=name, owner=head.name, view=ref, span=span, spans=spans_of(spec))
    shape_node, dtype_node = spec.get("shape"), spec.get("dtype")
    assert isinstance(shape_node, ListNode) and dtype_node is not None
    shape = tuple(ctx.integer(n, low=1) for n in shape_node.items)

    def number(key: str) -> int | None:
        return None if (n := spec.get(key)) is None else ctx.integer(n, low=0)

    swizzle, major, align, columns = (number(k) for k in ("swizzle", "major", "align", "columns"))
    if swizzle is not None and swizzle not in (0, 32, 64, 128):
        raise SpecError(rules_parts.swizzle_value(swizzle, spec.entries["swizzle"].node.span))
    if major is not None and major >= len(shape):
        raise SpecError(rules_parts.major_range(major, len(shape), spec.entries["major"].node.span))
    if align is not None and (align < 1 or align & (align - 1)):
        raise SpecError(rules_parts.power_of_two("align", align, spec.entries["align"].node.span))
    rowwise = (n := spec.get("rowwise")) is not None and ctx.boolean(n)
    for key in ("swizzle", "columns", "rowwise"):
        if key in spec.entries and (key, head.kind) not in (
            ("swizzle", "smem"),
            ("columns", "tmem"),
            ("rowwise", "rmem"),
        ):
            ctx.add(rules_parts.field_option(key, head.kind, spec.key_span(key)))
    return Field(
        name,
        head.name,
        dtype_of(ctx, dtype_node),
        head.fields[name],
        shape,
        swizzle,
        major,
        align,
        columns,
        rowwise,
        None,
        span,
        spans_of(spec),
    )


def resolve_pipeline(ctx: Context, node: MapNode, kind: str, span: Span) -> Pipeline:
    """A `pipeline` mapping. Raises SpecError."""
    type_node, stages = node.get("type"), node.get("num_stages")
    name = "clc_fetch_async" if type_node is None and kind == "work_queue" else string(type_node)
    entry = PIPELINES[name]
    if type_node is not None and ctx.target not in entry.targets:
        ctx.add(rules_parts.needs_target(f"a `{name}` pipeline", entry.targets, ctx.target, node.key_span("type")))
    if kind not in entry.kinds:
        ctx.add(rules_parts.pipeline_kind(name, kind, entry.kinds, node.key_span("type")))
    assert stages is not None

    def number(key: str) -> int | None:
        return None if (n := node.get(key)) is None else ctx.integer(n, low=0 if key == "num_bytes" else 1)

    def word(key: str) -> str | None:
        return None if (n := node.get(key)) is None else string(n)

    def flag(key: str) -> bool | None:
        return None if (n := node.get(key)) is None else ctx.boolean(n)

    count = ctx.integer(stages, low=1, high=MAX_STAGES)
    strides = _strides(ctx, node, count)
    if strides != (1, 1, 1, 1) and not entry.interleaves:
        ctx.add(rules_parts.no_interleaving(name, node.key_span("interleave_stride")))
    return Pipeline(
        name,
        count,
        ctx.parse(stages),
        number("num_bytes"),
        number("num_bytes_per_warp_per_cta"),
        number("producer_group"),
        number("consumer_group"),
        word("producer_signaling"),
        word("consumer_signaling"),
        word("consumer_wait_signaling"),
        flag("advance_on_wait"),
        flag("advance_on_acquire"),
        strides,
        span,
        spans_of(node),
    )


def _strides(ctx: Context, node: MapNode, stages: int) -> tuple[int, int, int, int]:
    written = node.get("interleave_stride")
    if written is None:
        return (1, 1, 1, 1)
    if isinstance(written, ListNode):
        if len(written.items) != 4:
            raise SpecError(rules_parts.stride_count(len(written.items), written.span))
        found = tuple(ctx.integer(n, low=1) for n in written.items)
    else:
        found = (ctx.integer(written, low=1),) * 4
    for name, stride in zip(("acquire", "commit", "wait", "release"), found, strict=True):
        if stages % stride:
            raise SpecError(rules_parts.stride_divides(name, stride, stages, written.span))
    return cast(tuple[int, int, int, int], found)


def _scheduler(ctx: Context, node: MapNode) -> Scheduler:
    """The scheduler of a queue: a word, or an expression that gives one. Raises SpecError."""
    written = node.get("scheduler")
    assert written is not None
    e = parse_expr(string(written), written.span)
    while isinstance(e, IfElse):
        e = e.then if ctx.value(ctx.words_in(e.condition), written.span) else e.other
    word = e.id if isinstance(e, Name) and e.id in SCHEDULERS else ctx.value(ctx.words_in(e), written.span)
    if word not in SCHEDULERS:
        reason = f"it is {show(word)}, `static_persistent` or `clc_dynamic` is wanted"
        raise SpecError(expression_value(string(written), reason, written.span))
    return word


def _queue(ctx: Context, node: MapNode, pipeline: Pipeline | None) -> Queue:
    scheduler = _scheduler(ctx, node)
    if scheduler == "clc_dynamic" and ctx.target not in SM100:
        ctx.add(rules_parts.needs_target("`clc_dynamic`", SM100, ctx.target, node.key_span("scheduler")))
    needless = string(node.get("scheduler")) == "static_persistent" and node.get("pipeline") is not None
    if needless or (scheduler == "clc_dynamic" and pipeline is None):
        ctx.add(rules_parts.queue_pipeline(scheduler, node.key_span("pipeline" if needless else "scheduler")))
    swizzle = node.get("swizzle")
    serpentine = (n := node.get("serpentine")) is not None and ctx.boolean(n)
    return Queue(
        scheduler,
        resolve_raster(ctx, node.get("raster")),
        1 if swizzle is None else ctx.integer(swizzle, low=1),
        Const(1) if swizzle is None else ctx.parse(swizzle),
        serpentine,
    )
