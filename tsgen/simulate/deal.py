"""Which elements of a tile belong to which warp of a task.

The language leaves the spread over threads to the emitter (docs/language.md section 5), and says what must hold: WGMMA
deals 64 rows to a warpgroup and 16 of them to a warp, tensor memory 32 lanes to a warp, the columns of `warp_rowsum`
belong to a warp each. Where nothing is said, rows are dealt out one by one: not as WGMMA does it, so that a task that
mixes both without a barrier in between is caught.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np

from tsgen.derive.unfold import Node, calls
from tsgen.frozen import frozen
from tsgen.model.expr import Call, Expr, Placed, Ref, walk
from tsgen.model.kernel import Assign, Field, Kernel, Work
from tsgen.model.ops import OPS
from tsgen.model.steps import CallStep
from tsgen.simulate.memory import Array

WARPGROUP = 4
Pick = slice | Array  # along one dimension; slices have their bounds written out
Mode = Literal["fragment", "lanes", "rows", "columns"]


@frozen
class Own:
    """A warp's part of a tile: rows and columns (ascending)."""

    rows: Pick
    cols: Pick


def every(n: int) -> slice:
    return slice(0, n, 1)


def ids(pick: Pick) -> Array:
    """The indices that a pick takes."""
    return np.arange(pick.start, pick.stop, pick.step) if isinstance(pick, slice) else pick


def length(pick: Pick) -> int:
    return len(range(pick.start, pick.stop, pick.step)) if isinstance(pick, slice) else int(pick.size)


def tidy(found: Array) -> Pick:
    """A slice where the indices are evenly spaced, which NumPy serves faster."""
    if found.size == 0:
        return slice(0, 0, 1)
    if found.size == 1:
        return slice(int(found[0]), int(found[0]) + 1, 1)
    steps = np.diff(found)
    step = int(steps[0])
    if step > 0 and bool((steps == step).all()):
        return slice(int(found[0]), int(found[-1]) + 1, step)
    return found


@frozen
class Deal:
    """How a task deals tiles out: by `mode`, to `warps`; `widths` are those of its tiles with several rows."""

    mode: Mode
    warps: int
    first_warp: int  # of the task, in the block
    widths: frozenset[int]

    def own(self, rows: int, cols: int, warp: int, whole_rows: bool = False) -> Own:
        """The part of a [rows, cols] tile. `whole_rows`: a warp holds all columns of the rows that it has a part of."""
        own = _own(self, rows, cols, warp)
        return Own(own.rows, every(cols)) if whole_rows or cols == 1 else own


@lru_cache(maxsize=4096)
def _own(deal: Deal, rows: int, cols: int, warp: int) -> Own:
    w, n = warp, deal.warps
    if n == 1:
        return Own(every(rows), every(cols))
    groups = max(1, n // WARPGROUP)
    if deal.mode == "fragment" and rows % (64 * groups) == 0:
        each = rows // groups
        atoms = [w // WARPGROUP * each + 64 * i + 16 * (w % WARPGROUP) for i in range(each // 64)]
        return Own(tidy(np.concatenate([np.arange(a, a + 16) for a in atoms])), every(cols))
    if deal.mode == "lanes" and rows % 4 == 0:
        block = min(rows, 128)
        lane = (deal.first_warp + w) % WARPGROUP
        blocks = rows // block
        at = w // WARPGROUP % blocks * block + lane * (block // 4)
        share = max(1, groups // blocks)  # warpgroups that have the same lanes take columns in turn
        part = w // WARPGROUP // blocks
        chunk = cols // share
        picked = every(cols) if share == 1 else slice(part * chunk, (part + 1) * chunk, 1)
        return Own(slice(at, at + block // 4, 1), picked)
    if rows == 1 and deal.mode != "columns" and cols in deal.widths:
        return Own(every(1), every(cols))  # goes with each row of a tile
    if deal.mode != "columns" and rows >= n:
        return Own(slice(w, rows, n), every(cols))
    if cols >= n and cols % n == 0:
        chunk = cols // n
        return Own(every(rows), slice(w * chunk, (w + 1) * chunk, 1))
    return Own(every(rows), slice(min(w, cols), cols, n))


def deal_of(kernel: Kernel, program: tuple[Node, ...], warps: int, first_warp: int) -> Deal:
    """How one instance of a task deals tiles out, from the works that it calls."""
    engines: set[str] = set()
    widths: set[int] = set()
    columns = False
    for node in calls(program):
        assert isinstance(node.step, CallStep)
        work = kernel.work(node.step.target, node.step.method) if node.step.kind == "work" else None
        if work is None:
            continue
        if work.op is not None:
            engines.add(OPS[work.op].engine)
        columns |= any(isinstance(e, Call) and e.function == "warp_rowsum" for e in expressions(work))
        for field in _fields(kernel, work):
            if len(field.shape) >= 2 and field.shape[-2] > 1:
                widths.add(field.shape[-1])
    mode: Mode = "rows"
    if "wgmma" in engines:
        mode = "fragment"
    elif engines & {"tcgen05_ld", "tcgen05_st"}:
        mode = "lanes"
    elif columns:
        mode = "columns"
    return Deal(mode, warps, first_warp, frozenset(widths))


def expressions(work: Work) -> Iterator[Expr]:
    """All expressions in a work's parameters, outermost first."""
    for value in work.args.values():
        if isinstance(value, Placed):
            yield from walk(value.expr)
        elif isinstance(value, tuple):
            for item in value:
                for e in (item.value,) if isinstance(item, Assign) else (item.to, item.source):
                    yield from walk(e)


def _fields(kernel: Kernel, work: Work) -> Iterator[Field]:
    for e in expressions(work):
        if isinstance(e, Ref) and e.resource is not None and e.resource in kernel.resources:
            field = kernel.resources[e.resource].fields.get(e.name)
            if field is not None:
                yield field
