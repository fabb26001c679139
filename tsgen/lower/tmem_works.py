"""Which works and tasks touch tensor memory, and how many CTAs share an MMA."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.model.expr import Placed, Ref
from tsgen.model.kernel import Kernel, Task, Work
from tsgen.model.ops import accesses
from tsgen.model.steps import calls

MOVES = ("tmem_load", "tmem_store")  # between tensor memory and the registers of a task


def works_of(task: Task, kernel: Kernel) -> Iterator[Work]:
    """The works that a task calls."""
    for c in calls(task.schedule.steps):
        w = kernel.work(c.target, c.method) if c.kind == "work" else None
        if w is not None:
            yield w


def moves_tmem(task: Task, kernel: Kernel) -> bool:
    """Whether a task reads tensor memory into its registers or writes them there: thread t then holds row t."""
    return any(w.op in MOVES for w in works_of(task, kernel))


def touches_tmem(task: Task, kernel: Kernel) -> bool:
    """Whether a task needs the address of tensor memory."""
    refs = (a.ref for w in works_of(task, kernel) for a in accesses(w))
    return any(r.resource is not None and kernel.resources[r.resource].kind == "tmem" for r in refs)


def scaling(kernel: Kernel, ref: Ref) -> tuple[Work, str] | None:
    """The MMA that a field of scale factors belongs to, and as what: `sfa` or `sfb`."""
    for r in kernel.resources.values():
        for w in r.works.values():
            for which in ("sfa", "sfb") if w.op == "tcgen05_mma" else ():
                p = w.args.get(which)
                e = p.expr if isinstance(p, Placed) else None
                if isinstance(e, Ref) and (e.resource, e.name) == (ref.resource, ref.name):
                    return w, which
    return None


def cta_group(kernel: Kernel) -> int:
    """CTAs that one MMA of the kernel spans, 1 or 2; tensor memory is allocated for as many."""
    works = (w for r in kernel.resources.values() for w in r.works.values())
    return max((int(w.args.get("cta_group", 1)) for w in works if w.op in ("tcgen05_mma", "tcgen05_cp")), default=1)  # type: ignore[arg-type]
