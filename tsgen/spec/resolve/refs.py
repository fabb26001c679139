"""Binding of expressions and references: every name is looked up once, here, and its time is checked.

A bound expression has no compile-time branches left, own fields are `Ref(owner, None, field)`, tensors are
`Ref(None, None, tensor)`, and windows of fields have an entry for each dimension.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tsgen.diagnostics import Span
from tsgen.frozen import frozen
from tsgen.model.algebra import prune, rebuild
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Call, Const, Expr, Full, Index, Name, Placed, Ref, Scalar, Slice, Window, text
from tsgen.model.kernel import Each, Time
from tsgen.spec import rules_names as rules
from tsgen.spec.errors import SpecError
from tsgen.spec.node import Node, ScalarNode
from tsgen.spec.parse import ACTIVATIONS, FUNCTIONS, parse_expr
from tsgen.spec.resolve.context import BUILTINS, TIMES, Context, Head
from tsgen.spec.rules_expr import expression_syntax, not_compile_time


class UnknownName(SpecError):
    """An expression uses a name that its scope does not have."""

    def __init__(self, name: str, near: str | None, span: Span) -> None:
        super().__init__(rules.unknown_name(name, near, span))
        self.name = name


@frozen
class Scope:
    """Where an expression stands: the latest time its values may have, and the names it sees besides the kernel's.

    `owner` gives own fields. In `tiles` scopes (map, value, where) whole fields and element-wise functions are values.
    """

    where: str  # in words, with article
    time: Time
    locals: Mapping[str, Time] = field(default_factory=dict)
    owner: Head | None = None
    tiles: bool = False
    tensor_first: bool = False  # a name that is an own field and a tensor means the tensor
    constants: Mapping[str, Scalar] = field(default_factory=dict)  # values of `each` and `for` indices, where known

    def owns(self, name: str) -> bool:
        return self.owner is not None and name in self.owner.fields


@dataclass(slots=True)
class _Binder:
    ctx: Context
    scope: Scope
    span: Span
    written: str
    latest: int = 0  # index into TIMES

    def at(self, name: str) -> Span:
        """The place of a name in the text, where it stands as a value."""
        found = self.ctx.within(self.span, name, r"(?!\s*(\.|=(?!=)))")
        return found if found != self.span else self.ctx.within(self.span, name)

    def seen(self, name: str, time: Time) -> None:
        self.latest = max(self.latest, TIMES.index(time))
        if TIMES.index(time) > TIMES.index(self.scope.time):
            if self.scope.time == "compile":
                raise SpecError(not_compile_time(self.written, name, self.at(name)))
            raise SpecError(rules.too_late(name, time, self.scope.time, self.scope.where, self.at(name)))

    def bind(self, e: Expr) -> Expr:
        match e:
            case Name():
                return self.name(e)
            case Ref():
                return self.ref(e)
            case Call():
                return self.call(e)
            case _:
                return rebuild(e, self.bind)

    def name(self, e: Name) -> Expr:
        scope, ctx, name = self.scope, self.ctx, e.id
        symbol = ctx.symbols.get(name)
        is_tensor = symbol is not None and symbol.kind == "tensor"
        if scope.owns(name) and not (scope.tensor_first and is_tensor):
            return self.ref(Ref(None, None, name))
        if name in scope.locals:
            self.seen(name, scope.locals[name])
            return e
        if name in ctx.absent or (symbol is None and self.absent_field(name)):
            raise SpecError(rules.absent_name(name, ctx.absent.get(name, "field"), self.at(name)))
        if symbol is not None and symbol.kind in ("param", "dim", "scalar", "axis", "let"):
            self.seen(name, symbol.time)
            return e
        if name in BUILTINS:
            self.seen(name, BUILTINS[name])
            return e
        if is_tensor:
            return self.ref(Ref(None, None, name))
        if symbol is not None:
            hint = "write `resource.field`" if symbol.kind == "resource" else None
            raise SpecError(rules.not_a_value(name, symbol.kind, self.at(name), hint))
        raise UnknownName(name, ctx.near(name, self.candidates()), self.at(name))

    def absent_field(self, name: str) -> bool:
        return self.scope.owner is not None and name in self.scope.owner.absent_fields

    def candidates(self) -> list[str]:
        fields = list(self.scope.owner.fields) if self.scope.owner else []
        return [*self.ctx.symbols, *self.scope.locals, *fields, *BUILTINS]

    def call(self, e: Call) -> Expr:
        if e.function not in FUNCTIONS and not self.scope.tiles:
            raise SpecError(rules.element_function(e.function, self.at(e.function)))
        if e.function == "extent":
            (axis,) = e.args
            name = text(axis)
            symbol = self.ctx.symbols.get(name)
            if symbol is None or symbol.kind != "axis":
                axes = [s.name for s in self.ctx.symbols.values() if s.kind == "axis"]
                raise SpecError(rules.extent_axis(name, self.ctx.near(name, axes), self.at(name)))
            self.seen(f"extent({name})", "launch")
            return e
        if e.function == "activation":
            return Call(e.function, (self.activation(e.args[0]), *(self.bind(a) for a in e.args[1:])))
        if e.function in ("rows", "cols") and not isinstance(e.args[0], Name | Ref):
            raise SpecError(expression_syntax(text(e), f"`{e.function}` takes a field", self.at(e.function)))
        return rebuild(e, self.bind)

    def activation(self, e: Expr) -> Expr:
        """The first argument of `activation`: a word, or a param whose value is one."""
        bound = e if isinstance(e, Const) else self.bind(e)
        word = self.ctx.value(bound, self.span)
        if word not in ACTIVATIONS:
            near = self.ctx.near(str(word), ACTIVATIONS)
            raise SpecError(rules.unknown_activation(str(word), near, ACTIVATIONS, self.at(text(e))))
        return bound

    def ref(self, e: Ref) -> Ref:
        if e.resource is not None:
            return self.field(self.ctx, e)
        scope, ctx = self.scope, self.ctx
        if scope.owns(e.name) and not (scope.tensor_first and e.name in ctx.tensors):
            assert scope.owner is not None
            return self.of_field(scope.owner, Ref(scope.owner.name, None, e.name, e.window, e.transposed))
        tensor = ctx.tensors.get(e.name)
        if e.name in scope.locals:
            raise SpecError(
                rules.not_a_value(text(e), "window of a value", self.span, "only fields and tensors have windows")
            )
        if tensor is not None and tensor.present:
            return self.of_tensor(e)
        if e.name in ctx.absent or self.absent_field(e.name):
            raise SpecError(rules.absent_name(e.name, ctx.absent.get(e.name, "field"), self.at(e.name)))
        if e.name in ctx.resources:
            help = f"name a field: `{text(Ref(None, None, e.name, e.window))}.field`"
            raise SpecError(rules.not_a_value(e.name, "resource", self.span, help))
        if e.name in ctx.symbols:
            raise SpecError(rules.not_a_value(text(e), f"window of a {ctx.symbols[e.name].kind}", self.span))
        raise UnknownName(e.name, ctx.near(e.name, self.candidates()), self.at(e.name))

    def of_tensor(self, e: Ref) -> Ref:
        head = self.ctx.tensors[e.name]
        rank = len(head.shape)
        if e.window is not None and len(e.window) != rank:
            raise SpecError(rules.window_rank(e.name, rank, len(e.window), self.at(e.name)))
        if not self.scope.tiles and not _is_element(e.window, rank):
            help = f"write `{e.name}[{', '.join(['i'] * rank)}]`"
            raise SpecError(rules.not_a_value(text(e), "tensor", self.span, help))
        if not self.scope.tiles:
            dtype = self.ctx.value(head.dtype, head.span)
            if isinstance(dtype, str) and dtype in DTYPES and DTYPES[dtype].kind == "float":
                raise SpecError(rules.not_integer_tensor(e.name, dtype, self.at(e.name)))
        self.seen(e.name, "launch")
        return replace(e, window=self.window(e.window))

    def field(self, ctx: Context, e: Ref) -> Ref:
        assert e.resource is not None
        head = ctx.resources.get(e.resource)
        if head is None:
            if e.resource in ctx.absent:
                raise SpecError(rules.absent_name(e.resource, ctx.absent[e.resource], self.at(e.resource)))
            known = [*ctx.resources]
            if e.resource in ctx.symbols:
                raise SpecError(rules.not_a_value(text(e), f"field of a {ctx.symbols[e.resource].kind}", self.span))
            raise SpecError(rules.unknown_name(e.resource, ctx.near(e.resource, known), self.at(e.resource)))
        return self.of_field(
            head, replace(e, instance=self.instance(head.name, head.each, e.instance, head is self.scope.owner))
        )

    def instance(self, name: str, each: Each | None, index: Expr | None, own: bool) -> Expr | None:
        return bind_instance(self.ctx, name, each, index, self.scope, self.span, optional=own)

    def of_field(self, head: Head, e: Ref) -> Ref:
        dims = head.fields.get(e.name)
        if dims is None:
            if e.name in head.absent_fields:
                raise SpecError(rules.absent_name(f"{head.name}.{e.name}", "field", self.at(e.name)))
            raise SpecError(rules.unknown_field(head.name, e.name, self.ctx.near(e.name, head.fields), self.at(e.name)))
        if not self.scope.tiles and not (head.kind == "rmem" and not dims):
            raise SpecError(
                rules.not_a_value(
                    text(e), f"field of {head.kind}", self.span, "only a scalar rmem field is a value here"
                )
            )
        self.seen(text(e), "step")
        window = e.window
        if window is not None and len(window) > len(dims):
            raise SpecError(rules.window_rank(text(replace(e, window=None)), len(dims), len(window), self.at(e.name)))
        if window is not None:
            window = window + (Full(),) * (len(dims) - len(window))
        return replace(e, window=self.window(window))

    def window(self, window: tuple[Window, ...] | None) -> tuple[Window, ...] | None:
        return None if window is None else tuple(self.entry(w) for w in window)

    def entry(self, w: Window) -> Window:
        if isinstance(w, Index):
            return Index(self.bind(w.at))
        return Slice(self.bind(w.start), self.bind(w.length)) if isinstance(w, Slice) else w


def _is_element(window: tuple[Window, ...] | None, rank: int) -> bool:
    return (window is not None and all(isinstance(w, Index) for w in window)) or (window is None and rank == 0)


def bind(ctx: Context, e: Expr, scope: Scope, span: Span) -> tuple[Expr, Time]:
    """The expression with every name looked up, and the time of its value. Raises SpecError."""
    hidden = {*scope.locals, *(scope.owner.fields if scope.owner else ())}
    e = prune(ctx.words_in(e, hidden), {**ctx.env, **scope.constants})
    binder = _Binder(ctx, scope, span, text(e))
    return binder.bind(e), TIMES[binder.latest]


def bind_node(ctx: Context, node: Node, scope: Scope) -> Placed:
    """A scalar node as a bound expression. Raises SpecError."""
    return timed_node(ctx, node, scope)[0]


def timed_node(ctx: Context, node: Node, scope: Scope) -> tuple[Placed, Time]:
    """A scalar node as a bound expression, and the time of its value. Raises SpecError."""
    assert isinstance(node, ScalarNode)
    e: Expr = parse_expr(node.value, node.span) if isinstance(node.value, str) else Const(_known(node.value))
    bound, time = bind(ctx, e, scope, node.span)
    return Placed(bound, node.span), time


def _known(value: Scalar | None) -> Scalar:
    assert value is not None
    return value


def bind_ref(ctx: Context, node: Node, scope: Scope) -> Placed:
    """A scalar node as a bound reference. Raises SpecError."""
    p = bind_node(ctx, node, replace(scope, tiles=True))
    if not isinstance(p.expr, Ref):
        assert isinstance(node, ScalarNode)
        raise SpecError(
            expression_syntax(node.source, "a reference is `field`, `resource.field` or `tensor[window]`", node.span)
        )
    return p


def bind_instance(
    ctx: Context, name: str, each: Each | None, index: Expr | None, scope: Scope, span: Span, *, optional: bool = False
) -> Expr | None:
    """The index of an instance of `name`; None where it has no `each`, or means its own instance. Raises SpecError."""
    if each is None:
        if index is not None:
            raise SpecError(rules.instance_wanted(name, None, span))
        return None
    if index is None:
        if optional:
            return None
        raise SpecError(rules.instance_wanted(name, each.var, span))
    bound, _ = bind(ctx, index, replace(scope, where="an instance", tiles=False), span)
    if isinstance(bound, Const) and isinstance(bound.value, int) and not 0 <= bound.value < each.count:
        raise SpecError(rules.instance_range(name, bound.value, each.count, span))
    return bound
