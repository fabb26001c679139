"""`launch`: the tile space, clusters, `let` values and assumptions."""

from __future__ import annotations

from tsgen.model.algebra import NotConstant, NoValue, evaluate
from tsgen.model.expr import Call, Const, Expr, Name, names, text, walk
from tsgen.model.kernel import Axis, Launch, Let, Symbol
from tsgen.spec import rules_parts
from tsgen.spec.errors import SpecError
from tsgen.spec.resolve.context import Context, mapping, show, strings
from tsgen.spec.resolve.refs import Scope, bind_node, timed_node

MAX_CLUSTER = 64  # CTAs along one axis; the hardware allows 16 in all


def resolve_launch(ctx: Context) -> Launch:
    """Declares axes and `let` names, in this order, and binds everything under `launch`."""
    node = mapping(ctx.root.get("launch"))
    tiles = mapping(node.get("tiles"))
    for name, span, _ in tiles.items():
        ctx.declare(Symbol(name, "axis", "tile", span))
    lets = _lets(ctx)
    axes = _axes(ctx, lets)
    optional = []
    for name, span in strings(node.get("optional")):
        symbol = ctx.symbols.get(name)
        leading = all(text(t.shape[0]) == name for t in ctx.tensors.values() if any(text(s) == name for s in t.shape))
        if symbol is None or symbol.kind != "dim" or not leading:
            ctx.add(rules_parts.optional_dim(name, span))
        optional.append(name)
    pdl = (n := node.get("pdl")) is not None and ctx.boolean(n)
    min_blocks = 1
    with ctx.catching():
        min_blocks = 1 if (n := node.get("min_blocks")) is None else ctx.integer(n, low=1)
    return Launch(axes, tuple(optional), lets, (), pdl, min_blocks, ctx.root.key_span("launch"))


def _lets(ctx: Context) -> tuple[Let, ...]:
    found: list[Let] = []
    nodes = mapping(mapping(ctx.root.get("launch")).get("let"))
    for name, span, node in nodes.items():
        with ctx.catching():
            try:
                value, time = timed_node(ctx, node, Scope(f"the `let` value `{name}`", "tile"))
            except SpecError as e:  # known everywhere, so that its uses give no findings of their own
                ctx.declare(Symbol(name, "let", "compile", span))
                ctx.failed[name] = e.diagnostic
                raise
            ctx.declare(Symbol(name, "let", time, span))
            found.append(Let(name, value.expr, time, span))
    return tuple(found)


def _axes(ctx: Context, lets: tuple[Let, ...]) -> tuple[Axis, ...]:
    node = mapping(ctx.root.get("launch"))
    tiles, cluster = mapping(node.get("tiles")), mapping(node.get("cluster"))
    for name, span, _ in cluster.items():
        if name not in tiles.entries:
            ctx.add(rules_parts.cluster_axis(name, ctx.near(name, tiles.entries), span))
    values = {let.name: let.value for let in lets}
    found: list[Axis] = []
    for name, span, extent in tiles.items():
        with ctx.catching():
            bound = bind_node(ctx, extent, Scope(f"the extent of axis `{name}`", "launch"))
            if _uses_extent(bound.expr, values):
                raise SpecError(rules_parts.extent_cycle(name, extent.span))
            count = cluster.get(name)
            expr: Expr = Const(1) if count is None else ctx.parse(count)
            found.append(
                Axis(name, bound.expr, 1 if count is None else ctx.integer(count, low=1, high=MAX_CLUSTER), expr, span)
            )
    return tuple(found)


def _uses_extent(e: Expr, lets: dict[str, Expr]) -> bool:
    """Whether an expression uses `extent()`, itself or through `let` values."""
    todo, seen = [e], set()
    while todo:
        for x in walk(todo.pop()):
            if isinstance(x, Call) and x.function == "extent":
                return True
            if isinstance(x, Name) and x.id in lets and x.id not in seen:
                seen.add(x.id)
                todo.append(lets[x.id])
    return False


def resolve_assume(ctx: Context, launch: Launch) -> Launch:
    """Binds the preconditions, which may use every name of the kernel's launch and tiles."""
    node = mapping(ctx.root.get("launch")).get("assume")
    found = []
    for item in getattr(node, "items", ()):
        with ctx.catching():
            p = bind_node(ctx, item, Scope("an assumption", "tile"))
            try:
                if not evaluate(p.expr, ctx.env):
                    values = ", ".join(f"{n} = {show(ctx.env[n])}" for n in sorted(names(p.expr) & ctx.env.keys()))
                    ctx.add(rules_parts.false_assumption(text(p.expr), values, p.span))
            except (NotConstant, NoValue):
                pass
            found.append(p)
    return Launch(launch.axes, launch.optional, launch.lets, tuple(found), launch.pdl, launch.min_blocks, launch.span)
