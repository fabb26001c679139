"""Tiles that all tasks skip whole: where TS cannot say what is skipped, its queue does not give them."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.lower.context import Builder
from tsgen.lower.proofs import never
from tsgen.model.expr import text
from tsgen.model.steps import CallStep, DomainLoop, Skippable, StaticIf, Step, TileLoop, walk


def left_out(b: Builder) -> bool:
    """Whether the queue leaves the skipped tiles out.

    TS's code does not compile with pipeline steps in a `skippable` block and outside of its loop. It need not know of
    the block where every task skips the same tiles, and does nothing else in them.
    """
    loops = [x for t in b.kernel.tasks for x in walk(t.schedule.steps) if isinstance(x, TileLoop)]
    conditions = {None if x.skip_if is None or never(b.kernel, x.skip_if.expr) else text(x.skip_if.expr) for x in loops}
    if None in conditions or len(conditions) != 1:
        return False
    whole = all(isinstance(x, Skippable) or _is_of_queue(x, loop.queue) for loop in loops for x in loop.body)
    return whole and any(
        c.kind in ("pipeline", "group")
        for loop in loops
        for x in loop.body
        if isinstance(x, Skippable)
        for c in _outside_of_loop(x.body)
    )


def _is_of_queue(x: Step, queue: str) -> bool:
    return isinstance(x, CallStep) and x.target == queue


def _outside_of_loop(steps: tuple[Step, ...]) -> Iterator[CallStep]:
    for x in steps:
        if isinstance(x, CallStep):
            yield x
        elif not isinstance(x, DomainLoop):
            yield from _outside_of_loop((*x.body, *(x.orelse if isinstance(x, StaticIf) else ())))
