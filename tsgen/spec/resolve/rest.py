"""`groups`, `graph`, `memory` and `reference`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

from tsgen.diagnostics import Span
from tsgen.model.expr import Const, Expr, Index, Name, Placed, Ref, names
from tsgen.model.kernel import Alias, AliasMember, Each, Edge, Group, Memory, Reference, Symbol, Tensor
from tsgen.model.methods import ENGINES
from tsgen.model.targets import TARGETS
from tsgen.spec import rules_names, rules_parts
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode, Node, ScalarNode
from tsgen.spec.parse import parse_expr
from tsgen.spec.resolve.context import Chain, Context, mapping, string, strings
from tsgen.spec.resolve.resources import resolve_pipeline

Mode = Literal["merge", "fork", "fused_merge"]


def resolve_groups(ctx: Context) -> dict[str, Group]:
    """The pipeline groups. Members that are absent are dropped."""
    found: dict[str, Group] = {}
    taken: dict[str, Span] = {}
    for name, span, node in mapping(ctx.root.get("groups")).items():
        assert isinstance(node, MapNode)
        if name in ENGINES:
            ctx.add(rules_names.reserved_name(name, "a group", span))
        ctx.declare(Symbol(name, "group", "compile", span))
        members: list[str] = []
        for member, place in strings(node.get("members")):
            if member in ctx.absent:
                continue
            head = ctx.resources.get(member)
            if head is None:
                near = ctx.near(member, ctx.resources)
                ctx.add(rules_parts.unknown_entry(member, "resource", near, place))
            elif not head.pipelined or head.kind == "work_queue":
                reason = "a work queue cannot be grouped" if head.kind == "work_queue" else "it has no pipeline"
                ctx.add(rules_parts.group_member(member, reason, place))
            elif member in taken:
                ctx.add(rules_parts.group_member(member, "it is in a group already", place, taken[member]))
            else:
                taken[member] = place
                members.append(member)
        pipeline = None
        with ctx.catching():
            if (p := node.get("pipeline")) is not None:
                kind = ctx.resources[members[0]].kind if members else "smem"
                pipeline = resolve_pipeline(ctx, mapping(p), kind, node.key_span("pipeline"))
        mode = cast(Mode, string(node.get("mode")))
        found[name] = Group(name, mode, tuple(members), pipeline, span)
    return found


def resolve_graph(ctx: Context) -> tuple[tuple[Edge, ...], dict[str, Span]]:
    """The edges of the graph whose two ends are present, and the names that nothing flows into."""
    found: list[Edge] = []
    roots: dict[str, Span] = {}
    seen: dict[tuple[str, str], Span] = {}
    for downstream, span, node in mapping(ctx.root.get("graph")).items():
        known = _in_graph(ctx, downstream, span)
        for upstream, place in strings(node):
            if _in_graph(ctx, upstream, place) and known:
                if (upstream, downstream) in seen:
                    ctx.add(rules_parts.edge_twice(upstream, downstream, place, seen[upstream, downstream]))
                    continue
                seen[upstream, downstream] = place
                found.append(Edge(upstream, downstream, place))
        if known and not any(e.downstream == downstream for e in found):
            roots[downstream] = span
    return tuple(found), roots


def _in_graph(ctx: Context, name: str, span: Span) -> bool:
    """Whether a name of the graph is present; unknown names and those that never stand there are findings."""
    if name in ctx.absent:
        return False
    head = ctx.resources.get(name)
    if head is None and name not in ctx.tensors:
        ctx.add(
            rules_parts.unknown_entry(name, "resource or tensor", ctx.near(name, [*ctx.resources, *ctx.tensors]), span)
        )
        return False
    if head is not None and head.kind in ("work_queue", "barrier", "rmem"):
        ctx.add(rules_parts.not_in_graph(name, head.kind.replace("_", " "), span))
        return False
    return True


def resolve_memory(ctx: Context) -> Memory:
    """Aliases and capacities. Members that are absent are dropped, and phases without members with them."""
    node = mapping(ctx.root.get("memory"))
    smem, tmem = TARGETS[ctx.target].smem_bytes, Memory().tmem_capacity
    with ctx.catching():
        smem = smem if (n := node.get("smem_capacity")) is None else ctx.integer(n, low=0, high=smem)
        tmem = tmem if (n := node.get("tmem_capacity")) is None else ctx.integer(n, low=0, high=tmem)
    aliases = []
    for name, span, phases in mapping(node.get("alias")).items():
        found = []
        kinds: dict[tuple[str, int], str] = {}
        for phase in cast(ListNode, phases).items:
            members = []
            for item in cast(ListNode, phase).items:
                with ctx.catching():
                    member = _member(ctx, item, kinds)
                    members += [member] if member else []
            if members:
                found.append(tuple(members))
        aliases.append(Alias(name, tuple(found), span))
    return Memory(tuple(aliases), smem, tmem)


def _member(ctx: Context, node: Node, kinds: dict[tuple[str, int], str]) -> AliasMember | None:
    """`resource`, `resource.field`, or with `each` `resource[w]`: one alias for each w. Raises SpecError."""
    written = string(node)
    e = parse_expr(written, node.span)
    field: str | None = None
    index: Expr | None = None
    if isinstance(e, Name):
        name = e.id
    elif isinstance(e, Ref) and e.resource is not None and e.window is None and not e.transposed:
        name, field, index = e.resource, e.name, e.instance
    elif isinstance(e, Ref) and e.window is not None and len(e.window) == 1 and isinstance(e.window[0], Index):
        name, index = e.name, e.window[0].at
    else:
        raise SpecError(rules_parts.alias_member(written, "expected `resource` or `resource.field`", node.span))
    if name in ctx.absent:
        return None
    head = ctx.resources.get(name)
    if head is None:
        raise SpecError(rules_parts.unknown_entry(name, "resource", ctx.near(name, ctx.resources), node.span))
    if head.kind not in ("smem", "tmem"):
        raise SpecError(rules_parts.alias_member(written, f"it is {head.kind}, expected smem or tmem", node.span))
    if field in head.absent_fields:
        return None
    if field is not None and field not in head.fields:
        raise SpecError(rules_names.unknown_field(name, field, ctx.near(field, head.fields), node.span))
    if not head.fields:
        raise SpecError(rules_parts.alias_member(written, "it has no storage", node.span))
    _check_each(name, head.each, index, node)
    kinds.setdefault((head.kind, head.each.count if head.each else 1), written)
    if len(kinds) > 1:
        other = next(iter(kinds.values()))
        reason = f"`{other}` is of another kind or has another number of instances"
        raise SpecError(rules_parts.alias_member(written, reason, node.span))
    return AliasMember(name, field, node.span)


def _check_each(name: str, each: Each | None, index: Expr | None, node: Node) -> None:
    if (each is None) != (index is None):
        raise SpecError(rules_names.instance_wanted(name, each.var if each else None, node.span))
    if each is not None and index != Name(each.var):
        reason = f"instances are aliased one for each `{each.var}`"
        raise SpecError(rules_parts.alias_member(string(node), reason, node.span))


def resolve_reference(
    ctx: Context, dims: tuple[str, ...], tensors: Mapping[str, Tensor], chain: Chain
) -> Reference | None:
    """The reference; its expressions are parsed and their names looked up, nothing is evaluated."""
    node = ctx.root.get("reference")
    if not isinstance(node, MapNode) or not chain.complete:
        return None
    known = chain.names | ctx.symbols.keys()
    outputs = chain.outputs | {t.name for t in tensors.values() if t.output}
    values, inputs = (_expressions(ctx, node.get(key), known) for key in ("value", "inputs"))
    for name, span, _ in mapping(node.get("value")).items():
        if name not in outputs:
            ctx.add(rules_parts.reference_output(name, "an output", ctx.near(name, outputs), span))
    for name, span, _ in mapping(node.get("inputs")).items():
        if name not in ctx.tensors and name not in chain.names:
            ctx.add(rules_parts.reference_output(name, "a tensor", ctx.near(name, ctx.tensors), span))
    tolerance = mapping(node.get("tolerance"))
    return Reference(
        values,
        inputs,
        _shapes(ctx, node, dims),
        _real(tolerance.get("rtol")),
        _real(tolerance.get("atol")),
        ctx.root.key_span("reference"),
    )


def _real(node: Node | None) -> float | None:
    return float(node.value) if isinstance(node, ScalarNode) and isinstance(node.value, int | float) else None


def _expressions(ctx: Context, node: Node | None, known: frozenset[str]) -> dict[str, Placed]:
    found: dict[str, Placed] = {}
    for name, _, value in mapping(node).items():
        assert isinstance(value, ScalarNode)
        with ctx.catching():
            if isinstance(value.value, str):
                e = parse_expr(value.value, value.span, reference=True)
            else:
                e = Const(0 if value.value is None else value.value)
            for used in sorted(names(e)):
                if used not in known and used not in ctx.words:
                    place = ctx.within(value.span, used)
                    raise SpecError(rules_parts.reference_name(used, ctx.near(used, known), place))
            found[name] = Placed(e, value.span)
    return found


def _shapes(ctx: Context, node: MapNode, dims: tuple[str, ...]) -> tuple[dict[str, int], ...]:
    optional = [n for n, _ in strings(mapping(ctx.root.get("launch")).get("optional"))]
    found = []
    for shape in cast(ListNode, node.get("shapes")).items:
        values: dict[str, int] = {}
        for name, span, value in mapping(shape).items():
            with ctx.catching():
                values[name] = ctx.integer(value, low=0)
                if name not in dims and not _is_hidden_dim(ctx, name):
                    ctx.add(rules_parts.reference_shape(name, False, span))
        for dim in dims:
            if dim not in values and dim not in optional:
                ctx.add(rules_parts.reference_shape(dim, True, shape.span))
        found.append(values)
    return tuple(found)


def _is_hidden_dim(ctx: Context, name: str) -> bool:
    """Whether the name is a dim in another variant: in a shape of an absent tensor, or in a branch not taken."""
    for _, _, tensor in mapping(ctx.root.get("tensors")).items():
        for extent in getattr(mapping(tensor).get("shape"), "items", ()):
            with ctx.catching():
                if name in names(ctx.parse(extent)):
                    return True
    return False
