"""What the parts of resolution share: the params' values, the names of the kernel, and the findings so far."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tsgen.diagnostics import Diagnostic, Span
from tsgen.frozen import frozen
from tsgen.model.algebra import NotConstant, NoValue, evaluate, rebuild
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Call, Const, Expr, Name, Placed, Scalar, text
from tsgen.model.kernel import Each, Kernel, Let, Param, ResourceKind, Symbol, Time
from tsgen.spec import rules_names as rules
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode, Node, ScalarNode
from tsgen.spec.parse import FUNCTIONS, parse_expr
from tsgen.spec.rules_expr import expression_value, not_compile_time

TIMES: tuple[Time, ...] = ("compile", "launch", "tile", "step")
BUILTINS: Mapping[str, Time] = {"sms": "launch", "thread": "step", "threads": "step", "warp": "step", "lane": "step"}
MAX_INSTANCES = 64  # of one `each`; a block has 32 warps and 16 barriers
MODULES = ("cute", "cutlass", "math", "stage")  # names that only bodies see


@frozen
class Head:
    """What others must know of a resource before it is resolved: kind, instances, fields that are present."""

    name: str
    kind: ResourceKind
    each: Each | None
    fields: Mapping[str, tuple[Expr, ...]]  # name -> dims; empty for a view until its source is known
    absent_fields: frozenset[str]
    pipelined: bool
    node: MapNode
    span: Span


@frozen
class TensorHead:
    """What others must know of a tensor: its rank and element type."""

    name: str
    dtype: Expr
    shape: tuple[Expr, ...]
    present: bool
    node: MapNode
    span: Span


@frozen
class Chain:
    """What the kernels before this one of a chain have: all their names, their dims in order, and their outputs."""

    names: frozenset[str] = frozenset()
    dims: tuple[str, ...] = ()
    outputs: frozenset[str] = frozenset()
    complete: bool = True  # whether all of them could be resolved

    def then(self, kernel: Kernel | None) -> Chain:
        """The chain with one more kernel; None if it could not be resolved."""
        if kernel is None:
            return replace(self, complete=False)
        outputs = {t.name for t in kernel.tensors.values() if t.output}
        dims = tuple(dict.fromkeys((*self.dims, *kernel.dims)))
        return Chain(self.names | kernel.symbols.keys(), dims, self.outputs | outputs, self.complete)


@dataclass(slots=True)
class Context:
    """The state of resolving one kernel. Parts fill it in the order in which they are called."""

    root: MapNode
    target: str
    lines: tuple[str, ...] = ()  # of the file
    diagnostics: list[Diagnostic] = field(default_factory=list)
    params: dict[str, Param] = field(default_factory=dict)
    env: dict[str, Scalar] = field(default_factory=dict)
    failed: dict[str, Diagnostic] = field(default_factory=dict)  # params and `let` values without a value, and why
    words: frozenset[str] = frozenset()  # that params may have as values
    symbols: dict[str, Symbol] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # name -> kind of entry whose `if` is false
    tensors: dict[str, TensorHead] = field(default_factory=dict)
    resources: dict[str, Head] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)  # name -> mode
    lets: tuple[Let, ...] = ()
    absent_works: set[tuple[str, str]] = field(default_factory=set)
    known_works: dict[str, list[str]] = field(default_factory=dict)  # by owner; broken ones included

    def add(self, diagnostic: Diagnostic) -> None:
        if diagnostic not in self.diagnostics:
            self.diagnostics.append(diagnostic)

    @contextmanager
    def catching(self) -> Iterator[None]:
        """Collects the finding that stops one entry, so that the next entry is still looked at."""
        try:
            yield
        except SpecError as e:
            self.add(e.diagnostic)

    def stop_on_errors(self) -> None:
        """Raises the last finding if there is an error: what comes next would only repeat it."""
        for d in self.diagnostics:
            if d.severity == "error":
                raise SpecError(d)

    # -- compile-time values -------------------------------------------------------------------------------------

    def parse(self, node: Node) -> Expr:
        """The expression of a scalar node, words among names turned into constants."""
        assert isinstance(node, ScalarNode)
        if isinstance(node.value, str):
            return self.words_in(parse_expr(node.value, node.span))
        assert node.value is not None
        return Const(node.value)

    def words_in(self, e: Expr, hidden: Container[str] = ()) -> Expr:
        """Names that are nothing but a dtype or a word of some param's choices become that word."""
        if isinstance(e, Name) and e.id not in hidden and e.id not in self.env and e.id not in self.symbols:
            if e.id in DTYPES or e.id in self.words:
                return Const(e.id)
            if e.id in ("true", "false"):
                return Const(e.id == "true")
        if isinstance(e, Call) and e.function == "activation" and isinstance(e.args[0], Name):
            word = e.args[0]
            if word.id not in self.env:
                return Call(e.function, (Const(word.id), *(self.words_in(a, hidden) for a in e.args[1:])))
        return rebuild(e, lambda c: self.words_in(c, hidden))

    def value(self, e: Expr, span: Span, local: Mapping[str, Scalar] | None = None) -> Scalar:
        """The value of a compile-time expression. Raises SpecError."""
        env = self.env if not local else {**self.env, **local}
        try:
            return evaluate(e, env)
        except NotConstant as err:
            if err.name in self.failed:  # which has been said, and is not said twice
                raise SpecError(self.failed[err.name]) from None
            raise SpecError(self._not_constant(e, err.name, span)) from None
        except NoValue as err:
            raise SpecError(expression_value(text(e), str(err), span)) from None

    def _not_constant(self, e: Expr, name: str, span: Span) -> Diagnostic:
        known = name in self.symbols or name in BUILTINS or name in self.tensors or name in FUNCTIONS
        if known or name in self.absent:
            return not_compile_time(text(e), name, span)
        return rules.unknown_name(name, self.near(name, [*self.env, *BUILTINS]), self.within(span, name))

    def integer(
        self,
        node: Node,
        local: Mapping[str, Scalar] | None = None,
        *,
        low: int | None = None,
        high: int | None = None,
    ) -> int:
        """The value of an integer expression from `low` to `high`. Raises SpecError."""
        e = self.parse(node)
        v = self.value(e, node.span, local)
        if isinstance(v, float) and v.is_integer():
            v = int(v)
        if isinstance(v, bool) or not isinstance(v, int):
            raise SpecError(expression_value(text(e), f"it is {show(v)}, an integer is wanted", node.span))
        if (low is not None and v < low) or (high is not None and v > high):
            raise SpecError(rules.out_of_range(text(e), v, low, high, node.span))
        return v

    def boolean(self, node: Node, local: Mapping[str, Scalar] | None = None) -> bool:
        """The value of a compile-time condition. Raises SpecError."""
        e = self.parse(node)
        v = self.value(e, node.span, local)
        if isinstance(v, str):
            raise SpecError(expression_value(text(e), f"it is the word {v}, a condition is wanted", node.span))
        return bool(v)

    def present(self, node: Node) -> bool:
        """Whether the entry's `if` holds. Conditions that have no value count as true, after a finding."""
        if not isinstance(node, MapNode) or (condition := node.get("if")) is None:
            return True
        try:
            return self.boolean(condition)
        except SpecError as e:
            self.add(e.diagnostic)
            return True

    def each(self, node: MapNode) -> Each | None:
        """The `each: {var: count}` of a resource or task. Raises SpecError."""
        each = node.get("each")
        if each is None:
            return None
        assert isinstance(each, MapNode)
        ((var, span, count),) = each.items()
        self.local_name(var, "an `each` variable", span)
        return Each(var, self.integer(count, low=1, high=MAX_INSTANCES))

    # -- places --------------------------------------------------------------------------------------------------

    def within(self, span: Span, word: str, after: str = "") -> Span:
        """The place of a word within a text of one line; `after` is a pattern that follows it."""
        if span.line != span.end_line or span.line > len(self.lines):
            return span
        part = self.lines[span.line - 1][span.column - 1 : span.end_column - 1]
        match = re.search(rf"(?<!\w){re.escape(word)}(?!\w){after}", part)
        if match is None:
            return span
        start = span.column + match.start()
        return Span(span.line, start, span.line, start + len(word))

    # -- names ---------------------------------------------------------------------------------------------------

    def near(self, name: str, among: Iterable[str]) -> str | None:
        """The known name that was probably meant."""
        found = difflib.get_close_matches(name, list(among), 1, 0.6)
        return found[0] if found else None

    def local_name(self, name: str, what: str, span: Span, *, field: bool = False) -> None:
        """A name of smaller scope may not hide one of the kernel; fields may be named like tensors or resources."""
        if name in BUILTINS or name in MODULES or (field and name == "T"):
            self.add(rules.reserved_name(name, what, span))
            return
        other = self.symbols.get(name)
        if other is not None and not (field and other.kind in ("tensor", "scalar", "resource")):
            self.add(rules.hidden_name(name, what, other.kind, span, other.span))

    def declare(self, symbol: Symbol) -> None:
        """Enters a name of the kernel. One namespace for all of them."""
        name = symbol.name
        if name in BUILTINS or name in MODULES:
            self.add(rules.reserved_name(name, f"a {symbol.kind}", symbol.span))
        elif name in self.symbols:
            other = self.symbols[name]
            self.add(rules.name_clash(name, symbol.kind, other.kind, symbol.span, other.span))
        else:
            self.symbols[name] = symbol


def show(v: Scalar) -> str:
    """A value in the words of a message."""
    return f"the word {v}" if isinstance(v, str) else str(v).lower() if isinstance(v, bool) else repr(v)


def scalar(node: Node | None) -> ScalarNode:
    assert isinstance(node, ScalarNode)
    return node


def string(node: Node | None) -> str:
    """The text of a node that the schema knows to be one."""
    assert isinstance(node, ScalarNode)
    return str(node.value)


def mapping(node: Node | None) -> MapNode:
    """The mapping that the schema knows to be one; an empty one where the key is not written."""
    if node is None:
        return MapNode({}, Span.start())
    assert isinstance(node, MapNode)
    return node


def strings(node: Node | None) -> list[tuple[str, Span]]:
    """The texts of a list of names, each with its place; none where the key is not written."""
    if node is None:
        return []
    assert isinstance(node, ListNode)
    return [(string(i), i.span) for i in node.items]


def placed(e: Expr, node: Node) -> Placed:
    return Placed(e, node.span)
