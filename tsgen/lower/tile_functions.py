"""The function of a work over tiles while it is written: its parameters, and what names and references are in it.

Each thread computes its own elements, in float32 (integers among themselves as integers), one line for each statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tsgen.lower import elements
from tsgen.lower.context import TaskState
from tsgen.lower.elementwise import REDUCTIONS, Leaf, Printer, Shape, functions_used
from tsgen.lower.elementwise import join as join_shapes
from tsgen.lower.errors import refuse
from tsgen.lower.leaves import as_number, name_number, number_of, word_number
from tsgen.lower.mma import a_operand, accumulator, fragment
from tsgen.lower.names import Namer
from tsgen.lower.program import Statement
from tsgen.lower.spread import field_spread
from tsgen.lower.tile_compare import compared
from tsgen.lower.tile_copies import read_tile
from tsgen.lower.tile_rows import Line, is_row, reduction, row_element
from tsgen.lower.tokens import ScalarToken, Spread, TileToken
from tsgen.lower.vectors import vector_load
from tsgen.model.algebra import prune, substitute
from tsgen.model.expr import Call, Expr, Index, Name, Ref, text, walk
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep

TILE_INDEX = ("rows", "cols")


@dataclass
class TileFunction:
    """The function of one work while it is written: over parts of tiles, element by element."""

    s: TaskState
    work: Work
    step: CallStep
    spread: Spread
    by_index: bool  # whether elements are named by vector and repetition, for their rows and columns
    names: Namer = field(default_factory=Namer)
    params: dict[str, str] = field(default_factory=dict)  # parameter -> what the call passes
    tiles: dict[str, str] = field(default_factory=dict)  # text of a reference or token -> parameter
    words: dict[str, str] = field(default_factory=dict)  # parameter of a tile -> dtype
    temporaries: dict[str, Leaf] = field(default_factory=dict)
    vectors: dict[str, int] = field(default_factory=dict)  # parameters that are one row for all rows: rank of the tile
    sources: dict[str, Expr] = field(default_factory=dict)  # what temporaries stand for
    loaded: dict[str, str] = field(default_factory=dict)  # vectors of tensors, loaded for each repetition: their text
    typed: set[str] = field(default_factory=set)  # parameters that are registers of row fields
    lines: list[Line] = field(default_factory=list)
    reduced: dict[str, Leaf] = field(default_factory=dict)  # reductions of the statement at hand
    before: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        for taken in (*self.s.builder.constants.values(), "i", "j", "e", "row", "col", "thread"):
            self.names.new(taken)

    @property
    def element(self) -> str:
        if not self.by_index:
            return "i"
        return f"e, {self.i}, {self.j}" if self.spread.rank == 2 else f"e, {self.j}"

    @property
    def i(self) -> str:
        """The repetition down."""
        return "i" if self.spread.rank == 2 and self.spread.reps[0] > 1 else "0"

    @property
    def j(self) -> str:
        """The repetition across."""
        return "j" if self.spread.reps[1] > 1 else "0"

    def param(self, wish: str, passed: str) -> str:
        """The parameter for a value; one that is passed already is found again."""
        known = next((p for p, value in self.params.items() if value == passed), None)
        if known is None:
            known = self.names.new(wish)
            self.params[known] = passed
        return known

    def tile(self, key: str, wish: str, token: TileToken) -> str:
        """The parameter for a tile."""
        if token.spread != self.spread and not self._is_row_of(token.spread):
            sizes = [f"{x.rows}x{x.cols}" for x in (token.spread, self.spread)]
            refuse(f"`{key}`, a tile of {sizes[0]}, in `{title(self.work)}` over tiles of {sizes[1]}", self.work.span)
        self.tiles[key] = self.param(wish, token.name)
        self.words[self.tiles[key]] = token.word
        if token.spread != self.spread:
            self.vectors[self.tiles[key]] = token.spread.rank
        return self.tiles[key]

    def _is_row_of(self, x: Spread) -> bool:
        """Whether a tile of one row lies on the threads as each row of the function's tiles does."""
        mine = (self.spread.cols, self.spread.across, self.spread.vector)
        return self.spread.rank == 2 and x.rows == 1 and (x.cols, x.across, x.vector) == mine

    def printer(self) -> Printer:
        return Printer(self.s.scope, lambda leaf: _leaf(self, leaf), self.work.span, lambda e: compared(self, e))

    def temporary(self, name: str, local: str, e: Expr) -> None:
        """A value under a name of its own."""
        self.sources[name] = substitute(e, self.sources)
        p = self.printer()
        number = p.number(e)
        value = p.float(e) if number == "float" else p.print(e)
        self.lines.append((p.shape(e), f"{local} = {value}"))
        self.temporaries[name] = Leaf(local, p.shape(e), number)

    def converted(self, e: Expr, dtype: str, word: str) -> str:
        """An element expression as an element of a dtype."""
        p = self.printer()
        value = p.float(e) if word_number(word) == "float" else p.print(e)
        return value if word == "f32" else f"{dtype}({value})"


