"""`raster`: the order of the tile axes, a list or the text of lists chosen by compile-time conditions."""

from __future__ import annotations

import ast

from tsgen.diagnostics import Diagnostic, Span
from tsgen.model.expr import Expr, Name, Unary, text
from tsgen.model.kernel import RasterAxis
from tsgen.spec import rules_parts
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, Node
from tsgen.spec.parse import parse_expr
from tsgen.spec.resolve.context import Context, mapping, string
from tsgen.spec.rules_expr import expression_syntax


def resolve_raster(ctx: Context, node: Node | None) -> tuple[RasterAxis, ...]:
    """Every axis, fastest first: those written, then the others as declared. Raises SpecError."""
    axes = list(mapping(mapping(ctx.root.get("launch")).get("tiles")).entries)
    found: list[RasterAxis] = []
    for e, span in _items(ctx, node):
        reverse = isinstance(e, Unary) and e.op == "-"
        axis = e.operand if isinstance(e, Unary) and e.op == "-" else e
        if not isinstance(axis, Name) or axis.id not in axes:
            raise SpecError(rules_parts.raster_axis(text(e), ctx.near(text(axis), axes), span))
        if any(r.axis == axis.id for r in found):
            raise SpecError(rules_parts.raster_twice(axis.id, span))
        found.append(RasterAxis(axis.id, reverse))
    written = {r.axis for r in found}
    return (*found, *(RasterAxis(a, False) for a in axes if a not in written))


def _items(ctx: Context, node: Node | None) -> list[tuple[Expr, Span]]:
    if node is None:
        return []
    if isinstance(node, ListNode):
        return [(parse_expr(string(i), i.span), i.span) for i in node.items]
    written, span = string(node), node.span
    try:
        tree = ast.parse(written.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(_syntax(written, span)) from None
    while isinstance(tree, ast.IfExp):
        condition = ctx.words_in(parse_expr(ast.unparse(tree.test), span))
        tree = tree.body if ctx.value(condition, span) else tree.orelse
    if not isinstance(tree, ast.List):
        raise SpecError(_syntax(written, span))
    return [(parse_expr(ast.unparse(i), span), span) for i in tree.elts]


def _syntax(written: str, span: Span) -> Diagnostic:
    return expression_syntax(written, "a raster is a list of axes, or `[...] if condition else [...]`", span)
