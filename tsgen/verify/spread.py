"""How an op deals elements out to threads: accesses of one spread touch the same elements in the same threads."""

from __future__ import annotations

from tsgen.model.expr import Placed, Ref, walk
from tsgen.model.kernel import CopyArg, Kernel, Work
from tsgen.model.ops import OPS

LINEAR = "linear"


def spread_of(kernel: Kernel, work: Work, engine: str) -> str | None:
    """The name of the spread of a work's generic accesses, or None if its threads are not the elements' owners.

    A register field decides (its fragment has one owner for each element); without one, elements are dealt out in
    order. Bodies are taken to keep to that order, since they may not synchronise.
    """
    if engine in ("tcgen05_ld", "tcgen05_st"):
        return "lanes"
    dealt = engine == "generic" or (engine in ("tx", "cp_async") and work.op in OPS and OPS[work.op].issue == "threads")
    if not dealt:
        return None
    for value in work.args.values():
        exprs = [value.expr] if isinstance(value, Placed) else []
        if isinstance(value, tuple):
            exprs = [e for a in value for e in ((a.to, a.source) if isinstance(a, CopyArg) else (a.value,))]
        for e in exprs:
            for ref in walk(e):
                if isinstance(ref, Ref) and ref.resource is not None and kernel.resources[ref.resource].kind == "rmem":
                    if kernel.resources[ref.resource].fields[ref.name].shape:
                        return f"{ref.resource}.{ref.name}"
    return LINEAR