def token_of(s: TaskState, w: Work, step: CallStep, name: str) -> TileToken | ScalarToken | None:
    """The token that a call passes for an argument of the work."""
    given = step.args.get(name)
    return s.tokens.get(given.expr.id) if given is not None and isinstance(given.expr, Name) else None


def register_tile(f: TileFunction, ref: Ref) -> TileToken:
    """A register field as a tile."""
    s, b = f.s, f.s.builder
    x = b.field(ref)
    spread = field_spread(s, x)
    if spread is None or of_wgmma(s, x):
        refuse(f"`{text(ref)}` in `{title(f.work)}` beside tiles that are spread by rows", f.work.span)
    return TileToken(fragment(s, x), spread, b.dtype(x.dtype), b.dtype_word(x.dtype))


def _leaf(f: TileFunction, leaf: Name | Ref | Call) -> Leaf:
    match leaf:
        case Call(function="rows"):
            return Leaf("row" if f.spread.rank == 2 else "0", "row" if f.spread.across == 1 else "tile", "int")
        case Call(function="cols"):
            return Leaf("col", "tile", "int")
        case Call(function="extent"):
            passed = f.s.py(leaf)
            return Leaf(f.param(passed, passed), "scalar", "int")
        case Call():
            return reduction(f, leaf)
        case Name():
            return _name(f, leaf.id)
        case Ref():
            return _reference(f, leaf)


def _name(f: TileFunction, name: str) -> Leaf:
    s = f.s
    if name in f.temporaries:
        return f.temporaries[name]
    token = token_of(s, f.work, f.step, name)
    if isinstance(token, TileToken):
        return _tile_element(f, f.tile(name, name, token))
    if isinstance(token, ScalarToken):
        return as_number(f.param(name, token.name), token.word)
    if name in f.step.args:
        e = f.step.args[name].expr
        return Leaf(f.param(name, s.py(e)), "scalar", number_of(s, e))
    if name in s.builder.constants:
        return Leaf(s.builder.constants[name], "scalar", name_number(s, name))
    return Leaf(f.param(name, s.scope.names[name]), "scalar", name_number(s, name))


def _tile_element(f: TileFunction, parameter: str) -> Leaf:
    if parameter in f.vectors:
        at = f"e, {f.j}" if f.vectors[parameter] == 1 else f"e, 0, {f.j}"
        return replace(as_number(f"{parameter}[{at}]", f.words[parameter]), shape="col")
    return replace(as_number(f"{parameter}[{f.element}]", f.words[parameter]), shape="tile")


def _reference(f: TileFunction, ref: Ref) -> Leaf:
    b = f.s.builder
    if is_element(ref):
        return _tensor_element(f, ref)
    if ref.resource is not None and b.kind(ref) == "rmem" and all(n == 1 for n in b.field(ref).shape):
        x = b.field(ref)
        return as_number(f"{f.param(x.name, fragment(f.s, x))}[0]", b.dtype_word(x.dtype))
    if is_row(f.s, ref):
        return row_element(f, ref)
    key = text(ref)
    if key not in f.tiles:
        f.tile(key, ref.name, operand(f, ref))
    return _tile_element(f, f.tiles[key])


def operand(f: TileFunction, ref: Ref) -> TileToken:
    """A tile that an expression reads: a register field, or a window loaded before the call."""
    s, b = f.s, f.s.builder
    bound = substitute(ref, {name: p.expr for name, p in f.step.args.items()})
    assert isinstance(bound, Ref)
    if b.kind(bound) == "rmem":
        if bound.window is not None:
            refuse(f"`{text(ref)}`, part of a register tile", f.work.span)
        return register_tile(f, bound)
    token, loads = read_tile(s, f.work, bound, s.names.new(f"{ref.name}_tile"))
    f.before += loads
    return token


def is_element(ref: Ref) -> bool:
    return ref.resource is None and elements.picks_element(ref)


def _tensor_element(f: TileFunction, ref: Ref) -> Leaf:
    """One element of a tensor, at an index that may depend on the element; clamped to the edge."""
    s, b = f.s, f.s.builder
    tensor = b.kernel.tensors[ref.name]
    p = f.printer()
    name = f.param(ref.name, b.tensor(ref.name))
    vector = vector_load(f, ref, name)
    if vector is not None:
        return replace(as_number(f"{vector}[e]", b.dtype_word(tensor.dtype)), shape="col")
    indices: list[str] = []
    shape: Shape = "scalar"
    for w, extent in zip(ref.window or (), tensor.shape, strict=True):
        assert isinstance(w, Index)
        at = prune(w.at, s.scope.env)
        indices.append(f"cutlass.min({p.print(at)}, {p.print(extent, 8)} - 1)")
        shape = join_shapes(shape, p.shape(at))
    return replace(as_number(f"{name}[{', '.join(indices)}]", b.dtype_word(tensor.dtype)), shape=shape)


