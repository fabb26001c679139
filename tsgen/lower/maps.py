"""`map` over WGMMA fragments: one function for each map, one line for each statement.

A thread owns, of every 64 rows, two (r = 0, 1; eight apart), and of every 8 columns a pair: by_row(x)[r, c] is element
c of its row r, and column c of the thread is tile column col0 + 8 * (c // 2) + c % 2 with col0 = 2 * (lane % 4)
(PTX ISA, wgmma accumulator layout). The A operand in registers holds the same elements in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tsgen.lower.context import TaskState
from tsgen.lower.elementwise import Leaf, Printer, Shape, functions_used
from tsgen.lower.errors import refuse
from tsgen.lower.mma import a_operand, accumulator, fragment
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import Scope, py_factor
from tsgen.model.algebra import canonical, is_constant, prune, substitute
from tsgen.model.expr import Binary, Call, Expr, Full, Index, Name, Placed, Ref, Slice, text, walk
from tsgen.model.kernel import Assign, Field, Work
from tsgen.model.ops import accesses, assigns
from tsgen.model.steps import CallStep

_ROW_FUNCTIONS = ("rows", "rowmax", "rowsum", "partial_rowsum", "warp_rowsum")
_REDUCE = {"rowmax": "fmax", "rowsum": "add", "partial_rowsum": "add"}


@dataclass
class _Function:
    """One map's function while it is written."""

    s: TaskState
    work: Work
    params: dict[str, str] = field(default_factory=dict)  # parameter -> what the call passes
    annotations: dict[str, str] = field(default_factory=dict)
    temporaries: dict[str, tuple[Shape, str]] = field(default_factory=dict)  # name -> shape, number
    views: dict[str, str] = field(default_factory=dict)  # fragment -> by_row view
    hoisted: dict[str, str] = field(default_factory=dict)  # text of a column's element -> temporary
    columns_of: str | None = None
    uses_rows: bool = False
    uses_columns: bool = False
    part: bool = False  # over a run of columns that the call names


def _statements(s: TaskState, w: Work) -> list[tuple[Assign, Expr]]:
    """The statements of a map that do something in this variant."""
    pairs = [(a, prune(a.value, s.scope.env)) for a in assigns(w)]
    return [(a, e) for a, e in pairs if not _is_identity(s, w, a, e)]


def is_column_wise(s: TaskState, w: Work) -> bool:
    """Whether a map only changes accumulator elements in place, each on its own: it may be done column by column."""
    targets = set()
    for a, e in _statements(s, w):
        if any(isinstance(c, Call) and c.function in _ROW_FUNCTIONS for c in walk(e)):
            return False
        if f"set.{a.name}" not in w.spans:
            continue
        field = s.builder.field(Ref(w.owner, None, a.name))
        if accumulator(s.builder, field) is None:
            return False
        targets.add(a.name)
    reads = {r.name for _, e in _statements(s, w) for r in walk(e) if isinstance(r, Ref) and r.resource == w.owner}
    return len(targets) == 1 and reads <= targets


def touches(s: TaskState, w: Work, c: CallStep) -> bool:
    """Whether a step uses the field that the map changes."""
    other = s.builder.kernel.work(c.target, c.method) if c.kind == "work" else None
    if other is None:
        return False
    names = {a.name for a in assigns(w) if f"set.{a.name}" in w.spans}
    return any(a.ref.resource == w.owner and a.ref.name in names for a in accesses(other))


def stored_columns(s: TaskState, w: Work, c: CallStep, var: str) -> str | None:
    """This thread's columns in the slice that a store takes of the map's field, over the loop variable; else None."""
    store = s.builder.kernel.work(c.target, c.method)
    value = store.args.get("value") if store is not None and store.op == "store" else None
    if not isinstance(value, Placed) or not isinstance(value.expr, Ref) or value.expr.window is None:
        return None
    window = value.expr.window[-1]
    if not isinstance(window, Slice) or not isinstance(value.expr.window[0], Full):
        return None
    passed = {n: p.expr for n, p in c.args.items()}
    start, length = substitute(window.start, passed), substitute(window.length, passed)
    if canonical(start, s.scope.env) != canonical(Binary("*", Name(var), length), s.scope.env):
        return None
    columns = py_factor(length, Scope(s.scope.env, s.builder.constants))
    return f"range({{var}} * {columns} // 4, ({{var}} + 1) * {columns} // 4)"


