"""Single values in element expressions: what kind of number they are, and how an element is read as one."""

from __future__ import annotations

from tsgen.lower.context import TaskState
from tsgen.lower.elementwise import Leaf, Number, Printer
from tsgen.lower.tokens import ScalarToken
from tsgen.model.algebra import prune
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Call, Expr, Name, Ref

_REGISTER = ("f32", "i32", "i64", "u32", "u64")  # elements that arithmetic takes as they are


def word_number(word: str) -> Number:
    """The kind of number of a dtype's elements."""
    kind = DTYPES[word].kind
    return "float" if kind == "float" else "bool" if kind == "bool" else "int"


def as_number(text: str, word: str | None) -> Leaf:
    """An element of a dtype (None: what a body made) as float32, or as an integer of at least 32 bits."""
    if word is None:
        return Leaf(f"Float32({text})", "scalar", "float")
    number = word_number(word)
    if word not in _REGISTER and number != "bool":
        text = f"{'Float32' if number == 'float' else 'Int32'}({text})"
    return Leaf(text, "scalar", number)


def name_number(s: TaskState, name: str) -> Number:
    """The kind of number of a name of the kernel, a token, or an index of the task."""
    kernel = s.builder.kernel
    if name in s.scope.env:
        value = s.scope.env[name]
        return "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
    token = s.tokens.get(name)
    if isinstance(token, ScalarToken):
        return "float" if token.word is None else word_number(token.word)
    symbol = kernel.symbols.get(name)
    if symbol is not None and symbol.kind == "scalar":
        return word_number(s.builder.dtype_word(kernel.tensors[name].dtype))
    if symbol is not None and symbol.kind == "let":
        return number_of(s, next(x.value for x in kernel.launch.lets if x.name == name))
    return "int"


def number_of(s: TaskState, e: Expr) -> Number:
    """The kind of number of an expression over such names, elements of tensors and register values."""
    printer = Printer(s.scope, lambda leaf: Leaf("", "scalar", _number(s, leaf)), s.builder.kernel.span)
    return printer.number(prune(e, s.scope.env))


def _number(s: TaskState, leaf: Name | Ref | Call) -> Number:
    b = s.builder
    if isinstance(leaf, Name):
        return name_number(s, leaf.id)
    if isinstance(leaf, Ref):
        dtype = b.kernel.tensors[leaf.name].dtype if leaf.resource is None else b.field(leaf).dtype
        return word_number(b.dtype_word(dtype))
    return "int"
