"""Single elements of tensors: loads and stores by each thread for itself, kept inside the tensor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tsgen.lower.context import TaskState, join
from tsgen.lower.elementwise import Leaf, Printer
from tsgen.lower.errors import refuse
from tsgen.lower.leaves import as_number, name_number, word_number
from tsgen.lower.mma import fragment
from tsgen.lower.program import Statement, assign
from tsgen.lower.proofs import in_names
from tsgen.lower.pyexpr import py_compared, py_factor
from tsgen.lower.tokens import ScalarToken, TileToken
from tsgen.model.algebra import canonical, is_constant, rebuild
from tsgen.model.bounds import Interval, interval, intervals
from tsgen.model.expr import Binary, Call, Const, Expr, Index, Name, Placed, Ref, walk
from tsgen.model.expr import text as expression_text
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
        inside = w.at == Const(0) or provably_inside(s, w.at, extent)
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
    for bound in _upper_bounds(highest):
        room = in_names(s.builder.kernel, Binary("-", Binary("-", extent, bound), Const(1)))
        least = interval(room, known, s.scope.env).low
        if least is not None and least >= 0:
            return True
    return False


def _upper_bounds(e: Expr) -> Iterator[Expr]:
    """The expression, in which every name counts upwards, with each argument of a `min` in the place of the `min`."""
    least = next((c for c in walk(e) if isinstance(c, Call) and c.function == "min"), None)
    if least is None:
        yield e
        return
    for argument in least.args:
        yield from _upper_bounds(_replaced(e, least, argument))


def _replaced(e: Expr, old: Expr, new: Expr) -> Expr:
    return new if e == old else rebuild(e, lambda x: _replaced(x, old, new))


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


def load_element(s: TaskState, w: Work, step: CallStep, source: Ref, where: Expr | None) -> list[Statement]:
    """One element to a token, or to a scalar register field; zero where the condition does not hold."""
    b = s.builder
    e = b.kernel.tensors[source.name].dtype
    word, text = b.dtype_word(e), element(s, source)
    to = w.args.get("to")
    if to is None:
        name = s.scalar_token(step.results[0], word)
    else:
        assert isinstance(to, Placed) and isinstance(to.expr, Ref)
        field = b.field(to.expr)
        if any(n != 1 for n in field.shape):
            refuse(f"a load of one element into `{field.owner}.{field.name}`", to.span)
        name = f"{fragment(s, field)}[0]"
        if b.dtype_word(field.dtype) != word:
            e, text = field.dtype, f"{b.dtype(field.dtype)}({text})"
    out = assign(name, text)
    if where is None:
        return [replace(out, note=s.note(step))]
    guarded = Statement("blocks/if", {"condition": condition(s, w, where)}, None, (out,))
    return [assign(name, f"{b.dtype(e)}(0)", s.note(step)), guarded]


def store_element(s: TaskState, w: Work, step: CallStep, target: Ref, value: Expr, where: Expr | None) -> Statement:
    """One element by each thread, if it is inside the tensor."""
    b = s.builder
    tensor = b.kernel.tensors[target.name]
    assert target.window is not None
    conditions, indices = [], []
    for x, extent in zip(target.window, tensor.shape, strict=True):
        assert isinstance(x, Index)
        text = s.py(x.at)
        indices.append(text)
        if not provably_inside(s, x.at, extent):
            conditions.append(f"{py_compared(x.at, s.scope)} < {py_compared(extent, s.scope)}")
    if where is not None:
        conditions.append(printer(s, w).print(where, 3))
    word = b.dtype_word(tensor.dtype)
    store = assign(f"{b.tensor(target.name)}[{join(indices)}]", converted(s, w, value, b.dtype(tensor.dtype), word))
    if not conditions:
        return replace(store, note=s.note(step))
    return Statement("blocks/if", {"condition": " and ".join(conditions)}, s.note(step), (store,))


def converted(s: TaskState, w: Work, value: Expr, dtype: str, word: str) -> str:
    """The value of an element expression as an element of a dtype."""
    if isinstance(value, Name):  # a token as it was loaded: not by way of float32
        token = s.tokens.get(value.id)
        if isinstance(token, ScalarToken):
            return token.name if token.word == word else f"{dtype}({token.name})"
    p = printer(s, w)
    text = p.float(value) if word_number(word) == "float" else p.print(value)
    return text if word == "f32" and not is_constant(value, s.scope.env) else f"{dtype}({text})"


def condition(s: TaskState, w: Work, e: Expr) -> str:
    """A condition that each thread evaluates once."""
    return printer(s, w).print(e)


def printer(s: TaskState, w: Work) -> Printer:
    """Prints expressions over single values: names, scalar tokens and register fields, elements of tensors."""
    return Printer(s.scope, lambda leaf: _leaf(s, w, leaf), w.span)


def _leaf(s: TaskState, w: Work, leaf: Name | Ref | Call) -> Leaf:
    b = s.builder
    match leaf:
        case Call(function="extent"):
            return Leaf(s.py(leaf), "scalar", "int")
        case Name():
            token = s.tokens.get(leaf.id)
            if isinstance(token, TileToken):
                refuse(f"the tile `{leaf.id}` as a single value in `{w.owner}.{w.name}`", w.span)
            if isinstance(token, ScalarToken):
                return as_number(token.name, token.word)
            return Leaf(s.py(leaf), "scalar", name_number(s, leaf.id))
        case Ref(resource=None) if picks_element(leaf):
            return as_number(element(s, leaf), b.dtype_word(b.kernel.tensors[leaf.name].dtype))
        case Ref() if leaf.resource is not None and b.kind(leaf) == "rmem" and all(n == 1 for n in b.field(leaf).shape):
            field = b.field(leaf)
            return as_number(f"{fragment(s, field)}[0]", b.dtype_word(field.dtype))
        case _:
            refuse(f"`{expression_text(leaf)}` as a single value in `{w.owner}.{w.name}`", w.span)
