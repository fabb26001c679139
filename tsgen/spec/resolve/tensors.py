"""`tensors`: the arguments of the host function, and the dims that their shapes solve."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.diagnostics import Span
from tsgen.model.algebra import canonical, prune
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Expr, Name, names, text
from tsgen.model.kernel import Symbol, Tensor, Work
from tsgen.model.poly import Poly
from tsgen.spec import rules_names, rules_parts
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode, Node, ScalarNode
from tsgen.spec.resolve.context import Context, TensorHead, mapping, string
from tsgen.spec.resolve.refs import Scope, bind_node


def dtype_of(ctx: Context, node: Node) -> Expr:
    """A dtype as an expression: a word, or a param whose value is one. Raises SpecError."""
    e = ctx.words_in(prune(ctx.parse(node), ctx.env))
    value = e.id if isinstance(e, Name) and e.id not in ctx.env else ctx.value(e, node.span)
    if not isinstance(value, str) or value not in DTYPES:
        raise SpecError(rules_parts.unknown_dtype(str(value), ctx.near(str(value), DTYPES), tuple(DTYPES), node.span))
    return e


def tensor_heads(ctx: Context) -> tuple[str, ...]:
    """Declares the tensors, then the dims of the present ones in order of appearance, and returns the dims."""
    shapes: list[tuple[Expr, Node]] = []
    for name, span, node in mapping(ctx.root.get("tensors")).items():
        assert isinstance(node, MapNode)
        with ctx.catching():
            present = ctx.present(node)
            shape_node, dtype_node = node.get("shape"), node.get("dtype")
            assert isinstance(shape_node, ListNode) and dtype_node is not None
            exprs = [prune(ctx.parse(n), ctx.env) for n in shape_node.items]
            ctx.declare(Symbol(name, "tensor" if exprs else "scalar", "launch", span))
            if not present:
                ctx.absent[name] = "tensor"
            else:
                shapes += zip(exprs, shape_node.items, strict=True)
            ctx.tensors[name] = TensorHead(name, dtype_of(ctx, dtype_node), tuple(exprs), present, node, span)
    return _dims(ctx, shapes)


def _dims(ctx: Context, shapes: list[tuple[Expr, Node]]) -> tuple[str, ...]:
    places: dict[str, tuple[Span, str]] = {}
    for e, node in shapes:
        assert isinstance(node, ScalarNode)
        for name in sorted(names(e), key=lambda n: str(node.value).find(n)):
            if name in ctx.env or name in places:
                continue
            if name in ctx.tensors:
                ctx.add(rules_names.not_a_value(name, "tensor", node.span, "shapes are made of params and dims"))
            else:
                places[name] = (node.span, text(e))
                ctx.declare(Symbol(name, "dim", "launch", node.span))
    solved: set[str] = set()
    polys = [_poly(ctx, e, node) for e, node in shapes]
    while True:
        new = {n for p in polys if p is not None and (n := _solves(p, solved)) is not None} - solved
        if not new:
            break
        solved |= new
    for name, (span, written) in places.items():
        if name not in solved:
            ctx.add(rules_parts.unsolvable_dim(name, written, span))
    return tuple(places)


def _poly(ctx: Context, e: Expr, node: Node) -> Poly | None:
    p = canonical(e, ctx.env)
    if p.value is not None and (p.value.denominator != 1 or p.value < 0):
        ctx.add(rules_parts.extent_value(text(e), str(p.value), node.span))
    return p


def _solves(p: Poly, solved: set[str]) -> str | None:
    """The one unknown of a shape that the caller's extent determines: `S`, `S + 1`, `per_page*rows*S`."""
    unknown: str | None = None
    for monomial, _ in p.terms:
        for atom, power in monomial:
            if atom.args:
                return None
            if atom.head in solved:
                continue
            if unknown is not None or power != 1 or len(monomial) != 1:
                return None
            unknown = atom.head
    return unknown


def resolve_tensor(ctx: Context, head: TensorHead, works: Mapping[str, Work]) -> Tensor:
    """The tensor of a head. Raises SpecError."""
    node, rank = head.node, len(head.shape)
    output = (n := node.get("output")) is not None and ctx.boolean(n)
    default = None
    if (n := node.get("default")) is not None:
        if rank:
            raise SpecError(
                rules_parts.tensor_option("default", head.name, "scalars (`shape: []`)", node.key_span("default"))
            )
        default = bind_node(ctx, n, Scope("a default", "launch"))
    if output and not rank:
        raise SpecError(
            rules_parts.tensor_option("output", head.name, "tensors with a dimension", node.key_span("output"))
        )
    align = 16 if (n := node.get("align")) is None else ctx.integer(n, low=1)
    if align & (align - 1):
        assert n is not None
        raise SpecError(rules_parts.power_of_two("align", align, n.span))
    major = rank - 1 if (n := node.get("major")) is None else ctx.integer(n)
    if n is not None and not 0 <= major < rank:
        raise SpecError(rules_parts.major_range(major, rank, n.span))
    doc = string(d) if (d := node.get("doc")) is not None else None
    return Tensor(head.name, head.dtype, head.shape, output, default, align, major, works, head.present, doc, head.span)
