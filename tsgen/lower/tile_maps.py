"""Element expressions over tiles that are spread over threads: `map` over fields and tokens, `value` and `where`.

Each thread computes its own elements, in float32 (integers among themselves as integers). One function for each work,
one line for each statement; what it reads from memory is loaded before the call, what it writes there is stored after.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tsgen.lower import elements
from tsgen.lower.context import TaskState
from tsgen.lower.elementwise import Leaf, Printer, Shape, functions_used
from tsgen.lower.elementwise import join as join_shapes
from tsgen.lower.errors import refuse
from tsgen.lower.leaves import as_number, name_number, number_of, word_number
from tsgen.lower.mma import a_operand, accumulator, fragment
from tsgen.lower.names import Namer
from tsgen.lower.program import Statement, assign
from tsgen.lower.spread import field_spread, spread_of
from tsgen.lower.tile_copies import convert, fresh, read_tile, write_tile
from tsgen.lower.tokens import ScalarToken, Spread, TileToken
from tsgen.model.algebra import prune, substitute
from tsgen.model.expr import Call, Expr, Index, Name, Placed, Ref, text, walk
from tsgen.model.kernel import Field, Work
from tsgen.model.ops import assigns, map_target
from tsgen.model.steps import CallStep

_TILE_INDEX = ("rows", "cols")


def of_wgmma(s: TaskState, f: Field) -> bool:
    """Whether a register field has the spread of a WGMMA's accumulator or A operand."""
    return accumulator(s.builder, f) is not None or a_operand(s.builder, f) is not None


def is_tile_map(s: TaskState, w: Work) -> bool:
    """Whether a map works on tiles spread over threads, or on single values: on no WGMMA fragment and no row field."""
    b = s.builder
    for a in assigns(w):
        target = map_target(w, a)
        for r in (*walk(a.value), *([target] if target is not None else [])):
            if not isinstance(r, Ref) or r.resource is None or b.kind(r) != "rmem":
                continue
            f = b.field(r)
            row = bool(f.shape) and max(f.shape) > 1 and (f.shape[-1] == 1 or f.rowwise)
            if of_wgmma(s, f) or row:
                return False
    return True


@dataclass
class _Function:
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
    before: list[Statement] = field(default_factory=list)

    def __post_init__(self) -> None:
        for taken in (*self.s.builder.constants.values(), "i", "j", "e", "row", "col", "thread"):
            self.names.new(taken)

    @property
    def element(self) -> str:
        if not self.by_index:
            return "i"
        i, j = ("i" if self.spread.reps[0] > 1 else "0"), ("j" if self.spread.reps[1] > 1 else "0")
        return f"e, {i}, {j}" if self.spread.rank == 2 else f"e, {j}"

    def param(self, wish: str, passed: str) -> str:
        """The parameter for a value; one that is passed already is found again."""
        known = next((p for p, value in self.params.items() if value == passed), None)
        if known is None:
            known = self.names.new(wish)
            self.params[known] = passed
        return known

    def tile(self, key: str, wish: str, token: TileToken) -> str:
        """The parameter for a tile."""
        if token.spread != self.spread:
            sizes = [f"{x.rows}x{x.cols}" for x in (token.spread, self.spread)]
            refuse(f"`{key}`, a tile of {sizes[0]}, in `{_title(self.work)}` over tiles of {sizes[1]}", self.work.span)
        self.tiles[key] = self.param(wish, token.name)
        self.words[self.tiles[key]] = token.word
        return self.tiles[key]

    def printer(self) -> Printer:
        return Printer(self.s.scope, lambda leaf: _leaf(self, leaf), self.work.span)


