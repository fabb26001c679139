"""What fills the stages of a ring: whose bytes its full barrier waits for, and whether copies of threads (cp.async)
complete it (LANGUAGE.md sections 5 to 7)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.spread import role_only, writes_bytes
from tsgen.derive.unfold import calls
from tsgen.derive.uses import Uses
from tsgen.model.kernel import Kernel, Resource, Work
from tsgen.model.ops import OPS
from tsgen.model.pipelines import PIPELINES
from tsgen.model.steps import CallStep


def byteless(kernel: Kernel, uses: Uses) -> Iterator[tuple[Resource, bool]]:
    """Rings that wait for bytes which no step writes, and whether one of the works that fill them has no code yet.

    The members of a fork share the full barrier, so one of them may write for all. The CTAs that a ring of peers waits
    for are those that `peer_store` names.
    """
    fillers = _fillers(kernel, uses)
    for resource in kernel.resources.values():
        pipeline = resource.pipeline
        if pipeline is None or resource.queue is not None or not PIPELINES[pipeline.type].counts_bytes:
            continue
        fork = next((g.members for g in kernel.groups.values() if g.mode == "fork" and resource.name in g.members), ())
        works = [w for name in fork or (resource.name,) for w in fillers.get(name, ())]
        if not any(w.op == "peer_store" if pipeline.type == "peer_async" else writes_bytes(w) for w in works):
            yield resource, any(map(role_only, works))


def _fillers(kernel: Kernel, uses: Uses) -> dict[str, list[Work]]:
    """Producer works that a schedule calls, by their owner."""
    found: dict[str, dict[str, Work]] = {}
    for program in uses.programs.values():
        for node in calls(program):
            step = node.step
            work = kernel.work(step.target, step.method) if isinstance(step, CallStep) and step.kind == "work" else None
            if work is not None and work.role == "producer":
                found.setdefault(work.owner, {}).setdefault(work.name, work)
    return {owner: list(works.values()) for owner, works in found.items()}


# ---- cp.async --------------------------------------------------------------------------------------------------------


def copies(work: Work) -> bool:
    """Whether each thread moves data by cp.async."""
    return (OPS[work.op].engine if work.op is not None else work.engine) == "cp_async"


def closes_group(kernel: Kernel, work: Work) -> bool:
    """Whether a call closes a group of cp.async: not if it fills an async pipeline, whose commit waits for it."""
    owner = kernel.resources.get(work.owner)
    ring = owner is not None and owner.pipeline is not None and PIPELINES[owner.pipeline.type].producer == "async"
    return copies(work) and not (ring and work.role == "producer")


def filled_by_copies(resource: Resource) -> bool:
    """Whether the commit of a ring is made by cp.async itself, when all copies are complete that the thread has begun.
    Any other commit is at once, and waits for no copy."""
    pipeline = resource.pipeline
    if pipeline is None or PIPELINES[pipeline.type].producer != "async":
        return False
    return any(copies(w) for w in resource.works.values() if w.role == "producer")
