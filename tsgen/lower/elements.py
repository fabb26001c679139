"""Single elements of tensors: loads and stores by each thread for itself, kept inside the tensor."""

from __future__ import annotations

from tsgen.lower.context import TaskState, join
from tsgen.lower.elementwise import Leaf, Printer
from tsgen.lower.errors import refuse
from tsgen.lower.mma import fragment
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import py, py_factor
from tsgen.model.algebra import canonical, prune
from tsgen.model.bounds import Interval, interval, intervals
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Binary, Call, Const, Expr, Index, Name, Ref
from tsgen.model.kernel import Work
from tsgen.model.steps import CallStep


def picks_element(ref: Ref) -> bool:
    """Whether a window picks one element."""
    return ref.window is not None and all(isinstance(w, Index) for w in ref.window)


def element(s: TaskState, ref: Ref) -> str:
    """One element of a tensor; an index that may lie past the edge is clamped to it."""
    b = s.builder
    tensor = b.kernel.tensors[ref.name]
    assert ref.window is not None
    indices = []
    for w, extent in zip(ref.window, tensor.shape, strict=True):
        assert isinstance(w, Index)
        text = s.py(w.at)
        inside = provably_inside(s, w.at, extent)
        indices.append(text if inside else f"cutlass.min({text}, {py_factor(extent, s.scope)} - 1)")
    return f"{b.tensor(ref.name)}[{join(indices)}]"


def provably_inside(s: TaskState, index: Expr, extent: Expr) -> bool:
    """Whether 0 <= index < extent for every value of its unknowns, from the bounds of loops and of the tile space."""
    known = intervals(s.builder.kernel)
    known.update({n: Interval(interval(e, known, s.scope.env).low) for n, e in s.lows.items()})
    low = interval(index, known, s.scope.env).low
    if low is None or low < 0:
        return False
    highest = _highest(s, index)
    if highest is None:
        return False
    room = canonical(Binary("-", Binary("-", extent, highest), Const(1)), s.scope.env)
    if room.value is not None:
        return room.value >= 0
    return False


def _highest(s: TaskState, e: Expr) -> Expr | None:
    """The largest value as an expression: names replaced by their last values, where those are known."""
    p = canonical(e, s.scope.env)
    total: Expr = Const(0)
    for monomial, coefficient in p.terms:
        if coefficient.denominator != 1:
            return None
        if not monomial:
            total = Binary("+", total, Const(int(coefficient)))
            continue
        if len(monomial) != 1 or monomial[0][1] != 1 or monomial[0][0].args or coefficient < 0:
            return None
        name = monomial[0][0].head
        last = s.lasts.get(name)
        if last is None:
            return None
        total = Binary("+", total, Binary("*", Const(int(coefficient)), last))
    return total


def store_element(s: TaskState, w: Work, step: CallStep, target: Ref, value: Expr) -> Statement:
    b = s.builder
    tensor = b.kernel.tensors[target.name]
    assert target.window is not None
    conditions, indices = [], []
    for x, extent in zip(target.window, tensor.shape, strict=True):
        assert isinstance(x, Index)
        text = s.py(x.at)
        indices.append(text)
        if not provably_inside(s, x.at, extent):
            conditions.append(f"{text} < {py(extent, s.scope)}")
    printer = Printer(s.scope, lambda leaf: _scalar_leaf(s, w, step, leaf), w.span)
    if "where" in w.args:
        conditions.append(printer.print(prune(w.args["where"].expr, s.scope.env), 3))  # type: ignore[union-attr]
    dtype = b.dtype(tensor.dtype)
    text = _converted(printer, value, dtype, b.dtype_word(tensor.dtype))
    values = {
        "target": f"{b.tensor(target.name)}[{join(indices)}]",
        "value": text,
        "condition": " and ".join(conditions),
    }
    return Statement("ops/store_element", values, s.note(step))


def _converted(printer: Printer, value: Expr, dtype: str, word: str) -> str:
    if isinstance(value, Name):  # a token as it was loaded: converted once, exactly if the types are equal
        leaf = printer.resolve(value)
        return (
            f"{dtype}({leaf.text.removeprefix('Float32(').removesuffix(')')})"
            if leaf.number == "float"
            else f"{dtype}({leaf.text})"
        )
    return f"{dtype}({printer.float(value) if DTYPES[word].kind == 'float' else printer.print(value)})"


def _scalar_leaf(s: TaskState, w: Work, step: CallStep, leaf: Name | Ref | Call) -> Leaf:
    """A name or reference in the value of an element store: a token or a scalar register field, as float32."""
    if isinstance(leaf, Name):
        token = s.tokens.get(leaf.id)
        if isinstance(token, str):
            return Leaf(f"Float32({token})", "scalar", "float")
        return Leaf(s.py(leaf), "scalar", "int")
    if isinstance(leaf, Ref) and leaf.resource is None:
        return Leaf(f"Float32({element(s, leaf)})", "scalar", "float")
    if isinstance(leaf, Ref) and s.builder.kind(leaf) == "rmem":
        return Leaf(f"Float32({fragment(s, s.builder.field(leaf))}[0])", "scalar", "float")
    refuse(f"`{w.owner}.{w.name}` with this value", w.span)