def lower_map(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """A `map` over tiles, or over single values."""
    targets = [t for a in assigns(w) if (t := map_target(w, a)) is not None]
    spread = next((x for r in (*targets, *_tiles(s, w, step)) if (x := _spread(s, w, r)) is not None), None)
    if spread is None:
        return _scalar_map(s, w, step)
    statements = [(a, prune(a.value, s.scope.env)) for a in assigns(w)]
    f = _Function(s, w, step, spread, _uses_index(e for _, e in statements))
    read = {text(r) for _, e in statements for r in walk(e) if isinstance(r, Ref)}
    lines, after = list[str](), list[tuple[Ref, TileToken]]()
    for a, e in statements:
        target = map_target(w, a)
        if target is None:
            _temporary(f, a.name, e, lines)
            continue
        name = _target(f, target, text(target) in read, after)
        lines.append(f"{name}[{f.element}] = {_converted(f, e, f'{name}.element_type', f.words[name])}")
    doc = "; ".join(f"{a.name} = {text(e)}" for a, e in statements)
    out = [*f.before, _call(f, f"{w.owner}_{w.name}", doc, lines, [e for _, e in statements])]
    for ref, token in after:
        out += write_tile(s, w, ref, token)
    return [replace(out[0], note=s.note(step)), *out[1:]]


def _tiles(s: TaskState, w: Work, step: CallStep) -> Iterable[Ref | TileToken]:
    """The fields and tokens that a work's expressions name."""
    for a in assigns(w):
        for e in walk(prune(a.value, s.scope.env)):
            if isinstance(e, Ref) and e.resource is not None:
                yield e
            elif isinstance(e, Name) and isinstance(token := _token(s, w, step, e.id), TileToken):
                yield token


def _spread(s: TaskState, w: Work, x: Ref | TileToken) -> Spread | None:
    if isinstance(x, TileToken):
        return x.spread
    f = s.builder.field(x)
    if all(n == 1 for n in f.shape):
        return None
    return field_spread(s, f) if s.builder.kind(x) == "rmem" else spread_of(s, w, x)


def _token(s: TaskState, w: Work, step: CallStep, name: str) -> TileToken | ScalarToken | None:
    """The token that a call passes for an argument of the work."""
    given = step.args.get(name)
    return s.tokens.get(given.expr.id) if given is not None and isinstance(given.expr, Name) else None


def _target(f: _Function, ref: Ref, read: bool, after: list[tuple[Ref, TileToken]]) -> str:
    """The parameter for a field that the map writes; shared fields are stored after the call."""
    s, b = f.s, f.s.builder
    key = text(ref)
    if key in f.tiles:
        if b.kind(ref) == "smem" and all(r != ref for r, _ in after):
            after.append((ref, _known(f, key)))
        return f.tiles[key]
    x = b.field(ref)
    if b.kind(ref) == "rmem":
        return f.tile(key, x.name, _register(f, ref))
    name = s.names.new(x.name)
    if read:
        token, loads = read_tile(s, f.work, ref, name)
        f.before += loads
    else:
        token, made = fresh(s, name, f.spread, b.dtype(x.dtype), b.dtype_word(x.dtype))
        f.before.append(made)
    after.append((ref, token))
    return f.tile(key, x.name, token)


def _known(f: _Function, key: str) -> TileToken:
    """The tile behind a parameter, as a token."""
    parameter = f.tiles[key]
    return TileToken(f.params[parameter], f.spread, "", f.words[parameter])


def _register(f: _Function, ref: Ref) -> TileToken:
    """A register field as a tile."""
    s, b = f.s, f.s.builder
    x = b.field(ref)
    spread = field_spread(s, x)
    if spread is None or of_wgmma(s, x):
        refuse(f"`{text(ref)}` in `{_title(f.work)}` beside tiles that are spread by rows", f.work.span)
    return TileToken(fragment(s, x), spread, b.dtype(x.dtype), b.dtype_word(x.dtype))


def _temporary(f: _Function, name: str, e: Expr, lines: list[str]) -> None:
    p = f.printer()
    number = p.number(e)
    value = p.float(e) if number == "float" else p.print(e)
    local = f.names.new(name)
    lines.append(f"{local} = {value}")
    f.temporaries[name] = Leaf(local, p.shape(e), number)


def _converted(f: _Function, e: Expr, dtype: str, word: str) -> str:
    """An element expression as an element of a dtype."""
    p = f.printer()
    value = p.float(e) if word_number(word) == "float" else p.print(e)
    return value if word == "f32" else f"{dtype}({value})"


def value(s: TaskState, w: Work, step: CallStep, spread: Spread, dtype: Expr) -> tuple[TileToken, list[Statement]]:
    """The value of a `store` as a tile of its target's dtype, and what computes it."""
    b = s.builder
    placed = w.args["value"]
    assert isinstance(placed, Placed)
    e = prune(placed.expr, s.scope.env)
    to, word = b.dtype(dtype), b.dtype_word(dtype)
    wish = f"{w.owner}_tile"
    if isinstance(e, Name) and isinstance(token := _token(s, w, step, e.id), TileToken):
        return _as(s, token, wish, to, word)
    f = _Function(s, w, step, spread, _uses_index([e]))
    if isinstance(e, Ref) and not _is_element(e):
        token = _operand(f, e)
        converted, made = _as(s, token, wish, to, word)
        return converted, [*f.before, *made]
    out, made_out = fresh(s, s.names.new(wish), spread, to, word)
    name = f.tile("=", w.owner, out)
    line = f"{name}[{f.element}] = {_converted(f, e, f'{name}.element_type', word)}"
    call = _call(f, f"{w.owner}_{w.name}", text(e), [line], [e])
    return out, [*f.before, made_out, call]


def _as(s: TaskState, token: TileToken, wish: str, dtype: str, word: str) -> tuple[TileToken, list[Statement]]:
    """A tile in another type."""
    if token.word == word:
        return token, []
    out, made = fresh(s, s.names.new(wish), token.spread, dtype, word)
    return out, [made, convert(token, out)]


def varies(s: TaskState, w: Work, where: Expr) -> bool:
    """Whether a condition differs from element to element of a tile."""
    for e in walk(where):
        if isinstance(e, Call) and e.function in _TILE_INDEX:
            return True
        if isinstance(e, Name) and isinstance(s.tokens.get(e.id), TileToken):
            return True
        if isinstance(e, Ref) and e.resource is not None and any(n != 1 for n in s.builder.field(e).shape):
            return True
    return False


def mask(s: TaskState, w: Work, step: CallStep, where: Expr, spread: Spread) -> tuple[str, list[Statement]]:
    """A tile of truth values for the `where` of a work, and what computes it."""
    placed = w.args["where"]
    assert isinstance(placed, Placed)
    e = prune(placed.expr, s.scope.env)
    f = _Function(s, w, step, spread, _uses_index([e]))
    out, made = fresh(s, s.names.new("keep"), spread, "cutlass.Boolean", "bool")
    name = f.tile("=", "keep", out)
    call = _call(f, f"{w.owner}_{w.name}_where", text(e), [f"{name}[{f.element}] = {f.printer().print(e)}"], [e])
    return out.name, [*f.before, made, call]


def _leaf(f: _Function, leaf: Name | Ref | Call) -> Leaf:
    match leaf:
        case Call(function="rows"):
            return Leaf("row" if f.spread.rank == 2 else "0", "tile", "int")
        case Call(function="cols"):
            return Leaf("col", "tile", "int")
        case Call(function="extent"):
            passed = f.s.py(leaf)
            return Leaf(f.param(passed, passed), "scalar", "int")
        case Call():
            refuse(f"`{leaf.function}` over a tile that is spread over threads", f.work.span)
        case Name():
            return _name(f, leaf.id)
        case Ref():
            return _reference(f, leaf)


def _name(f: _Function, name: str) -> Leaf:
    s = f.s
    if name in f.temporaries:
        return f.temporaries[name]
    token = _token(s, f.work, f.step, name)
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


def _tile_element(f: _Function, parameter: str) -> Leaf:
    return replace(as_number(f"{parameter}[{f.element}]", f.words[parameter]), shape="tile")


def _reference(f: _Function, ref: Ref) -> Leaf:
    b = f.s.builder
    if _is_element(ref):
        return _tensor_element(f, ref)
    if ref.resource is not None and b.kind(ref) == "rmem" and all(n == 1 for n in b.field(ref).shape):
        x = b.field(ref)
        return as_number(f"{f.param(x.name, fragment(f.s, x))}[0]", b.dtype_word(x.dtype))
    key = text(ref)
    if key not in f.tiles:
        f.tile(key, ref.name, _operand(f, ref))
    return _tile_element(f, f.tiles[key])


def _operand(f: _Function, ref: Ref) -> TileToken:
    """A tile that an expression reads: a register field, or a window loaded before the call."""
    s, b = f.s, f.s.builder
    bound = substitute(ref, {name: p.expr for name, p in f.step.args.items()})
    assert isinstance(bound, Ref)
    if b.kind(bound) == "rmem":
        if bound.window is not None:
            refuse(f"`{text(ref)}`, part of a register tile", f.work.span)
        return _register(f, bound)
    token, loads = read_tile(s, f.work, bound, s.names.new(f"{ref.name}_tile"))
    f.before += loads
    return token


def _is_element(ref: Ref) -> bool:
    return ref.resource is None and elements.picks_element(ref)


def _tensor_element(f: _Function, ref: Ref) -> Leaf:
    """One element of a tensor, at an index that may depend on the element; clamped to the edge."""
    s, b = f.s, f.s.builder
    tensor = b.kernel.tensors[ref.name]
    p = f.printer()
    name = f.param(ref.name, b.tensor(ref.name))
    indices: list[str] = []
    shape: Shape = "scalar"
    for w, extent in zip(ref.window or (), tensor.shape, strict=True):
        assert isinstance(w, Index)
        at = prune(w.at, s.scope.env)
        indices.append(f"cutlass.min({p.print(at)}, {p.print(extent, 8)} - 1)")
        shape = join_shapes(shape, p.shape(at))
    return replace(as_number(f"{name}[{', '.join(indices)}]", b.dtype_word(tensor.dtype)), shape=shape)


def _uses_index(values: Iterable[Expr]) -> bool:
    return any(isinstance(c, Call) and c.function in _TILE_INDEX for e in values for c in walk(e))


def _call(f: _Function, name: str, doc: str, lines: list[str], values: list[Expr]) -> Statement:
    """The call of the function, which is made unless the module has the same already."""
    b = f.s.builder
    for used in sorted({x for e in values for x in functions_used(e, f.s.scope.env)}):
        if used in ("erf", "gelu"):
            b.functions.setdefault("erf", Statement("functions/erf"))
        if used != "erf":
            b.functions.setdefault(used, Statement(f"functions/{used}"))
    if f.by_index:
        f.params["thread"] = f.spread.index
    typed = [f"{p}: cute.Tensor" if p in f.words else p for p in f.params]
    code = {"params": typed, "doc": doc if len(doc) < 100 else None, "lines": list(_nest(f, lines))}
    key, n = name, 2
    while key in b.functions and {k: b.functions[key].values[k] for k in code} != code:
        key, n = f"{name}_{n}", n + 1
    if key not in b.functions:
        note = b.note(f.work.span.line, _title(f.work))
        b.functions[key] = Statement("functions/map", {"name": b.function_name(key), **code}, note)
    return Statement("ops/call", {"function": b.functions[key].values["name"], "args": list(f.params.values())})


def _nest(f: _Function, lines: list[str]) -> Iterable[str]:
    """The statements in their loops over a thread's elements."""
    first = next(iter(f.words))
    if not f.by_index:
        yield f"for i in cutlass.range_constexpr(cute.size({first})):"
        yield from (f"    {line}" for line in lines)
        return
    said = {word for line in lines for word in re.findall(r"\w+", line)}
    x, pad = replace(f.spread, index="thread"), ""
    i, j = ("i" if x.rank == 2 and x.reps[0] > 1 else "0"), ("j" if x.reps[1] > 1 else "0")
    if i != "0":
        yield f"for i in cutlass.range_constexpr({x.reps[0]}):"
        pad += "    "
    if "row" in said:
        yield f"{pad}row = {x.row(i)}"
    if j != "0":
        yield f"{pad}for j in cutlass.range_constexpr({x.reps[1]}):"
        pad += "    "
    yield f"{pad}for e in cutlass.range_constexpr({x.vector}):"
    if "col" in said:
        yield f"{pad}    col = {x.column(j)} + e"
    yield from (f"{pad}    {line}" for line in lines)


def _scalar_map(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """A map over single values of each thread: assignments in place."""
    b = s.builder
    passed = {name: p.expr for name, p in step.args.items()}
    p = elements.printer(s, w)
    out: list[Statement] = []
    for a in assigns(w):
        e = prune(substitute(a.value, passed), s.scope.env)
        target = map_target(w, a)
        if target is None:
            number = p.number(e)
            name = s.scalar_token(a.name, {"float": "f32", "int": "i32", "bool": "bool"}[number])
            out.append(assign(name, p.float(e) if number == "float" else p.print(e)))
            continue
        x = b.field(target)
        word = b.dtype_word(x.dtype)
        out.append(assign(f"{fragment(s, x)}[0]", elements.converted(s, w, e, b.dtype(x.dtype), word)))
    return [replace(out[0], note=s.note(step)), *out[1:]]


def _title(w: Work) -> str:
    return f"{w.owner}.{w.name}"