def lower_map(s: TaskState, w: Work, step: CallStep, arguments: dict[str, str], part: str | None) -> Statement | None:
    """The call of a map's function, or None if the map does nothing in this variant.

    `part` is a range of the thread's columns to do, or None for all of them.
    """
    b = s.builder
    statements = _statements(s, w)
    if not statements:
        return None
    filled = _fill(s, w, statements)
    if filled is not None:
        return Statement("ops/call", filled, s.note(step))
    f = _Function(s, w, part=part is not None)
    pack = _pack(f, statements) if part is None else None
    lines = pack if pack is not None else _lines(f, statements)
    name = f"{w.owner}_{w.name}"
    if name not in b.functions:
        for a in assigns(w):
            for used in sorted(functions_used(a.value, s.scope.env)):
                if used in ("erf", "gelu"):
                    b.functions.setdefault("erf", Statement("functions/erf"))
                if used != "erf":
                    b.functions.setdefault(used, Statement(f"functions/{used}"))
        b.functions.setdefault("fragments", Statement("functions/fragments", {"reductions": False}))
        doc = "; ".join(f"{a.name} = {text(e)}" for a, e in statements)
        if any(isinstance(c, Call) and c.function in _REDUCE for _, e in statements for c in walk(e)):
            b.functions["fragments"] = Statement("functions/fragments", {"reductions": True})
        values = {
            "name": b.function_name(name),
            "params": [f"{p}: {f.annotations[p]}" if p in f.annotations else p for p in f.params],
            "doc": doc if len(doc) < 100 else None,
            "lines": lines,
        }
        b.functions[name] = Statement("functions/map", values, b.note(w.span.line, f"{w.owner}.{w.name}"))
    args = [arguments.get(p, passed) for p, passed in f.params.items()]
    if part is not None:
        args[-1] = part
    return Statement("ops/call", {"function": b.functions[name].values["name"], "args": args}, s.note(step))


def _fill(s: TaskState, w: Work, statements: list[tuple[Assign, Expr]]) -> dict[str, object] | None:
    """`c = 0.0` alone: the register tensor's own fill."""
    if len(statements) != 1 or f"set.{statements[0][0].name}" not in w.spans:
        return None
    a, e = statements[0]
    if not is_constant(e, s.scope.env):
        return None
    printer = Printer(s.scope, lambda leaf: Leaf("", "scalar", "float"), w.span)
    name = fragment(s, s.builder.field(Ref(w.owner, None, a.name)))
    return {"function": f"{name}.fill", "args": [printer.float(e)]}


def _is_identity(s: TaskState, w: Work, a: Assign, e: Expr) -> bool:
    while isinstance(e, Call) and e.function == "activation" and _word(s, e.args[0]) == "none":
        e = e.args[1]
    return isinstance(e, Ref) and e == Ref(w.owner, None, a.name)


def _word(s: TaskState, e: Expr) -> str:
    from tsgen.model.algebra import evaluate

    return str(evaluate(e, s.scope.env))


def _field(f: _Function, ref: Ref) -> Field:
    return f.s.builder.field(ref)


def _field_shape(f: _Function, field: Field) -> Shape:
    if not field.shape or all(x == 1 for x in field.shape):
        return "scalar"
    if field.shape[-1] == 1 or field.rowwise:
        return "row"
    b = f.s.builder
    if accumulator(b, field) is None and a_operand(b, field) is None:
        refuse(f"`map` over `{field.owner}.{field.name}`, which is no WGMMA fragment", f.work.span)
    return "tile"


def _param(f: _Function, name: str, passed: str, annotation: str | None = None) -> str:
    f.params.setdefault(name, passed)
    if annotation:
        f.annotations[name] = annotation
    return name


def _fragment(f: _Function, field: Field) -> str:
    """The field as a parameter of the function."""
    name = fragment(f.s, field)
    return _param(f, name, name, "cute.Tensor")


def _tile(f: _Function, field: Field) -> str:
    """The by_row view of a tile field."""
    name = _fragment(f, field)
    if name not in f.views:
        view = (
            field.name
            if field.name not in f.params and field.name not in ("r", "c", "row0", "col0")
            else f"{field.name}_"
        )
        f.views[name] = view
    f.columns_of = f.columns_of or f.views[name]
    return f.views[name]


def _resolve(f: _Function, leaf: Name | Ref | Call) -> Leaf:
    match leaf:
        case Call(function="rows"):
            f.uses_rows = True
            return Leaf("(row0 + row_of(r))", "row", "int")
        case Call(function="cols"):
            f.uses_columns = True
            return Leaf("(col0 + col_of(c))", "col", "int")
        case Call():
            return _reduction(f, leaf)
        case Name():
            return _name(f, leaf)
        case Ref(resource=None):
            return _tensor_element(f, leaf)
        case Ref():
            return _field_element(f, leaf)


