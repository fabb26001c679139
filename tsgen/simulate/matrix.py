"""Tensor cores and tensor memory: WGMMA, tcgen05.mma, .cp, .ld and .st. Products in float32."""

from __future__ import annotations

import numpy as np

from tsgen.derive.uses import cta_group
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Ref
from tsgen.runtime.functions import FUNCTIONS
from tsgen.simulate.deal import Own
from tsgen.simulate.memory import ARRAYS, Array, Cell, Open, Region
from tsgen.simulate.scheduler import InOrder, Operation
from tsgen.simulate.windows import all_of, extents, parts
from tsgen.simulate.works import Act, field_part, fitted, stored_picks


def _f32(a: Array) -> Array:
    return np.asarray(a, dtype=np.float32)


class Operand:
    """What an operation reads of a cell: open from its issue until it is read."""

    def __init__(self, act: Act, ref: Ref, engine: str, queue: InOrder, cta: int, own: Own | None = None) -> None:
        self.transposed = ref.transposed
        if act.kind(ref) == "rmem":
            self.cell = act.w.register(ref)
            self.region = act.register_region(ref)
            self.shape = self.cell.data[self.region.index].shape
        else:
            self.cell, at = act.cell(ref, write=False, cta=cta)
            picks = all_of(at)
            if own is not None:
                picks[-2] = own.rows
            self.region = act.region(self.cell, at, picks)
            self.shape = tuple(
                n for n, p in zip(self.cell.data[self.region.index].shape, parts(at, picks), strict=True)
            )
            kept = [i for i, a in enumerate(at) if not isinstance(a, int)]
            self.shape = tuple(self.shape[i] for i in kept)
        self.open: Open = self.cell.open(self.region, False, act.site, engine, queue, reads=True)

    def take(self) -> Array:
        """The value, and the end of the reading."""
        found = np.array(self.cell.data[self.region.index]).reshape(self.shape)
        self.cell.close(self.open)
        return _f32(found.swapaxes(-1, -2) if self.transposed else found)


def wgmma(act: Act) -> None:
    """Each warp multiplies its rows. One call closes one group; a warp's groups are performed in order."""
    w = act.w
    c_ref = act.ref("c")
    f = act.field(c_ref)
    own = field_part(w, f)
    queue = w.tensor_cores
    a_ref, b_ref = act.ref("a"), act.ref("b")
    a = Operand(act, a_ref, "WGMMA", queue, w.cta, None if act.kind(a_ref) == "rmem" else own)
    b = Operand(act, b_ref, "WGMMA", queue, w.cta)
    init = act.flag("init")
    cell = w.register(c_ref)
    region = act.register_region(c_ref)
    access = cell.open(region, True, act.site, "WGMMA", queue, reads=not init)

    def finish() -> None:
        product = a.take() @ b.take().T
        cell.close(access, product if init else cell.data[region.index] + product)

    size = 2 * int(np.prod(a.shape)) * b.shape[-1 if b.transposed else -2]
    width = DTYPES[b.cell.dtype].bits / 16
    operation = Operation(w.scheduler, "WGMMA", w.cta, act.site, finish, queue, w.progress, size, width)
    w.groups["wgmma"].append(operation)
    w.scheduler.issue(operation)


def _ctas(act: Act) -> list[int]:
    return act.w.layout.pair(act.w.cta) if cta_group(act.work, _scalars(act)) == 2 else [act.w.cta]


def _scalars(act: Act) -> dict[str, int | float | bool | str]:
    return {k: v for k, v in act.names.items() if isinstance(v, int | float | bool | str)}


