"""Agents that have nothing to do with each other are explored apart: their states need not be multiplied."""

from __future__ import annotations

from tsgen.verify.machine import ACCESS, ARM, ARRIVE, NAMED_ARRIVE, NAMED_WAIT, TRY, WAIT, System


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
            if ins[0] in (WAIT, TRY, NAMED_ARRIVE, NAMED_WAIT):
                join(("barrier", ins[1]), a)
            elif ins[0] in (ARRIVE, ARM):
                for base in ins[1]:
                    join(("barrier", base), a)
                if ins[0] == ARRIVE and ins[7] >= 0:
                    join(("barrier", ins[7]), a)
            elif ins[0] == ACCESS:
                for base, *_ in ins[2]:
                    join(("barrier", base), a)
    for cell, writers in enumerate(system.cell_writers):
        if writers:
            for a in system.cell_users[cell]:
                join(("cell", cell), a)
    found: dict[int, list[int]] = {}
    for a in range(len(system.agents)):
        found.setdefault(find(a), []).append(a)
    return list(found.values())