def _name(f: _Function, leaf: Name) -> Leaf:
    if leaf.id in f.temporaries:
        shape, number = f.temporaries[leaf.id]
        return Leaf(_local(leaf.id), shape, number)  # type: ignore[arg-type]
    s = f.s
    if leaf.id in s.builder.constants:
        value = s.scope.env[leaf.id]
        number = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "float"
        return Leaf(s.builder.constants[leaf.id], "scalar", number)  # type: ignore[arg-type]
    passed = s.scope.names[leaf.id]
    symbol = s.builder.kernel.symbols.get(leaf.id)
    number = "int"
    if symbol is not None and symbol.kind == "scalar":
        dtype = s.builder.dtype_word(s.builder.kernel.tensors[leaf.id].dtype)
        number = "float" if dtype.startswith(("f", "bf", "tf")) else "int"
    elif symbol is not None and symbol.kind == "let":
        number = _let_number(f, leaf.id)
    return Leaf(_param(f, passed, passed), "scalar", number)  # type: ignore[arg-type]


def _let_number(f: _Function, name: str) -> str:
    let = next(x for x in f.s.builder.kernel.launch.lets if x.name == name)
    printer = Printer(f.s.scope, lambda leaf: Leaf("", "scalar", _leaf_number(f, leaf)), f.work.span)  # type: ignore[arg-type]
    return printer.number(prune(let.value, f.s.scope.env))


def _leaf_number(f: _Function, leaf: Name | Ref | Call) -> str:
    if isinstance(leaf, Name):
        symbol = f.s.builder.kernel.symbols.get(leaf.id)
        if symbol is not None and symbol.kind == "let":
            return _let_number(f, leaf.id)
        if symbol is not None and symbol.kind == "scalar":
            dtype = f.s.builder.dtype_word(f.s.builder.kernel.tensors[leaf.id].dtype)
            return "float" if dtype.startswith(("f", "bf", "tf")) else "int"
    return "int"


def _field_element(f: _Function, ref: Ref) -> Leaf:
    if f.s.builder.kind(ref) != "rmem" or ref.window is not None:
        refuse(f"`{text(ref)}` in a map", f.work.span, "a map works on whole register fields")
    field = _field(f, ref)
    shape = _field_shape(f, field)
    if shape == "tile":
        element = f"{_tile(f, field)}[r, c]"
    else:
        element = f"{_fragment(f, field)}[{'r' if shape == 'row' else '0'}]"
    if f.s.builder.dtype_word(field.dtype) != "f32":
        element = f"Float32({element})"
    return Leaf(element, shape, "float")


def _tensor_element(f: _Function, ref: Ref) -> Leaf:
    b = f.s.builder
    tensor = b.kernel.tensors[ref.name]
    if ref.window is None or not all(isinstance(w, Index) for w in ref.window):
        refuse(
            f"`{text(ref)}` in a map", f.work.span, "a map reads tensors by element, as in `bias[n*tile_n + cols(c)]`"
        )
    printer = _printer(f)
    name = b.tensor(ref.name)
    _param(f, name, name, "cute.Tensor")
    indices, shape = [], "scalar"
    for w, extent in zip(ref.window, tensor.shape, strict=True):
        assert isinstance(w, Index)
        index = printer.print(prune(w.at, f.s.scope.env))
        limit = Printer(f.s.scope, lambda leaf: _resolve(f, leaf), f.work.span).print(extent, 8)
        indices.append(f"cutlass.min({index}, {limit} - 1)")  # elements past the edge are clamped to it
        part = printer.shape(w.at)
        shape = part if shape == "scalar" else shape if part == "scalar" else "tile"
    dtype = b.dtype_word(tensor.dtype)
    number = "float" if dtype.startswith(("f", "bf", "tf")) else "int"
    element = f"{name}[{', '.join(indices)}]"
    if dtype not in ("f32", "i32"):
        element = f"Float32({element})" if number == "float" else f"Int32({element})"
    if shape == "col":
        used = f.hoisted.values()
        f.hoisted.setdefault(element, f"{ref.name}_c" if f"{ref.name}_c" not in used else f"{ref.name}_c{len(used)}")
        element = f.hoisted[element]
    return Leaf(element, shape, number)  # type: ignore[arg-type]


def _reduction(f: _Function, e: Call) -> Leaf:
    argument = prune(e.args[0], f.s.scope.env)
    printer = _printer(f)
    op = _REDUCE.get(e.function)
    if op is None:
        refuse(f"`{e.function}` over a WGMMA fragment", f.work.span)
    shape = printer.shape(argument)
    if shape == "row":  # the shares of a row, one in each lane of the quad
        return Leaf(f"quad({op}, {printer.float(argument)})", "row", "float")
    if not isinstance(argument, Ref):
        refuse(f"`{e.function}` of an expression", f.work.span, "assign the expression to a field first")
    folded = f"fold({op}, {_tile(f, _field(f, argument))}, r)"
    return Leaf(folded if e.function == "partial_rowsum" else f"quad({op}, {folded})", "row", "float")