def tcgen05_mma(act: Act) -> None:
    """One thread starts the product, of a pair for both CTAs: each has its rows of a and c, and a half of b."""
    w = act.w
    if not w.elected:
        return
    queue = w.umma
    init = act.flag("init")
    ctas = _ctas(act)
    b_ref = act.ref("b")
    bs = [Operand(act, b_ref, "tcgen05", queue, c) for c in ctas]
    jobs: list[tuple[Operand, Operand | None, Operand | None, Cell, Region, Open]] = []
    for cta in ctas:
        a = Operand(act, act.ref("a"), "tcgen05", queue, cta)
        sfa, sfb = (
            Operand(act, act.ref(k), "tcgen05", queue, cta) if act.placed(k) is not None else None
            for k in ("sfa", "sfb")
        )
        cell, at = act.cell(act.ref("c"), write=True, cta=cta)
        region = act.region(cell, at, all_of(at))
        jobs.append((a, sfa, sfb, cell, region, cell.open(region, True, act.site, "tcgen05", queue, reads=not init)))

    def finish() -> None:
        b = np.concatenate([x.take() for x in bs], axis=0)
        for a, sfa, sfb, cell, region, access in jobs:
            left, right = a.take(), b
            if sfa is not None and sfb is not None:
                left, right = _scaled(left, sfa.take()), _scaled(right, sfb.take())
            product = (left @ right.T).reshape(cell.data[region.index].shape)
            cell.close(access, product if init else cell.data[region.index] + product)

    size = sum(2 * int(np.prod(j[0].shape)) for j in jobs) * sum(x.shape[-1 if x.transposed else -2] for x in bs)
    size //= len(ctas)  # each does its half at the same time
    width = DTYPES[bs[0].cell.dtype].bits / 16
    w.scheduler.issue(Operation(w.scheduler, "tcgen05", w.cta, act.site, finish, queue, size=size, width=width))


def _scaled(x: Array, scales: Array) -> Array:
    """Rows times their scale factors, which lie in blocks of 128 rows by 4."""
    vector = x.shape[-1] // (4 * scales.shape[-2])
    blocks = scales if scales.ndim > 2 else scales[None]
    return FUNCTIONS["scaled"](ARRAYS, x, blocks, vector)  # type: ignore[return-value]


def tcgen05_cp(act: Act) -> None:
    """One thread copies shared to tensor memory, of a pair in both CTAs; in order with its products."""
    w = act.w
    if not w.elected:
        return
    jobs: list[tuple[Operand, Cell, Region, Open]] = []
    for cta in _ctas(act):
        source = Operand(act, act.ref("from"), "tcgen05", w.umma, cta)
        cell, at = act.cell(act.ref("to"), write=True, cta=cta)
        region = act.region(cell, at, all_of(at))
        jobs.append((source, cell, region, cell.open(region, True, act.site, "tcgen05", w.umma, reads=False)))

    def finish() -> None:
        for source, cell, region, access in jobs:
            cell.close(access, source.take().reshape(cell.data[region.index].shape))

    w.scheduler.issue(Operation(w.scheduler, "tcgen05.cp", w.cta, act.site, finish, w.umma))


def tmem_load(act: Act) -> None:
    """Each warp reads its lanes; the registers hold them after `tcgen05.wait_ld`."""
    w = act.w
    to = act.ref("to")
    f = act.field(to)
    cell, at = act.cell(act.ref("from"), write=False)
    region = act.region(cell, at, act.picks(extents(at), f))
    reading = cell.open(region, False, act.site, "tcgen05.ld", None, reads=True)
    register = w.register(to)
    into = act.register_region(to)
    writing = register.open(into, True, act.site, "tcgen05.ld", None, reads=False)

    def finish() -> None:
        values = np.array(cell.data[region.index]).reshape(register.data[into.index].shape)
        cell.close(reading)
        register.close(writing, values)

    size = 4 * int(np.prod(register.shape))
    operation = Operation(w.scheduler, "tcgen05.ld", w.cta, act.site, finish, signal=w.progress, size=size)
    w.loads.append(operation)
    w.scheduler.issue(operation)


def tmem_store(act: Act) -> None:
    """Each warp writes its lanes; they are there after `tcgen05.wait_st`."""
    w = act.w
    placed = act.placed("value")
    assert placed is not None
    value = act.number(placed.expr)
    cell, at = act.cell(act.ref("to"), write=True)
    picks = stored_picks(act, at)
    region = act.region(cell, at, picks)
    values = np.array(fitted(value, picks, cell.data[region.index].shape))
    access = cell.open(region, True, act.site, "tcgen05.st", None, reads=False)

    def finish() -> None:
        cell.close(access, values)

    size = values.size * DTYPES[cell.dtype].bits // 8
    operation = Operation(w.scheduler, "tcgen05.st", w.cta, act.site, finish, signal=w.progress, size=size)
    w.stores.append(operation)
    w.scheduler.issue(operation)