def of_wgmma(s: TaskState, f: Field) -> bool:
    """Whether a register field has the spread of a WGMMA's accumulator or A operand."""
    return accumulator(s.builder, f) is not None or a_operand(s.builder, f) is not None


def uses_index(values: Iterable[Expr]) -> bool:
    return any(isinstance(c, Call) and c.function in TILE_INDEX for e in values for c in walk(e))


def function_call(f: TileFunction, name: str, doc: str, values: list[Expr]) -> Statement:
    """The call of the function, which is made unless the module has the same already."""
    b = f.s.builder
    if any(isinstance(c, Call) and c.function in REDUCTIONS for e in values for c in walk(e)):
        b.functions.setdefault("reductions", Statement("functions/reductions"))
    for used in sorted({x for e in values for x in functions_used(e, f.s.scope.env)}):
        if used in ("erf", "gelu"):
            b.functions.setdefault("erf", Statement("functions/erf"))
        if used != "erf":
            b.functions.setdefault(used, Statement(f"functions/{used}"))
    _drop_unused(f)
    body = list(_nest(f))
    if any(re.search(r"\bthread\b", line) for line in body):
        f.params["thread"] = f.spread.index
    typed = [f"{p}: cute.Tensor" if p in f.words or p in f.typed else p for p in f.params]
    code = {"params": typed, "doc": doc if len(doc) < 100 else None, "lines": body}
    key, n = name, 2
    while key in b.functions and {k: b.functions[key].values[k] for k in code} != code:
        key, n = f"{name}_{n}", n + 1
    if key not in b.functions:
        note = b.note(f.work.span.line, title(f.work))
        b.functions[key] = Statement("functions/map", {"name": b.function_name(key), **code}, note)
    return Statement("ops/call", {"function": b.functions[key].values["name"], "args": list(f.params.values())})


def _drop_unused(f: TileFunction) -> None:
    """Leaves out temporaries that no other statement names: comparisons may have been solved without them."""
    names = {leaf.text for leaf in f.temporaries.values()}
    kept: list[Line] = []
    for shape, line in reversed(f.lines):
        name = line.partition(" = ")[0]
        if name not in names or any(re.search(rf"\b{name}\b", later) for _, later in kept):
            kept.append((shape, line))
    f.lines = kept[::-1]


def _nest(f: TileFunction) -> Iterable[str]:
    """The statements in their loops over a thread's elements: those of rows once for each row, all in order."""
    first = next((p for p in f.words if p not in f.vectors), "")
    if not f.by_index:
        yield f"for i in cutlass.range_constexpr(cute.size({first})):"
        yield from (f"    {line}" for _, line in f.lines)
        return
    said = {word for _, line in f.lines for word in re.findall(r"\w+", line)}
    x, pad = replace(f.spread, index="thread"), ""
    yield from (line for shape, line in f.lines if shape == "scalar")
    if f.i != "0":
        yield f"for i in cutlass.range_constexpr({x.reps[0]}):"
        pad = "    "
    if "row" in said:
        yield f"{pad}row = {x.row(f.i)}"
    inside = False
    for n, (shape, line) in enumerate(f.lines):
        if shape == "row":
            yield f"{pad}{line}"
        elif shape != "scalar":
            if not inside:
                yield from _columns(f, x, pad, "col" in said, _run(f, n))
            yield f"{pad}{'        ' if f.j != '0' else '    '}{line}"
        inside = shape in ("tile", "col") or (inside and shape == "scalar")


def _run(f: TileFunction, start: int) -> str:
    """The statements of elements from one on, up to the next of a row."""
    end = next((i for i, (shape, _) in enumerate(f.lines[start:], start) if shape == "row"), len(f.lines))
    return "\n".join(line for _, line in f.lines[start:end])


def _columns(f: TileFunction, x: Spread, pad: str, numbered: bool, run: str) -> Iterable[str]:
    """The heads of the loops over the elements of a row; vectors that the statements read are loaded between them."""
    if f.j != "0":
        yield f"{pad}for j in cutlass.range_constexpr({x.reps[1]}):"
        pad += "    "
    yield from (f"{pad}{name} = {text}" for name, text in f.loaded.items() if re.search(rf"\b{name}\[", run))
    yield f"{pad}for e in cutlass.range_constexpr({x.vector}):"
    if numbered:
        yield f"{pad}    col = {x.column(f.j)} + e"


def title(w: Work) -> str:
    return f"{w.owner}.{w.name}"
