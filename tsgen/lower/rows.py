"""`store` of row values [M, 1] from registers to global memory: one lane of the four that own a row."""

from __future__ import annotations

from tsgen.lower.binding import bind
from tsgen.lower.context import TaskState, join
from tsgen.lower.errors import refuse
from tsgen.lower.mapfunction import Function
from tsgen.lower.mapshapes import Shapes
from tsgen.lower.mma import rows_per_thread
from tsgen.lower.program import Statement
from tsgen.model.algebra import canonical, prune
from tsgen.model.expr import Binary, Call, Compare, Const, Expr, Full, Index, Placed, Ref, Slice, text
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep


def is_row(field: Field) -> bool:
    """Whether a register field holds a value for each row of a tile."""
    return len(field.shape) == 2 and field.shape[-1] == 1 and field.shape[-2] > 1


def row_limit(s: TaskState, w: Work, where: Expr) -> Expr | None:
    """x of a condition that says `rows(...) < x`; None if it says something else."""
    shapes = Shapes(s, w)
    solved = shapes.solve(where, "rows") if isinstance(where, Compare) else None
    if solved is None or solved.op != (">" if solved.flipped else "<"):
        return None
    return solved.limit


def store_rows(s: TaskState, w: Work, step: CallStep, target: Ref, field: Field) -> Statement:
    """The call of the store's function, which writes to the window `target` of a tensor, cut at its edge."""
    b = s.builder
    bound = bind(w, step)
    f = Function(s, bound, Shapes(s, bound), tensors=frozenset((target.name,)))
    b.functions.setdefault("fragments", Statement("functions/fragments", {"reductions": False}))
    values = _values(f, target, field)
    name = f"{w.owner}_{w.name}"
    params = {"name": b.function_name(name), "params": f.signature()}
    made = Statement("functions/store_rows", {**values, **params}, b.note(w.span.line, f"{w.owner}.{w.name}"))
    if b.functions.setdefault(name, made) != made:
        refuse(f"`{w.owner}.{w.name}` called with different arguments", step.span)
    args = [f.params[p] for p in f.ordered()]
    return Statement("ops/call", {"function": params["name"], "args": args}, s.note(step))


def _values(f: Function, to: Ref, field: Field) -> dict[str, object]:
    """What the template of the function needs."""
    b, printer = f.s.builder, f.printer()
    tensor = b.kernel.tensors[to.name]
    name = f.param(b.tensor(to.name), b.tensor(to.name), "cute.Tensor")
    window = to.window if to.window is not None else tuple(Full() for _ in tensor.shape)
    along = [(x, extent) for x, extent in zip(window, tensor.shape, strict=True) if not isinstance(x, Index)]
    at, extent = along[0]
    length = at.length if isinstance(at, Slice) else extent
    if len(along) != 1 or canonical(length, f.s.scope.env).value != field.shape[-2]:
        refuse(f"a store of {list(field.shape)} to `{text(to)}`", f.work.span)
    start: Expr = at.start if isinstance(at, Slice) else Const(0)
    rows: Expr = Call("rows", (Ref(field.owner, None, field.name),))
    row = f.fresh("row")
    picks = [printer.print(prune(x.at, f.s.scope.env)) if isinstance(x, Index) else row for x in window]
    thread = f.s.scope.names["thread"]
    conditions = [f"{f.param(thread, thread)} % 4 == 0", *_where(f), f"{row} < {printer.print(extent)}"]
    return {
        "tensor": name,
        "values": f.fragment(field),
        "rows": rows_per_thread(f.s, field),
        "row": row,
        "row_text": printer.print(rows if start == Const(0) else Binary("+", start, rows)),
        "condition": " and ".join(conditions),
        "picks": join(picks),
        "doc": f"{text(to)} = {field.owner}.{field.name}",
    }


def _where(f: Function) -> list[str]:
    where = f.work.args.get("where")
    if not isinstance(where, Placed):
        return []
    e = prune(where.expr, f.s.scope.env)
    if f.shapes.shape(e) not in ("row", "scalar"):
        refuse(f"`where: {text(e)}`, which depends on a column", where.span)
    return [f.printer().print(e, 3)]
