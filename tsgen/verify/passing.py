"""Stages that a task waits for, and passes over without reading them (TS508)."""

from __future__ import annotations

from tsgen.derive.arrivals import WAIT as FULL
from tsgen.derive.spread import role_only
from tsgen.verify.machine import ACCESS, GUARD, SKIPPABLE, WAIT, WHEN, Agent, System
from tsgen.verify.state import Problem, State

PASSED_OVER = "passed over"


def watched(system: System, agent: Agent) -> dict[int, int]:
    """Positions of rings of which an agent reads each stage that it waits for, and a step that waits.

    It must read in no block that may be left out; and if it waits outside of its loop, not in the loop alone, which may
    make no trip. A work that is only a role reads what its author will write.
    """
    first, last = agent.loop
    guarded = [range(pc, ins[-2]) for pc, ins in enumerate(agent.code) if ins[0] in (WHEN, GUARD, SKIPPABLE)]
    reads: dict[int, set[bool]] = {}  # slot -> whether inside the loop
    left_out: set[int] = set()
    for pc, ins in enumerate(agent.code):
        for item in ins[1] if ins[0] == ACCESS else ():
            if item.slot >= 0 and item.slot % 4 == FULL and not item.write:
                reads.setdefault(item.slot, set()).add(first <= pc <= last)
                step = system.steps[ins[-1]]
                work = system.kernel.work(step.resource or "", step.method or "")
                if work is None or role_only(work) or any(pc in block for block in guarded):
                    left_out.add(item.slot)
    found: dict[int, int] = {}
    for pc, ins in enumerate(agent.code):
        for slot in ins[2] if ins[0] == WAIT else ():
            if slot in reads and reads[slot] == {True} and not first <= pc <= last:
                left_out.add(slot)
            found[slot] = ins[-1]
    return {slot: ref for slot, ref in found.items() if slot in reads and slot not in left_out}


def waited(system: System, st: State, a: int, slots: tuple[int, ...], ref: int, remarks: dict[str, Problem]) -> None:
    """An agent goes on to the next stage: it has read the one before."""
    for slot in slots:
        if slot in system.agents[a].watched:
            if st.unread >> slot & 1:
                remarks.setdefault(PASSED_OVER, Problem(PASSED_OVER, a, ref, data=(system.slot_ring[slot],)))
            st.unread |= 1 << slot


def ended(system: System, st: State, a: int, remarks: dict[str, Problem]) -> None:
    """An agent is through: it has read the stage that it waited for last."""
    for slot, ref in system.agents[a].watched.items():
        if st.unread >> slot & 1:
            remarks.setdefault(PASSED_OVER, Problem(PASSED_OVER, a, ref, data=(system.slot_ring[slot],)))
