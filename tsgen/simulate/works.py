"""One call of a work by one warp: what its references mean (cells, registers, tensors), and its part of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tsgen.derive.storage import root
from tsgen.derive.unfold import Node
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Expr, IfElse, Name, Placed, Ref, text, walk
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep
from tsgen.runtime.errors import CannotRun
from tsgen.simulate.deal import Own, Pick, every, ids, length, tidy
from tsgen.simulate.expressions import evaluate
from tsgen.simulate.faults import Fault
from tsgen.simulate.gmem import Tensor
from tsgen.simulate.memory import Array, Cell, Region, rounded
from tsgen.simulate.windows import (
    At,
    Range,
    Value,
    extents,
    inside,
    is_element,
    parts,
    selector,
    shape_of,
    whole_number,
    window,
)

if TYPE_CHECKING:
    from tsgen.simulate.warp import Site, Warp

Semantics = Callable[["Act"], None]


def part_shape(w: Warp, f: Field) -> tuple[int, ...]:
    """The shape of a warp's part of a register field: rows and columns."""
    own = field_part(w, f)
    return length(own.rows), length(own.cols)


def field_part(w: Warp, f: Field) -> Own:
    if len(f.shape) > 2:
        raise CannotRun(
            f"{f.owner}.{f.name} (line {f.span.line}) has {len(f.shape)} dimensions, two at most are simulated"
        )
    rows, cols = (1, *f.shape)[-2:]
    return w.deal.own(rows, cols, w.warp, f.rowwise)


class StepData:
    """What expressions in steps may refer to: elements of tensors, and scalar register fields."""

    def __init__(self, w: Warp, names: Mapping[str, Value] | None) -> None:
        self.w = w
        self.names = w.names if names is None else names

    def number(self, e: Expr) -> Value:
        return evaluate(e, self.names, self)

    def value(self, ref: Ref) -> Value:
        if ref.resource is None:
            tensor = self.w.grid.tensor(ref.name)
            at = window(ref, tensor.shape, self.number)
            if is_element(at):
                return self.w.grid.gather(ref.name, at, None)
        else:
            key = (ref.resource, ref.name)
            if key in self.w.scalars:
                return self.w.scalars[key]
        raise CannotRun(f"`{text(ref)}` has no value in a step")

    def rows(self, of: Expr) -> Array:
        raise CannotRun(f"`rows({text(of)})` has no value in a step")

    def cols(self, of: Expr) -> Array:
        raise CannotRun(f"`cols({text(of)})` has no value in a step")

    def extent(self, axis: str) -> int:
        return self.w.grid.space.extents[axis]


