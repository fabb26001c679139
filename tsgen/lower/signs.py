"""Least values of expressions: the DSL's `%` is the language's only where nothing is negative."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tsgen.model.bounds import Interval, interval, intervals
from tsgen.model.expr import Expr
from tsgen.model.kernel import Kernel, Task


def least(
    kernel: Kernel, lows: Mapping[str, Expr] | None = None, task: Task | None = None
) -> Callable[[Expr], int | None]:
    """What tells the least value that an expression may have. `lows`: those of loop variables, as they come into
    scope."""
    known = intervals(kernel)
    if task is not None and task.each is not None:
        known[task.each.var] = Interval(0)

    def of(e: Expr) -> int | None:
        here = dict(known)
        for name, low in (lows or {}).items():
            here[name] = Interval(interval(low, here, kernel.env).low)
        return interval(e, here, kernel.env).low

    return of