def _printer(f: _Function) -> Printer:
    return Printer(f.s.scope, lambda leaf: _resolve(f, leaf), f.work.span)


def _local(name: str) -> str:
    return name if name not in ("r", "c", "row0", "col0") else f"{name}_"


def _pack(f: _Function, statements: list[tuple[Assign, Expr]]) -> list[str] | None:
    """`p = s` between fragments of different types: converted eight elements at a time, which packs without spills."""
    if len(statements) != 1 or not isinstance(statements[0][1], Ref) or statements[0][1].resource is None:
        return None
    a, e = statements[0]
    assert isinstance(e, Ref)
    target = _field(f, Ref(f.work.owner, None, a.name))
    source = _field(f, e)
    if _field_shape(f, target) != "tile" or _field_shape(f, source) != "tile":
        return None
    to, origin = _fragment(f, target), _fragment(f, source)
    return [
        "block = cute.make_layout(8)",
        f"for i in cutlass.range_constexpr(0, cute.size({origin}), 8):",
        f"    part = cute.make_tensor({origin}.iterator + i, block).load()",
        f"    cute.make_tensor({to}.iterator + i, block).store(part.to({to}.element_type))",
    ]


def _lines(f: _Function, statements: list[tuple[Assign, Expr]]) -> list[str]:
    printer = _printer(f)
    compiled: list[tuple[Shape, str, bool]] = []
    for a, e in statements:
        target = Ref(f.work.owner, None, a.name) if f"set.{a.name}" in f.work.spans else None
        value = printer.float(e) if target is not None or printer.number(e) == "float" else printer.print(e)
        if target is None:
            f.temporaries[a.name] = (printer.shape(e), printer.number(e))
            compiled.append((printer.shape(e), f"{_local(a.name)} = {value}", True))
            continue
        field = _field(f, target)
        shape = _field_shape(f, field)
        left = _field_element(f, target).text
        left = left.removeprefix("Float32(").removesuffix(")") if left.startswith("Float32(") else left
        if f.s.builder.dtype_word(field.dtype) != "f32":
            value = f"{_fragment(f, field)}.element_type({value})"
        compiled.append((shape, f"{left} = {value}", False))
    return _head(f) + list(_nest(f, compiled))


def _head(f: _Function) -> list[str]:
    """Views of fragments, and where the thread's elements lie in the tile. Completes the parameters."""
    lines = [f"{view} = by_row({name})" for name, view in f.views.items()]
    if f.uses_rows or f.uses_columns:
        f.params.setdefault("thread", f.s.scope.names["thread"])
    if f.uses_rows:
        lines.append("row0 = thread // 32 * 16 + thread % 32 // 4")
    if f.uses_columns:
        lines.append("col0 = thread % 4 * 2")
    if f.part:
        f.params["part"] = ""
        f.annotations["part"] = "cutlass.Constexpr"
    return lines


def _nest(f: _Function, compiled: list[tuple[Shape, str, bool]]) -> Iterator[str]:
    """The statements in their loops: rows outside where something is said of rows, else columns outside."""
    scalars = [line for shape, line, _ in compiled if shape == "scalar"]
    yield from scalars
    rest = [(shape, line) for shape, line, _ in compiled if shape != "scalar"]
    rows = _row_count(f)
    if not any(shape == "row" for shape, _ in rest):
        if not rest:
            return
        yield "for c in part:" if f.part else f"for c in columns({f.columns_of}):"
        yield from (f"    {name} = {text}" for text, name in f.hoisted.items())
        yield from (f"    {line}" for shape, line in rest if shape == "col")
        yield f"    for r in cutlass.range_constexpr({rows}):"
        yield from (f"        {line}" for shape, line in rest if shape != "col")
        return
    yield f"for r in cutlass.range_constexpr({rows}):"
    inner = False
    for shape, line in rest:
        if shape == "row":
            inner = False
            yield f"    {line}"
            continue
        if not inner:
            yield f"    for c in columns({f.columns_of}):"
            yield from (f"        {name} = {text}" for text, name in f.hoisted.items())
            inner = True
        yield f"        {line}"


def _row_count(f: _Function) -> str:
    for x in f.s.builder.kernel.resources[f.work.owner].fields.values():
        if len(x.shape) >= 2:
            groups = max(1, f.s.num_warps // 4)
            return str(max(1, x.shape[-2] // (64 * groups)) * 2)
    return "2"
