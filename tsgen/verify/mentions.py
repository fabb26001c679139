"""The tensors whose values a task needs for what it does: in bounds, conditions, windows and arguments, and through
`let` values."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator

from tsgen.model.expr import Binary, Const, Expr, Name, Placed, Ref
from tsgen.model.expr import walk as parts
from tsgen.model.kernel import CopyArg, Kernel, Task, Work
from tsgen.model.steps import CallStep, DomainLoop, Guard, Step, TileLoop, When, walk

_DIFFERS = re.compile(r"thread_idx|lane_idx|warp_idx|elect_one|clock\w*|globaltimer\w*|atomic\w*")
_OPERATORS: dict[type[ast.operator], str] = {ast.FloorDiv: "//", ast.Mult: "*", ast.Add: "+", ast.Sub: "-"}


def mentioned(kernel: Kernel, task: Task) -> set[str]:
    """Names of tensors of any rank, those that only a body names included."""
    return tensors_of(kernel, _expressions(kernel, task))


def tensors_of(kernel: Kernel, expressions: Iterable[Expr]) -> set[str]:
    """The tensors that expressions are made from, be it through `let` values."""
    lets = {let.name: let.value for let in kernel.launch.lets}
    found: set[str] = set()
    seen: set[str] = set()
    ready = [n for e in expressions for n in _names(e)]
    while ready:
        name = ready.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in lets:
            ready += _names(lets[name])
        elif name in kernel.tensors:
            found.add(name)
    return found


def _names(e: Expr) -> list[str]:
    """Plain names, and tensors of which an element or a window is taken."""
    return [
        p.id if isinstance(p, Name) else p.name
        for p in parts(e)
        if isinstance(p, Name) or (isinstance(p, Ref) and p.resource is None)
    ]


def _expressions(kernel: Kernel, task: Task) -> Iterator[Expr]:
    for step in walk(task.schedule.steps):
        yield from of_step(step)
        work = kernel.work(step.target, step.method) if isinstance(step, CallStep) and step.kind == "work" else None
        if work is not None:
            yield from of_work(work)


def of_step(step: Step) -> Iterator[Expr]:
    """The expressions of a step or block: its arguments, bounds or condition."""
    match step:
        case CallStep():
            yield from (a.expr for a in step.args.values())
        case DomainLoop():
            yield from (step.start.expr, step.end.expr, step.step.expr)
        case TileLoop():
            yield from (p.expr for p in (step.skip_if, step.first, step.stride) if p is not None)
        case When():
            yield step.condition.expr
        case Guard():
            yield from step.options.values()


def of_work(work: Work) -> Iterator[Expr]:
    """The expressions of a work, and the names in its body."""
    for value in work.args.values():
        if isinstance(value, Placed):
            yield value.expr
        elif isinstance(value, tuple):
            for part in value:
                yield from (part.to, part.source) if isinstance(part, CopyArg) else (part.value,)
    for placed in (*work.reads.values(), *work.writes.values()):
        yield placed.expr
    if work.body is not None:
        yield from _of_body(ast.parse(textwrap.dedent(work.body)))


def _of_body(node: ast.AST) -> Iterator[Expr]:
    """The names in a body; quotients as they stand, since they may cut off what a name says."""
    quotient = _quotient(node) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) else None
    if quotient is not None:
        yield quotient
    elif isinstance(node, ast.Name):
        yield Name(node.id)
    elif isinstance(node, ast.Attribute) and _DIFFERS.fullmatch(node.attr):
        yield Name("thread")  # what the DSL says of the thread, or what is another value for each that asks
    else:
        for child in ast.iter_child_nodes(node):
            yield from _of_body(child)


def _quotient(node: ast.AST) -> Expr | None:
    """Arithmetic on names and integers."""
    match node:
        case ast.Name(id=name):
            return Name(name)
        case ast.Constant(value=int(value)):
            return Const(value)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = _quotient(left), _quotient(right)
            return None if a is None or b is None else Binary(_OPERATORS[type(op)], a, b)
    return None
