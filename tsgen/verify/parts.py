"""Agents that have nothing to do with each other are explored apart: their states need not be multiplied."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tsgen.verify.machine import (
    ACCESS,
    ARM,
    ARRIVE,
    NAMED_ARRIVE,
    NAMED_WAIT,
    TRY,
    WAIT,
    Instruction,
    Ring,
    System,
)


def parts(system: System) -> list[list[int]]:
    """Sets of agents that share barriers or memory, each in order."""
    parent = list(range(len(system.agents)))

    def find(a: int) -> int:
        while parent[a] != a:
            parent[a] = a = parent[parent[a]]
        return a

    first: dict[tuple[str, int], int] = {}

    def join(key: tuple[str, int], a: int) -> None:
        other = first.setdefault(key, a)
        parent[find(a)] = find(other)

    instances: dict[tuple[str, int, int], int] = {}
    for a, agent in enumerate(system.agents):
        same = instances.setdefault((agent.task.name, agent.instance.index, agent.cta), a)
        parent[find(a)] = find(same)
        for ins in agent.code:
            for base in _barriers(ins):
                join(("barrier", base), a)
    for cell, writers in enumerate(system.cell_writers):
        if writers:
            for a in system.cell_users[cell]:
                join(("cell", cell), a)
    found: dict[int, list[int]] = {}
    for a in range(len(system.agents)):
        found.setdefault(find(a), []).append(a)
    return list(found.values())


def own_barriers(system: System, agents: Iterable[int]) -> frozenset[int]:
    """Barriers (of rings: of stage 0) that a set of agents waits for or arrives at, in whatever CTA they are."""
    return frozenset(b for a in agents for ins in system.agents[a].code for b in _barriers(ins))


def sides(system: System, ring: Ring, own: Collection[int]) -> tuple[list[int], list[int]]:
    """The full and the empty barriers of a ring that `own` has and somebody arrives at."""
    full = [b for b in ring.full if b in own and b in system.reached]
    return full, [b for b in ring.empty if b in own and b in system.reached]


def balances(system: System, ring: Ring, agents: Iterable[int]) -> list[tuple[list[int], list[int]]]:
    """The sides of a ring, apart for CTAs of which no agent has barriers in common: each has a count of its own."""
    found: list[set[int]] = []
    for a in agents:
        mine = set(own_barriers(system, (a,))).intersection((*ring.full, *ring.empty))
        if mine:
            found = [g for g in found if not g & mine] + [mine.union(*(g for g in found if g & mine))]
    return [sides(system, ring, g) for g in found]


def _barriers(ins: Instruction) -> tuple[int, ...]:
    if ins[0] in (WAIT, TRY, NAMED_ARRIVE, NAMED_WAIT):
        return (ins[1],)
    if ins[0] == ARRIVE:
        return (*ins[1], ins[7]) if ins[7] >= 0 else tuple(ins[1])
    if ins[0] == ARM:
        return tuple(ins[1])
    return tuple(base for base, *_ in ins[2]) if ins[0] == ACCESS else ()
