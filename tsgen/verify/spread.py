"""Who does an access, and with what: the engine, the thread that issues it, and how elements are dealt out to
threads."""

from __future__ import annotations

from tsgen.model.expr import Placed, Ref, walk
from tsgen.model.kernel import CopyArg, Kernel, Work
from tsgen.model.ops import OPS
from tsgen.model.pipelines import PIPELINES

LINEAR = "linear"
_ELECTED = ("tx", "bulk", "tcgen05")  # engines that one thread of the task starts


def role_only(work: Work) -> bool:
    """Whether a work is no more than its role: the schedule is being designed, its code is not written yet."""
    return work.op is None and work.body is None and work.call is None


def engine_of(kernel: Kernel, work: Work, engine: str) -> str:
    """The engine of an access. A work that is only a role does what its pipeline is for: MMAs on the umma side."""
    owner = kernel.resources.get(work.owner)
    if engine == "generic" and role_only(work) and owner is not None and owner.pipeline is not None:
        kind = PIPELINES[owner.pipeline.type]
        if (kind.producer if work.role == "producer" else kind.consumer) == "umma":
            return "tcgen05"
    return engine


def writes_bytes(work: Work) -> bool:
    """Whether a work adds to the transaction bytes of a full barrier."""
    return (OPS[work.op].engine if work.op is not None else work.engine) == "tx"


def elected(kernel: Kernel, work: Work) -> bool:
    """Whether one thread of the task (with `scope: warp`, of each warp) performs the work."""
    if work.op is not None:
        return OPS[work.op].issue == "elected"
    return (work.engine or engine_of(kernel, work, "generic")) in _ELECTED


def spread_of(kernel: Kernel, work: Work, engine: str) -> str | None:
    """Accesses of one spread touch the same elements in the same threads; None if threads do not own elements.

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
        for ref in (r for e in exprs for r in walk(e) if isinstance(r, Ref)):
            owner = kernel.resources.get(ref.resource or "")
            if owner is not None and owner.kind == "rmem" and owner.fields[ref.name].shape:
                return f"{ref.resource}.{ref.name}"
    return LINEAR
