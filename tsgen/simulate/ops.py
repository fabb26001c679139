"""What works do, in NumPy: `perform` runs one call of one warp.

The registry has an entry for each op of tsgen.model.ops; those of threads (`load`, `store`, `map`) are here, those of
engines in `copies` and `matrix`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tsgen.derive.unfold import Node
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import text
from tsgen.model.kernel import Work
from tsgen.model.ops import OPS, assigns, map_target, stray_transposes
from tsgen.runtime.errors import CannotRun
from tsgen.simulate import copies, matrix
from tsgen.simulate.bodies import run_twin
from tsgen.simulate.latency import issue_slots
from tsgen.simulate.memory import Array, Region
from tsgen.simulate.windows import (
    At,
    Value,
    extents,
    is_element,
    parts,
    shape_of,
    window,
)
from tsgen.simulate.works import Act, Semantics, fitted, stored_picks

if TYPE_CHECKING:
    from tsgen.simulate.warp import Site, Warp


def load(act: Act) -> None:
    source = act.ref("from")
    to = act.ref("to") if "to" in act.work.args else None
    field = act.field(to) if to is not None else None
    where = act.where()
    if act.kind(source) == "tensor":
        at = window(source, act.shape(source), act.number)
        if is_element(at):
            act.tensor(source)
            found: Value = act.w.grid.gather(source.name, at, act.site)
        else:
            found = act.read_tensor(source, at, act.picks(extents(at), field))
    elif act.kind(source) == "rmem":
        found = act.read_register(source)
    else:
        cell, at = act.cell(source, write=False)
        found = act.read_cell(cell, at, act.picks(extents(at), field))
    if where is not None:
        found = np.where(where, found, 0)  # type: ignore[call-overload]
    if to is None:
        act.give(found)
    else:
        act.write_register(to, found)


def store(act: Act) -> None:
    to = act.ref("to")
    placed = act.placed("value")
    assert placed is not None
    value = act.number(placed.expr)
    where = act.where()
    kind = act.kind(to)
    if kind == "rmem":
        act.write_register(to, value, where)
        return
    if kind == "tensor":
        tensor = act.tensor(to)
        at = window(to, tensor.shape, act.number)
        if is_element(at):
            mask = True if where is None else where
            if act.w.active is not None:
                mask = np.logical_and(mask, act.w.active)  # type: ignore[call-overload]
            tensor.scatter([_element(a) for a in at], value, act.site, mask)
            return
        picks = stored_picks(act, at)
        taken = parts(at, picks)
        shape = shape_of(taken)
        act.tensors += int(np.prod(shape)) * DTYPES[tensor.dtype].bits / 8
        tensor.write(
            taken, fitted(value, picks, shape), act.site, None if where is None else fitted(where, picks, shape)
        )
        return
    cell, at = act.cell(to, write=True)
    if is_element(at):
        index, values = _lanes(act, at, value, where)
        cell.write(Region(cell.shape, index), values, act.site)
        return
    picks = stored_picks(act, at)
    region = act.region(cell, at, picks)
    shape = cell.data[region.index].shape
    mask = None if where is None else fitted(where, picks, shape)
    act.shared += int(np.prod(shape)) * DTYPES[cell.dtype].bits / 8
    cell.write(region, fitted(value, picks, shape), act.site, mask)


def _element(a: At) -> int | Array:
    assert isinstance(a, int | np.ndarray)
    return a


def _lanes(act: Act, at: tuple[At, ...], value: Value, where: Value | None) -> tuple[tuple[Array, ...], Array]:
    """Indices and values of the lanes that store an element."""
    mask = np.asarray(True if where is None else where, dtype=bool)
    if act.w.active is not None:
        mask = np.logical_and(mask, act.w.active)
    *index, values, good = np.broadcast_arrays(*(_element(a) for a in at), np.asarray(value), mask)
    chosen = good.reshape(-1)
    return tuple(i.reshape(-1)[chosen] for i in index), values.reshape(-1)[chosen]


def map_(act: Act) -> None:
    """The statements in order. What is written is seen by those that follow."""
    for a in assigns(act.work):
        value = act.number(a.value)
        act.instructions += np.size(value) / 32 * issue_slots(a.value)  # type: ignore[arg-type]
        target = map_target(act.work, a)
        if target is None:
            act.names[a.name] = value
        elif act.kind(target) == "rmem":
            act.write_register(target, value)
        else:
            cell, at = act.cell(target, write=True)
            picks = act.own(extents(at))
            region = act.region(cell, at, picks)
            cell.write(region, fitted(value, picks, cell.data[region.index].shape), act.site)


SEMANTICS: dict[str, Semantics] = {
    "load": load,
    "store": store,
    "map": map_,
    "cp_async_load": copies.cp_async_load,
    "tma_load": copies.tma_load,
    "tma_store": copies.tma_store,
    "peer_store": copies.peer_store,
    "tmem_load": matrix.tmem_load,
    "tmem_store": matrix.tmem_store,
    "tcgen05_cp": matrix.tcgen05_cp,
    "wgmma": matrix.wgmma,
    "tcgen05_mma": matrix.tcgen05_mma,
}
assert set(SEMANTICS) == set(OPS)


def perform(w: Warp, work: Work, node: Node, site: Site) -> Act:
    """One call of a work, with what it has cost. Raises CannotRun for a work whose code is not known."""
    act = Act(w, work, node, site)
    if work.op is not None:
        for access in stray_transposes(work):
            where = f"{work.owner}.{work.name} (line {access.span.line})"
            raise CannotRun(f"`{text(access.ref)}` in {where}: `.T` is run for operands of an MMA only")
        SEMANTICS[work.op](act)
    elif work.numpy is not None:
        run_twin(act)
    else:
        raise CannotRun(
            f"{work.owner}.{work.name} (line {work.span.line}) has no NumPy twin: there is nothing to simulate",
            "give it one, `numpy: |`, or `numpy: same` where the body is NumPy as well",
        )
    return act
