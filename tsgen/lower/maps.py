"""`map` over WGMMA fragments: one function for each map, one line for each statement."""

from __future__ import annotations

from tsgen.lower.context import TaskState
from tsgen.lower.elementwise import Leaf, Printer, functions_used
from tsgen.lower.mapfunction import Function, local
from tsgen.lower.maploops import Columns, Line, nest
from tsgen.lower.mapshapes import Statements, as_written, field_shape, is_field, live_statements
from tsgen.lower.mma import accumulator, fragment, rows_per_thread
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import Scope, py_factor
from tsgen.model.algebra import canonical, is_constant, substitute
from tsgen.model.expr import Binary, Call, Expr, Full, Name, Placed, Ref, Slice, walk
from tsgen.model.kernel import Assign, Work
from tsgen.model.ops import accesses, assigns
from tsgen.model.steps import CallStep

_ROW_FUNCTIONS = ("rows", "rowmax", "rowsum", "partial_rowsum", "warp_rowsum")


def is_column_wise(s: TaskState, w: Work) -> bool:
    """Whether a map only changes accumulator elements in place, each on its own: it may be done column by column."""
    statements = live_statements(s, w)[1]
    targets = set()
    for a, e in statements:
        if any(isinstance(c, Call) and c.function in _ROW_FUNCTIONS for c in walk(e)):
            return False
        if not is_field(w, a):
            continue
        if accumulator(s.builder, s.builder.field(Ref(w.owner, None, a.name))) is None:
            return False
        targets.add(a.name)
    reads = {r.name for _, e in statements for r in walk(e) if isinstance(r, Ref) and r.resource == w.owner}
    return len(targets) == 1 and reads <= targets


def touches(s: TaskState, w: Work, c: CallStep) -> bool:
    """Whether a step uses the field that the map changes."""
    other = s.builder.kernel.work(c.target, c.method) if c.kind == "work" else None
    if other is None:
        return False
    names = {a.name for a in assigns(w) if is_field(w, a)}
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
    shapes, statements = live_statements(s, w)
    if not statements:
        return None
    alone = (_pack(s, w, step, statements) or _fill(s, w, step, statements)) if part is None else None
    if alone is not None:
        return alone
    b.functions.setdefault("fragments", Statement("functions/fragments", {"reductions": False}))
    f = Function(s, w, shapes)
    if part is not None:
        f.param("part", part, "cutlass.Constexpr")
    lines = _lines(f, statements, "part" if part is not None else None)
    name = f"{w.owner}_{w.name}"
    if name not in b.functions:
        _activations(s, statements)
        doc = as_written(s, w)
        values = {
            "name": b.function_name(name),
            "params": f.signature(),
            "doc": doc if len(doc) < 100 else None,
            "lines": lines,
        }
        b.functions[name] = Statement("functions/map", values, b.note(w.span.line, f"{w.owner}.{w.name}"))
    args = [arguments.get(p, f.params[p]) for p in f.ordered()]
    return Statement("ops/call", {"function": b.functions[name].values["name"], "args": args}, s.note(step))


def _activations(s: TaskState, statements: Statements) -> None:
    """Asks for the functions that the printed expressions call."""
    functions = s.builder.functions
    for _, e in statements:
        for used in sorted(functions_used(e, s.scope.env)):
            if used in ("erf", "gelu"):
                functions.setdefault("erf", Statement("functions/erf"))
            if used != "erf":
                functions.setdefault(used, Statement(f"functions/{used}"))


def _pack(s: TaskState, w: Work, step: CallStep, statements: Statements) -> Statement | None:
    """`p = s` between fragments of different types: both hold a thread's elements in the same order."""
    if len(statements) != 1 or not isinstance(statements[0][1], Ref) or statements[0][1].resource is None:
        return None
    target, source = (s.builder.field(r) for r in (Ref(w.owner, None, statements[0][0].name), statements[0][1]))
    if {field_shape(s, x, w) for x in (target, source)} != {"tile"}:
        return None
    s.builder.functions.setdefault("pack", Statement("functions/pack"))
    return Statement("ops/call", {"function": "pack", "args": [fragment(s, target), fragment(s, source)]}, s.note(step))


def _fill(s: TaskState, w: Work, step: CallStep, statements: Statements) -> Statement | None:
    """`c = 0.0` alone: the register tensor's own fill."""
    a, e = statements[0]
    if len(statements) != 1 or not is_field(w, a) or not is_constant(e, s.scope.env):
        return None
    printer = Printer(s.scope, lambda leaf: Leaf("", "scalar", "float"), w.span)
    name = fragment(s, s.builder.field(Ref(w.owner, None, a.name)))
    return Statement("ops/call", {"function": f"{name}.fill", "args": [printer.float(e)]}, s.note(step))


def _lines(f: Function, statements: Statements, part: str | None) -> list[str]:
    printed: list[Line] = []
    for a, e in statements:
        line = _statement(f, a, e)
        for shape, before, name in f.before:
            printed.append(Line(shape, before, name, True, line.view, line.width, shape == "row"))
        f.before.clear()
        printed.append(line)
    return f.head() + list(nest(printed, _rows(f), Columns(part), f.work.span))


def _statement(f: Function, a: Assign, e: Expr) -> Line:
    """One statement; what it needs first is left in f.before."""
    f.tile, f.width = None, 0
    printer, shape = f.printer(), f.shapes.shape(e)
    field = f.s.builder.field(Ref(f.work.owner, None, a.name)) if is_field(f.work, a) else None
    value = printer.float(e) if field is not None or f.shapes.printer().number(e) == "float" else printer.print(e)
    if field is None:
        name = target = local(a.name)
    else:
        shape = field_shape(f.s, field, f.work)
        target = f.field_element(Ref(f.work.owner, None, a.name), assigned=True)
        name = target.partition("[")[0]
        if f.s.builder.dtype_word(field.dtype) != "f32":
            value = f"{f.fragment(field)}.element_type({value})"
    of_rows = shape == "row" or any(f.shapes.is_row(x) for x in walk(e))
    return Line(shape, f"{target} = {value}", name, field is None, f.tile, f.width, of_rows)


def _rows(f: Function) -> int:
    """Rows of the owner's fragments that a thread owns part of."""
    fields = f.s.builder.kernel.resources[f.work.owner].fields.values()
    return next((rows_per_thread(f.s, x) for x in fields if len(x.shape) >= 2), 2)
