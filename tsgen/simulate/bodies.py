"""Inline bodies by their NumPy twins: the same names, whole-tile arrays, `thread` and `lane` an arange of the warp's.

Every warp runs the twin. A field that it writes takes the warp's part of it; if the twin names `thread`, `lane` or
`warp`, the elements that it changed.
"""

from __future__ import annotations

import ast
import math
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

import numpy as np

from tsgen.model.expr import Ref
from tsgen.model.kernel import SAME
from tsgen.runtime.errors import CannotRun
from tsgen.simulate.expressions import single
from tsgen.simulate.faults import Fault
from tsgen.simulate.memory import Array, Cell, Region
from tsgen.simulate.windows import Value, all_of, extents, parts, window
from tsgen.simulate.works import Act

_OF_A_THREAD = {"thread", "lane", "warp"}


@dataclass(slots=True)
class _View:
    """A cell's window as the twin sees it: an array that it may change in place."""

    cell: Cell
    region: Region
    own: Region
    shape: tuple[int, ...]  # that the twin sees: an index drops its dimension
    before: Array


def run_twin(act: Act) -> None:
    """Runs the twin of one call. Raises CannotRun where it fails."""
    work = act.work
    text = work.body if work.numpy == SAME else work.numpy
    if text is None:
        raise CannotRun(f"{work.owner}.{work.name} (line {work.span.line}) has no body that its `numpy` could be")
    try:
        code, used = _compiled(textwrap.dedent(text).strip("\n"), f"<numpy of {work.owner}.{work.name}>")
    except SyntaxError as e:  # that only a compiler sees: `return`, `await`
        raise CannotRun(f"the NumPy twin of {work.owner}.{work.name} (line {work.span.line}): {e.msg}") from None
    names: dict[str, Value] = {"np": np, "numpy": np, "math": math}
    names.update({n: v for n, v in act.names.items() if n in used})
    views = _views(act, used, names)
    lanes = bool(used & _OF_A_THREAD)
    try:
        exec(code, {"__builtins__": __builtins__}, names)
    except IndexError as e:
        raise Fault("outside", f"{act.site} reads outside: {e}", ("in its NumPy twin", act.site)) from None
    except Exception as e:
        at = work.span.line
        raise CannotRun(f"the NumPy twin of {work.owner}.{work.name} (line {at}) fails: {type(e).__name__}: {e}") from e
    for name, view in views.items():
        after = np.broadcast_to(np.asarray(names[name]), view.shape).reshape(view.before.shape)
        changed = ~((after == view.before) | ((after != after) & (view.before != view.before)))
        if lanes:
            if changed.any():
                view.cell.write(view.region, after, act.site, changed)
        else:
            index = view.own.index
            whole = np.zeros(view.cell.shape, dtype=after.dtype)
            whole[view.region.index] = after
            view.cell.write(view.own, whole[index], act.site)
    missing = [r for r in work.returns if r not in names]
    if missing:
        raise CannotRun(f"the NumPy twin of {work.owner}.{work.name} does not assign {', '.join(missing)}")
    act.give(*(_plain(names[r]) for r in work.returns))


@lru_cache(maxsize=256)
def _compiled(text: str, name: str) -> tuple[CodeType, frozenset[str]]:
    """The twin's code, and the names that stand in it. Its syntax was checked with the spec."""
    tree = ast.parse(text)
    used = frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    return compile(tree, name, "exec"), used


def _views(act: Act, used: frozenset[str], names: dict[str, Value]) -> dict[str, _View]:
    """Binds tensors and fields; those in shared memory that the work writes are given back."""
    work = act.work
    for name in used:
        if name in act.kernel.tensors and act.kernel.tensors[name].shape and act.kernel.tensors[name].present:
            names[name] = act.tensor(Ref(None, None, name)).data
    refs: dict[str, tuple[Ref, bool]] = {n: (act.chosen(p.expr), False) for n, p in work.reads.items()}
    refs |= {n: (act.chosen(p.expr), True) for n, p in work.writes.items()}
    owner = act.kernel.resources.get(work.owner)
    for f in owner.fields.values() if owner is not None else ():
        if f.name in used and f.name not in refs:
            refs[f.name] = (Ref(work.owner, None, f.name), work.role == "producer")
    found: dict[str, _View] = {}
    for name, (ref, write) in refs.items():
        if name not in used:
            continue
        kind = act.kind(ref)
        if kind == "tensor":
            tensor = act.tensor(ref)
            at = window(ref, tensor.shape, act.number)
            names[name] = tensor.read(parts(at, all_of(at)), act.site).reshape(extents(at))
        elif kind == "rmem":
            names[name] = act.read_register(ref)
        else:
            cell, at = act.cell(ref, write)
            region = act.region(cell, at, all_of(at))
            array = np.array(cell.data[region.index]) if write else cell.read(region, act.site)
            if write:
                own = act.region(cell, at, act.own(extents(at)))
                found[name] = _View(cell, region, own, extents(at), np.array(array))
            names[name] = array.reshape(extents(at))
    return found


def _plain(v: Value) -> Value:
    v = single(v)
    return v.item() if isinstance(v, np.ndarray | np.generic) and v.ndim == 0 else v