class Act:
    """One call of a work by one warp: the names of its expressions, and the memory that its references mean."""

    def __init__(self, w: Warp, work: Work, node: Node, site: Site) -> None:
        self.w = w
        self.work = work
        self.node = node
        self.site = site
        self.kernel = w.kernel
        self.names = w.work_names(work, node)
        self.alone = work.scope == "warp"  # the warp does all of it
        self.shared = 0.0  # bytes of shared memory that the warp moves
        self.tensors = 0.0  # bytes of tensors
        self.instructions = 0.0

    # ---- arguments -------------------------------------------------------------------------------------------------

    def placed(self, key: str) -> Placed | None:
        v = self.work.args.get(key)
        return v if isinstance(v, Placed) else None

    def ref(self, key: str) -> Ref:
        """The reference that a parameter gives, its compile-time choice made."""
        v = self.placed(key)
        assert v is not None
        return self.chosen(v.expr)

    def chosen(self, e: Expr) -> Ref:
        while isinstance(e, IfElse):
            e = e.then if self.number(e.condition) else e.other
        assert isinstance(e, Ref)
        return e

    def number(self, e: Expr) -> Value:
        return evaluate(e, self.names, self)

    def flag(self, key: str) -> bool:
        v = self.placed(key)
        return bool(v is not None and self.number(v.expr))

    def where(self) -> Value | None:
        v = self.placed("where")
        return None if v is None else self.number(v.expr)

    def give(self, *values: Value) -> None:
        """Assigns results to the call's tokens."""
        assert isinstance(self.node.step, CallStep)
        for name, value in zip(self.node.step.results, values, strict=False):
            self.w.names[name] = value

    # ---- places ----------------------------------------------------------------------------------------------------

    def field(self, ref: Ref) -> Field:
        assert ref.resource is not None
        return self.kernel.resources[ref.resource].fields[ref.name]

    def kind(self, ref: Ref) -> str:
        return "tensor" if ref.resource is None else self.kernel.resources[ref.resource].kind

    def instance(self, ref: Ref) -> int:
        if ref.instance is not None:
            return whole_number(self.number(ref.instance))
        return self.node.instance if ref.resource == self.work.owner else 0

    def producer_side(self, ref: Ref, write: bool) -> bool:
        """Whether a work touches a ring as who fills it."""
        if ref.resource == self.work.owner:
            return self.work.role == "producer"
        return write and (ref.resource or "", self.instance(ref), "acquire") in self.w.positions.has

    def position(self, ref: Ref, write: bool) -> int | None:
        """Where in its ring the stage of a reference is; None without a ring."""
        key = (ref.resource or "", self.instance(ref))
        if key not in self.w.layout.rings:
            return None
        return self.w.positions.work(key, self.producer_side(ref, write))

    def cell(self, ref: Ref, write: bool, cta: int | None = None) -> tuple[Cell, tuple[At, ...]]:
        """The cell of a reference to shared or tensor memory, and the window in it (through views)."""
        f = self.field(ref)
        at = window(ref, self.shape(ref), self.number)
        base = root(self.kernel, f)
        index = self.instance(ref)
        if f.view is not None:
            if f.view.window is not None:
                at = (
                    window(f.view, base.shape, self.number)
                    if ref.window is None
                    else _inner(f.view, base, at, self.number)
                )
            if f.view.instance is not None:
                index = whole_number(self.number(f.view.instance))
        owner = self.kernel.resources[base.owner]
        if owner.each is None:
            index = 0
        stages = self.w.layout.ctas[self.w.cta if cta is None else cta].cells[base.owner, index, base.name]
        position = self.position(ref, write)
        return stages[0 if position is None else position % len(stages)], at

    def shape(self, ref: Ref) -> tuple[int, ...]:
        """The shape of what a reference's window is in."""
        if ref.resource is None:
            return self.w.grid.tensor(ref.name).shape
        f = self.field(ref)
        if f.view is not None and f.view.window is not None:
            return extents(window(f.view, root(self.kernel, f).shape, self.number))
        return root(self.kernel, f).shape

    def region(self, cell: Cell, at: tuple[At, ...], picks: Sequence[Pick]) -> Region:
        taken = parts(at, picks)
        if inside(taken, cell.shape) is not None:
            raise Fault("outside", f"{self.site} touches {cell.name} {list(cell.shape)} outside", ("here", self.site))
        return Region(cell.shape, selector(taken))

    def tensor(self, ref: Ref) -> Tensor:
        """The tensor of a reference, which may be touched now."""
        return self.w.grid.touch(ref.name, self.site)

    # ---- a warp's part ---------------------------------------------------------------------------------------------

    def own(self, shape: tuple[int, ...], whole_rows: bool = False) -> list[Pick]:
        """The warp's part of a tile of this shape, along each dimension."""
        if self.alone or not shape:
            return [every(n) for n in shape]
        rows, cols = (1, *shape)[-2:]
        own = self.w.deal.own(rows, cols, self.w.warp, whole_rows)
        return [*(every(n) for n in shape[:-2]), *((own.rows, own.cols) if len(shape) > 1 else (own.cols,))]

    def picks(self, shape: tuple[int, ...], like: Field | None) -> list[Pick]:
        """The part of a window that goes with a register field: a vector of as many entries as the field has rows is
        dealt out with them."""
        if like is None or self.alone:
            return self.own(shape)
        own = field_part(self.w, like)
        rows, cols = (1, *like.shape)[-2:]
        if len(shape) == 1:
            return [own.rows] if cols == 1 and rows == shape[0] else [own.cols]
        if shape[-2:] == (rows, cols):
            return [*(every(n) for n in shape[:-2]), own.rows, own.cols]
        return self.own(shape)

    # ---- values ----------------------------------------------------------------------------------------------------

    def value(self, ref: Ref) -> Value:
        """The value of a reference in an expression: the warp's part, or an element."""
        kind = self.kind(ref)
        if kind == "tensor":
            tensor = self.w.grid.tensor(ref.name)
            at = window(ref, tensor.shape, self.number)
            if is_element(at):
                return self.w.grid.gather(ref.name, at, self.site)
            return self.read_tensor(ref, at, self.own(extents(at)))
        if kind == "rmem":
            return self.read_register(ref)
        cell, at = self.cell(ref, write=False)
        if is_element(at):
            found = cell.read(Region(cell.shape, tuple(_index(a) for a in at)), self.site)
            return found.item() if found.ndim == 0 else found
        return self.read_cell(cell, at, self.own(extents(at)))

    def read_tensor(self, ref: Ref, at: tuple[At, ...], picks: Sequence[Pick]) -> Array:
        tensor = self.tensor(ref)
        found = tensor.read(parts(at, picks), self.site).reshape(shape_of(picks))
        self.tensors += found.size * DTYPES[tensor.dtype].bits / 8
        return tile(found)

    def read_cell(self, cell: Cell, at: tuple[At, ...], picks: Sequence[Pick]) -> Array:
        found = cell.read(self.region(cell, at, picks), self.site).reshape(shape_of(picks))
        self.shared += found.size * DTYPES[cell.dtype].bits / 8
        return tile(found)

    def read_register(self, ref: Ref) -> Value:
        f = self.field(ref)
        if not f.shape:
            key = (f.owner, f.name)
            if key not in self.w.scalars:
                raise Fault(
                    "unwritten",
                    f"{self.site} reads {f.owner}.{f.name}, which has no value yet",
                    ("here", self.site),
                )
            return self.w.scalars[key]
        cell = self.w.register(ref)
        return cell.read(self.register_region(ref), self.site)

    def register_region(self, ref: Ref) -> Region:
        """The part of a register field's window that the warp has, within the warp's part of the field."""
        f = self.field(ref)
        cell = self.w.register(ref)
        if ref.window is None:
            return Region(cell.shape, (slice(0, cell.shape[0], 1), slice(0, cell.shape[1], 1)))
        own = field_part(self.w, f)
        at = window(ref, f.shape, self.number)
        at = (Range(0, 1), *at)[-2:]
        return Region(cell.shape, selector([_within(p, a) for p, a in zip((own.rows, own.cols), at, strict=True)]))

    def rows(self, of: Expr) -> Array:
        return ids(self._part(of).rows)[:, None]

    def cols(self, of: Expr) -> Array:
        return ids(self._part(of).cols)[None, :]

    def _part(self, of: Expr) -> Own:
        if isinstance(of, Name):
            raise CannotRun(f"`rows` and `cols` of the token `{of.id}`: a field is wanted")
        assert isinstance(of, Ref)
        f = self.field(of)
        shape = self.shape(of)
        if of.window is not None:
            shape = extents(window(of, shape, self.number))
        if f.owner in self.kernel.resources and self.kernel.resources[f.owner].kind == "rmem" and of.window is None:
            return field_part(self.w, f)
        picks = self.own(shape)
        rows, cols = [every(1), *picks][-2:]
        return Own(rows, cols)

    def extent(self, axis: str) -> int:
        return self.w.grid.space.extents[axis]

    # ---- results ---------------------------------------------------------------------------------------------------

    def write_register(self, ref: Ref, value: Value, mask: Value | None = None) -> None:
        f = self.field(ref)
        if not f.shape:
            if mask is not None:
                value = np.where(mask, value, 0)  # type: ignore[call-overload]
            self.w.scalars[f.owner, f.name] = _converted(value, self.w.layout.cell("", f, ()))
            return
        cell = self.w.register(ref)
        region = self.register_region(ref)
        shape = cell.data[region.index].shape
        array = np.asarray(value)
        array = array.reshape(shape) if array.size == int(np.prod(shape)) else np.broadcast_to(array, shape)
        cell.write(region, array, self.site, None if mask is None else np.broadcast_to(np.asarray(mask), shape))


