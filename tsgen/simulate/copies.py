"""Copies by asynchronous engines: TMA, bulk stores, cp.async and stores into other CTAs' shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tsgen.derive.filling import closes_group
from tsgen.derive.uses import peer_axis
from tsgen.frozen import frozen
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Ref
from tsgen.model.ops import copies
from tsgen.simulate.barriers import MBarrier
from tsgen.simulate.deal import Pick, length
from tsgen.simulate.gmem import Tensor
from tsgen.simulate.memory import Array, Cell, Open
from tsgen.simulate.scheduler import Operation
from tsgen.simulate.windows import all_of, extents, parts, shape_of, whole_number, window
from tsgen.simulate.works import Act


@frozen
class Counted:
    """Bytes that count on a full barrier, for one of its phases."""

    barrier: MBarrier
    nbytes: int
    phase: int


def _land(access: Open, tensor: Tensor, taken: Sequence[Pick], counted: Counted | None) -> None:
    """The end of a copy: what the tensor has there is in the cell, and its bytes count."""
    values = tensor.read(taken, access.who)
    _arrive(access, values.reshape(access.cell.data[access.region.index].shape), counted)


def _arrive(access: Open, values: Array, counted: Counted | None) -> None:
    access.cell.close(access, values)
    if counted is not None:
        counted.barrier.complete(counted.nbytes, counted.phase, access.who)


def cp_async_load(act: Act) -> None:
    """Each warp copies its part. A call closes a group; on an async pipeline the commit waits for the copies."""
    w = act.w
    issued: list[Operation] = []
    for copy in copies(act.work):
        source, to = act.chosen(copy.source), act.chosen(copy.to)
        tensor, taken = _source(act, source, own=True)
        cell, at = act.cell(to, write=True)
        region = act.region(cell, at, act.own(extents(at)))
        access = cell.open(region, True, act.site, "cp.async", None, reads=False)
        finish = partial(_land, access, tensor, taken, None)
        size = _nbytes(cell, act.own(extents(at)))
        issued.append(Operation(w.scheduler, "cp.async", w.cta, act.site, finish, signal=w.progress, size=size))
    w.copies += issued
    if closes_group(w.kernel, act.work):
        w.groups["cp_async"].append(_group(act, w.ungrouped + issued))
        w.ungrouped = []
    else:
        w.ungrouped += issued
    for operation in issued:
        w.scheduler.issue(operation)


def _group(act: Act, issued: list[Operation]) -> Operation:
    """Copies as one group: done when all are."""
    whole = Operation(act.w.scheduler, "cp.async", act.w.cta, act.site, lambda: None, signal=act.w.progress)
    issued = [operation for operation in issued if not operation.done]
    left = len(issued)
    whole.done = not issued

    def one() -> None:
        nonlocal left
        left -= 1
        if not left:
            whole.done = True
            act.w.progress.fire()

    for operation in issued:
        operation.after.append(one)
    return whole


def _source(act: Act, source: Ref, *, own: bool) -> tuple[Tensor, list[Pick]]:
    tensor = act.tensor(source)
    at = window(source, tensor.shape, act.number)
    return tensor, parts(at, act.own(extents(at)) if own else all_of(at))


def tma_load(act: Act) -> None:
    """One thread (of each warp, with `scope: warp`) starts the copies; each CTA that gets bytes counts them."""
    w = act.w
    if not (act.alone or w.elected):
        return
    key = (act.work.owner, act.node.instance)
    ring = w.layout.rings.get(key)
    for copy in copies(act.work):
        source, to = act.chosen(copy.source), act.chosen(copy.to)
        tensor = act.tensor(source)
        from_at = window(source, tensor.shape, act.number)
        group = [w.cta] if copy.multicast is None else w.layout.along(w.cta, {copy.multicast})
        part, of = group.index(w.cta), len(group)
        for cta in group:
            cell, at = act.cell(to, write=True, cta=cta)
            picks, source_picks = _share(all_of(at), part, of), _share(all_of(from_at), part, of)
            region = act.region(cell, at, picks)
            access = cell.open(region, True, act.site, "TMA", None, reads=False)
            nbytes = _nbytes(cell, picks)
            counted = None
            if ring is not None:
                position = w.positions.work(key, producer=True)
                stage, phase = position % ring.stages, position // ring.stages
                counted = Counted(ring.full[w.layout.leader(act.work.owner, cta)][stage], nbytes, phase)
            finish = partial(_land, access, tensor, parts(from_at, source_picks), counted)
            cost = nbytes if cta == group[0] else 0  # a multicast reads once
            w.scheduler.issue(Operation(w.scheduler, "TMA load", cta, act.site, finish, size=cost))


def _share(picks: list[Pick], part: int, of: int) -> list[Pick]:
    """One CTA's share of a multicast window: along the first dimension that can be split evenly."""
    if of == 1:
        return picks
    for i, p in enumerate(picks):
        n = length(p)
        if n % of == 0 and n > 1:
            return [*picks[:i], slice(part * (n // of), (part + 1) * (n // of), 1), *picks[i + 1 :]]
    raise ValueError("a multicast window that cannot be split")


def _nbytes(cell: Cell, picks: Sequence[Pick]) -> int:
    return int(np.prod(shape_of(picks), dtype=int)) * DTYPES[cell.dtype].bits // 8


def tma_store(act: Act) -> None:
    """One thread starts the store: it reads its source some time later, and writes the tensor later still."""
    w = act.w
    if not (act.alone or w.elected):
        return
    to = act.ref("to")
    tensor = act.tensor(to)
    cell, at = act.cell(act.ref("from"), write=False)
    region = act.region(cell, at, all_of(at))
    to_at = window(to, tensor.shape, act.number)
    taken = parts(to_at, all_of(to_at))
    access = cell.open(region, False, act.site, "a bulk store", None, reads=True)
    reduce = act.work.args.get("reduce", "none")
    staged: list[Array] = []
    nbytes = _nbytes(cell, all_of(at))

    def write() -> None:
        tensor.write(taken, staged[0].reshape(shape_of(taken)), act.site, None, str(reduce))

    written = Operation(w.scheduler, "bulk store", w.cta, act.site, write, signal=w.progress, size=nbytes)

    def read() -> Operation:
        staged.append(np.array(cell.data[region.index]))
        cell.close(access)
        return written

    reading = Operation(w.scheduler, "bulk read", w.cta, act.site, read, signal=w.progress, size=nbytes)
    w.reads.append(reading)
    w.groups["bulk"].append(written)
    w.scheduler.issue(reading)


def peer_store(act: Act) -> None:
    """Each warp sends its part to every CTA along the axis, or to one; the bytes count on each one's full barrier."""
    w = act.w
    placed = act.placed("value")
    assert placed is not None
    value = np.asarray(act.number(placed.expr))
    key = (act.work.owner, act.node.instance)
    ring = w.layout.rings[key]
    position = w.positions.work(key, producer=True)
    stage, phase = position % ring.stages, position // ring.stages
    axis = peer_axis(act.work)
    only = act.placed("peer")
    for cta in w.layout.along(w.cta, {axis}):
        if only is not None and w.layout.ctas[cta].coordinates[axis] != whole_number(act.number(only.expr)):
            continue
        cell, at = act.cell(act.ref("to"), write=True, cta=cta)
        picks = act.own(extents(at))
        region = act.region(cell, at, picks)
        shape = cell.data[region.index].shape
        values = value.reshape(shape) if value.size == int(np.prod(shape)) else np.broadcast_to(value, shape)
        access = cell.open(region, True, act.site, "a remote store", None, reads=False)
        nbytes = _nbytes(cell, picks)
        finish = partial(_arrive, access, values, Counted(ring.full[cta][stage], nbytes, phase))
        w.scheduler.issue(Operation(w.scheduler, "remote store", cta, act.site, finish, size=nbytes))
