"""Loops whose guard `var < x` holds in the first iterations alone: emitted as two loops, one with the guarded works.

The guarded works must be local (maps): then both parts do the same to every pipeline and barrier, and no iteration
pays for a branch in the middle of its WGMMAs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tsgen.lower.context import TaskState
from tsgen.model.algebra import canonical
from tsgen.model.bounds import interval, intervals
from tsgen.model.expr import Binary, Compare, Expr, Name, names, text
from tsgen.model.steps import CallStep, DomainLoop, When

NEVER = ""  # in TaskState.guards: the condition holds in no iteration


@dataclass(frozen=True)
class Split:
    """What the two parts call their bounds; `values` are those of blocks/split_loop."""

    start: str
    end: str
    guard: str
    values: Mapping[str, str]


def splitting(s: TaskState, loop: DomainLoop) -> Split | None:
    """How a loop is split, if one of its conditions asks for it; enters the outcome of its conditions into s.guards."""
    limits = {id(x): _limit(s, loop, x) for x in loop.body if isinstance(x, When)}
    found: Expr | None = None
    guarded = ""
    for block, limit in limits.items():
        if limit is None:
            continue
        room = canonical(Binary("-", limit, loop.start.expr), s.scope.env).value
        if room is not None and room <= 0:
            s.guards[block] = NEVER
        elif found is None or canonical(found, s.scope.env) == canonical(limit, s.scope.env):
            guarded = guarded or s.names.new("guarded")
            found, s.guards[block] = limit, guarded
    if found is None:
        return None
    start, end, split = s.names.new("start"), s.names.new("end"), s.names.new("split")
    first, last = s.py(loop.start.expr), s.py(loop.end.expr)
    limit_text = f"cutlass.min({s.py(found)}, {last})"
    if not (_at_least(s, found, loop.start.expr) and _at_least(s, loop.end.expr, loop.start.expr)):
        limit_text = f"cutlass.max({first}, {limit_text})"
    values = {"split": split, "limit": limit_text, "start": start, "end": end, "guarded": guarded}
    return Split(start, end, f"{loop.var} < {text(found)}", {**values, "first": first, "last": last})


def _limit(s: TaskState, loop: DomainLoop, x: When) -> Expr | None:
    """x of a condition `var < x` that holds local works alone and does not change in the loop."""
    c = x.condition.expr
    if canonical(loop.step.expr, s.scope.env).value != 1 or not isinstance(c, Compare) or len(c.ops) != 1:
        return None
    left, right = c.operands if c.ops[0] == "<" else c.operands[::-1]
    if c.ops[0] not in ("<", ">") or left != Name(loop.var):
        return None
    if not all(s.is_fixed(n) for n in names(right)):
        return None
    return right if all(isinstance(y, CallStep) and _local(s, y) for y in x.body) else None


def _local(s: TaskState, c: CallStep) -> bool:
    w = s.builder.kernel.work(c.target, c.method) if c.kind == "work" else None
    return w is not None and w.op == "map"


def _at_least(s: TaskState, a: Expr, b: Expr) -> bool:
    low = interval(Binary("-", a, b), intervals(s.builder.kernel), s.scope.env).low
    return low is not None and low >= 0
