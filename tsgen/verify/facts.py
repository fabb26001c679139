"""Facts about all code together: which positions move, who touches which cell, who must know of which completion."""

from __future__ import annotations

from tsgen.verify.leaving import note_freeing
from tsgen.verify.machine import (
    ACCESS,
    ARM,
    ARRIVE,
    BRACKET,
    CARRY_CP_ASYNC,
    CARRY_UMMA,
    CP_ASYNC,
    CP_OPEN,
    EARLY,
    NAMED_ARRIVE,
    SKIP,
    TRY,
    WAIT,
    Instruction,
    System,
)
from tsgen.verify.written import track


def collect(system: System) -> None:
    """Fills in what the exploration asks about the system as a whole."""
    system.cell_users = [set() for _ in range(system.cells)]
    system.cell_writers = [set() for _ in range(system.cells)]
    moved: set[int] = set()
    owners: dict[int, set[int]] = {}
    arriving: dict[int, set[int]] = {}  # barrier -> agents whose arrivals are their own; -1: those of an engine
    for index, agent in enumerate(system.agents):
        copies = any(ins[0] == ACCESS and ins[3] in (CP_ASYNC, CP_OPEN) for ins in agent.code)
        for ins in agent.code:
            if ins[0] in (WAIT, ARRIVE):
                moved.update(ins[2])
            elif ins[0] == SKIP:
                moved.update(ins[1])
            elif ins[0] == ACCESS:
                _touch(system, index, ins, owners)
            for base, stages in _asked(ins):
                for b in range(base, base + stages):
                    system.value_users.setdefault(b, set()).add(index)
            if ins[0] in (ARRIVE, ARM):
                system.reached.update(ins[1])
                own = ins[0] == ARRIVE and ins[6] != CARRY_UMMA and not (ins[6] == CARRY_CP_ASYNC and copies)
                for b in (base + stage for base in ins[1] for stage in range(ins[3])):
                    arriving.setdefault(b, set()).add(index if own else -1)
    alone = {b: next(iter(agents)) for b, agents in arriving.items() if len(agents) == 1}
    system.sole = {b: a for b, a in alone.items() if a >= 0 and not system.barriers[b].transactions}
    for slot in sorted(moved):
        if system.slot_ring[slot] >= 0:
            system.ring_slots.setdefault(system.slot_ring[slot], []).append(slot)
    track(system)
    note_freeing(system)
    shared = [rings for base, rings in owners.items() if len(rings) > 1 or base in system.aliases]
    system.fixed_rings = frozenset(r for rings in shared for r in rings)


def _touch(system: System, index: int, ins: Instruction, owners: dict[int, set[int]]) -> None:
    for item in ins[1]:
        ring = system.slot_ring[item.slot] if item.slot >= 0 and item.stages > 1 else -1
        owners.setdefault(item.base, set()).add(ring)
        for cell in range(item.base, item.base + item.stages):
            for other in (cell, *system.aliases.get(cell, ())):
                system.cell_users[other].add(index)
                if item.write:
                    system.cell_writers[other].add(index)


def _asked(ins: Instruction) -> list[tuple[int, int]]:
    """Barriers (first, number) whose last completion the agent must know when it runs the instruction."""
    if ins[0] == ARRIVE:
        found = [(base, ins[3]) for base in ins[1]]
        return [*found, (ins[7], ins[3])] if ins[7] >= 0 else found
    if ins[0] == ARM:
        return [(base, ins[3]) for base in ins[1]]
    if ins[0] == ACCESS:
        return [(base, stages) for base, _, stages, _, _ in ins[2]]
    if ins[0] == TRY or (ins[0] == WAIT and ins[6] & EARLY):
        return [(ins[1], ins[3])]
    if ins[0] == NAMED_ARRIVE:
        return [(ins[1], 1)]
    if ins[0] == BRACKET:
        return [(base, stages) for _, _, _, base, stages in ins[1] if base >= 0]
    return []