def stored_picks(act: Act, at: tuple[At, ...]) -> list[Pick]:
    """The part of a window that a warp stores: that which it holds of the value's register field."""
    placed = act.placed("value")
    assert placed is not None
    shape = extents(at)
    for e in walk(placed.expr):
        if isinstance(e, Ref) and act.kind(e) == "rmem" and act.field(e).shape:
            f = act.field(e)
            if e.window is None:
                return act.picks(shape, f)
    return act.own(shape)


def fitted(value: Value, picks: Sequence[Pick], shape: tuple[int, ...]) -> Array:
    """A value as an array of a region's `shape`, which has the picks' elements: scalars and rows are broadcast."""
    array = np.asarray(value)
    kept = shape_of(picks)
    if array.size != int(np.prod(kept)):
        array = np.broadcast_to(array, kept)
    return array.reshape(shape)


def tile(found: Array) -> Array:
    """A tile with rows and columns: a vector is one row."""
    return found.reshape(1, -1) if found.ndim == 1 else found


def _index(a: At) -> int | Array:
    assert not isinstance(a, Range)
    return a


def _converted(value: Value, cell: Cell) -> Value:
    found = rounded(np.asarray(value), cell.dtype)
    return found.item() if found.ndim == 0 else found


def _within(pick: Pick, at: At) -> Pick:
    """The places, within what a warp has along a dimension, of what a window takes."""
    if isinstance(at, Range):
        if isinstance(pick, slice) and pick.step == 1 and pick.start <= at.start and at.start + at.length <= pick.stop:
            return slice(at.start - pick.start, at.start - pick.start + at.length, 1)
        found = ids(pick)
        return tidy(np.nonzero((found >= at.start) & (found < at.start + at.length))[0])
    return tidy(np.nonzero(ids(pick) == at)[0])


def _inner(view: Ref, base: Field, at: tuple[At, ...], number: Callable[[Expr], Value]) -> tuple[At, ...]:
    """A window of a view with a window of its own."""
    outer = window(view, base.shape, number)
    left = list(at)
    found: list[At] = []
    for o in outer:
        if isinstance(o, Range):
            a = left.pop(0)
            found.append(Range(o.start + a.start, a.length) if isinstance(a, Range) else a + o.start)
        else:
            found.append(o)
    return tuple(found)
