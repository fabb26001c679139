"""What tensor cores still do when a kernel ends: shared memory goes with the CTA, tensor memory is freed before.

Tensor memory is freed by the tasks that move it to registers, once all of them have come to their end (of both CTAs of
a pair; `tsgen/lower/tmem.py`): together they must know that every access is complete. Shared memory is there until the
last task has ended. A task that fills a ring which tensor cores release waits at its end until it is empty (`drain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

from tsgen.derive.spread import REGISTERS, engine_of, role_only
from tsgen.model.kernel import Kernel, Task, Work
from tsgen.model.steps import calls
from tsgen.verify.machine import ARRIVE, CARRY_UMMA, TCGEN05, TMEM_LD, TMEM_ST, WAIT, System
from tsgen.verify.state import Problem, Record, State

_ENGINES = (TCGEN05, TMEM_LD, TMEM_ST)
_MOVES = ("tmem_load", "tmem_store")


def in_flight(system: System, agents: list[int], st: State) -> Problem | None:
    """An access by a tensor core, or to tensor memory, that may still be under way when its memory goes."""
    known: dict[tuple[int, ...], int] = {}  # what agents know together
    for cell, records in enumerate(st.cells):
        for r in records:
            if r.engine not in _ENGINES or r.spread in REGISTERS or r.agent not in agents:
                continue
            freed = cell in system.freed
            last = system.freeing[r.agent] if freed else tuple(range(len(system.agents)))
            if last not in known:
                known[last] = reduce(or_, _known(system, st, last), 0)
            if last and not known[last] & r.token:
                return Problem("unfreed" if freed else "unread", r.agent, r.ref, data=(r.engine, r.write))
    return None


def untold(system: System, st: State, cell: int, r: Record) -> bool:
    """Whether none of those who free tensor memory knows yet that an access is complete."""
    return (
        cell in system.freed
        and r.engine in _ENGINES
        and not any(st.known[a] & r.token for a in system.freeing[r.agent])
    )


def note_freeing(system: System) -> None:
    """Fills in which agents free tensor memory that an agent touches; none if no task moves any: then nothing is
    allocated."""
    fields, kernel = system.fields, system.kernel
    movers = {t.name for t in kernel.tasks if _moves(kernel, t)}
    places = [{a.cta, a.cta ^ 1} if system.pairs else {a.cta} for a in system.agents]
    freeing = [(a, agent.cta) for a, agent in enumerate(system.agents) if agent.task.name in movers]
    system.freeing = [tuple(a for a, cta in freeing if cta in ctas) for ctas in places]
    tmem = {
        i
        for i, f in enumerate(fields)
        if f.resource in kernel.resources and kernel.resources[f.resource].kind == "tmem"
    }
    system.drained = _drained(system)
    system.freed = frozenset(c for c, f in enumerate(system.cell_field) if f in tmem) if movers else frozenset()


def _drained(system: System) -> list[tuple[int, ...]]:
    """By agent: the barriers of stages that tensor cores release and that it acquires."""
    released = {
        base + stage
        for agent in system.agents
        for ins in agent.code
        if ins[0] == ARRIVE and ins[6] == CARRY_UMMA
        for base in ins[1]
        for stage in range(ins[3])
    }
    acquires = [[i for i in agent.code if i[0] == WAIT and i[5]] for agent in system.agents]  # the lag is 1
    stages = [{b for i in found for b in range(i[1], i[1] + i[3])} for found in acquires]
    return [tuple(sorted(mine & released)) for mine in stages]


def _moves(kernel: Kernel, task: Task) -> bool:
    works = (kernel.work(c.target, c.method) for c in calls(task.schedule.steps) if c.kind == "work")
    return any(w.op in _MOVES or _will_move(kernel, w) for w in works if w is not None)


def _will_move(kernel: Kernel, work: Work) -> bool:
    """Whether a work that is only a role stands for one that moves tensor memory."""
    owner = kernel.resources.get(work.owner)
    tmem = owner is not None and owner.kind == "tmem"
    return tmem and role_only(work) and engine_of(kernel, work, "generic") == "generic"


def _known(system: System, st: State, agents: Iterable[int]) -> Iterator[int]:
    """What agents know at their end: each by itself, and from the releases of tensor cores that it waits for."""
    for a in agents:
        yield st.known[a]
        yield from (st.last[b] for b in system.drained[a])


__all__ = ["in_flight", "note_freeing", "untold"]
