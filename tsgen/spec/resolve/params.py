"""`params`, `variants` and `--set`: the compile-time values of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tsgen.diagnostics import Span
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Const, Expr, Name, Scalar
from tsgen.model.kernel import Param, Symbol
from tsgen.spec import rules_names as rules
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode, Node, ScalarNode
from tsgen.spec.parse import parse_expr
from tsgen.spec.resolve.context import Context, mapping, string


def variant_names(root: MapNode) -> tuple[str, ...]:
    """The variants that a document names, in order; also of one that the schema refuses."""
    return _keys(root.get("variants"))


def param_names(root: MapNode) -> tuple[str, ...]:
    """The params that a document has, in order; also of one that the schema refuses."""
    return _keys(root.get("params"))


def _keys(node: Node | None) -> tuple[str, ...]:
    return tuple(node.entries) if isinstance(node, MapNode) else ()


def resolve_params(ctx: Context, variant: str | None, sets: Mapping[str, str]) -> Mapping[str, Mapping[str, Scalar]]:
    """Fills `ctx.params` and `ctx.env` in order, and returns the variants' values. `sets` wins over the variant."""
    nodes = mapping(ctx.root.get("params"))
    variants = mapping(ctx.root.get("variants"))
    ctx.words = frozenset(_words(nodes))
    chosen: Mapping[str, Node] = {}
    if variant is not None:
        if variant not in variants.entries:
            near = ctx.near(variant, variants.entries)
            raise SpecError(
                rules.unknown_variant(variant, tuple(variants.entries), near, ctx.root.key_span("variants"))
            )
        chosen = {k: n for k, _, n in mapping(variants.get(variant)).items()}
    for name, _, node in variants.items():
        for key, key_span, _ in mapping(node).items():
            if key not in nodes.entries:
                ctx.add(rules.unknown_param(key, f"variant `{name}`", ctx.near(key, nodes.entries), key_span))
    for key in sets:
        if key not in nodes.entries:
            ctx.add(rules.unknown_param(key, "`--set`", ctx.near(key, nodes.entries), ctx.root.key_span("params")))
    for name, span, node in nodes.items():
        try:
            ctx.declare(Symbol(name, "param", "compile", span))
            _param(ctx, name, span, node, chosen.get(name), sets.get(name))
        except SpecError as e:
            ctx.add(e.diagnostic)
            ctx.failed[name] = e.diagnostic
    return {name: _variant(ctx, mapping(node)) for name, _, node in variants.items()}


def _words(nodes: MapNode) -> list[str]:
    """Every word that is a param's value or choice."""
    found = []
    for _, _, node in nodes.items():
        if isinstance(node, MapNode):
            for key in ("choices", "tune"):
                listed = node.get(key)
                if isinstance(listed, ListNode):
                    found += [i.value for i in listed.items if isinstance(i, ScalarNode) and isinstance(i.value, str)]
    return [w for w in found if w.isidentifier()]


def _param(ctx: Context, name: str, span: Span, node: Node, variant: Node | None, given: str | None) -> None:
    options = node if isinstance(node, MapNode) else None
    value_node = options.get("value") if options else node
    assert value_node is not None
    choices = _values(ctx, options.get("choices") if options else None)
    tune = _values(ctx, options.get("tune") if options else None)
    default = _parsed(ctx, value_node, choices)
    written: Expr | None = default
    place = value_node.span
    value = own = ctx.value(default, place)
    if variant is not None:
        written, place = None, variant.span
        value = _like(name, own, ctx.value(_parsed(ctx, variant, choices), place), place)
    if given is not None:
        written, place = None, span
        with _of_option(name, given):
            value = _like(name, own, ctx.value(_word(ctx, parse_expr(given, span), choices), span), span)
            _check_choice(name, value, choices, span)
    _check_choice(name, value, choices, place)
    for v in tune:
        _check_choice(name, v, choices, options.key_span("tune") if options else span)
    doc = string(options.get("doc")) if options and options.get("doc") else None
    ctx.env[name] = value
    by_caller = bool(choices) and all(isinstance(c, str) and c in DTYPES for c in choices)
    ctx.params[name] = Param(name, value, written, choices, tune, doc, span, by_caller)


@contextmanager
def _of_option(name: str, given: str) -> Iterator[None]:
    """Says of a finding that it is about `--set`: its place is that of the param, where other text stands."""
    try:
        yield
    except SpecError as e:
        raise SpecError(replace(e.diagnostic, message=f"--set {name}={given}: {e.diagnostic.message}")) from None


def _parsed(ctx: Context, node: Node, choices: tuple[Scalar, ...]) -> Expr:
    return _word(ctx, ctx.parse(node), choices)


def _word(ctx: Context, e: Expr, choices: tuple[Scalar, ...]) -> Expr:
    """The expression; a name that nothing defines is a word where words are the choices."""
    e = ctx.words_in(e)
    words = any(isinstance(c, str) for c in choices)
    return Const(e.id) if isinstance(e, Name) and e.id not in ctx.env and words else e


def _check_choice(name: str, value: Scalar, choices: tuple[Scalar, ...], span: Span) -> None:
    if choices and value not in choices:
        raise SpecError(rules.not_a_choice(name, value, choices, span))


def _values(ctx: Context, node: Node | None) -> tuple[Scalar, ...]:
    if node is None:
        return ()
    assert isinstance(node, ListNode)
    return tuple(ctx.value(ctx.parse(i), i.span) for i in node.items)


def _like(name: str, own: Scalar, value: Scalar, span: Span) -> Scalar:
    """The value in the type of the param's own one. Raises SpecError where the two are of different kinds."""
    if isinstance(own, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    kinds = {bool: "a boolean", int: "an integer", float: "a number", str: "a word"}
    if type(own) is not type(value):
        raise SpecError(rules.param_kind(name, kinds[type(own)], value, span))
    return value


def _variant(ctx: Context, node: MapNode) -> Mapping[str, Scalar]:
    """What a variant sets, each value checked against its param."""
    values: dict[str, Scalar] = {}
    for key, _, value in node.items():
        param = ctx.params.get(key)
        if param is not None:
            with ctx.catching():
                v = ctx.value(_parsed(ctx, value, param.choices), value.span)
                values[key] = _like(key, param.value, v, value.span)
                _check_choice(key, values[key], param.choices, value.span)
    return values
