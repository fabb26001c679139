"""What agents ask of conditions; and conditions that are chosen though they could be computed.

Where all tasks have one condition, its outcomes matter to a schedule, and not what they come from. A chosen outcome
covers more than can happen, asks for no numbers, and lets states come back that would have to remember them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from math import lcm

from tsgen.verify.conditions import unknowns_of
from tsgen.verify.machine import LOOP, SKIP, TILE, WHEN, Agent, Condition, Instruction, System, Test
from tsgen.verify.questions import comparisons

FEW = 16  # iterations


def asked(agent: Agent, conditions: Sequence[Condition]) -> None:
    """Notes where an agent last asks for which unknown, and for which condition."""
    agent.queries, agent.asks, agent.period = {}, {}, agent.windows
    agent.skips = frozenset(ins[3] for ins in agent.code if ins[0] == TILE and ins[3] >= 0)
    for pc, ins in enumerate(agent.code):
        unknowns: Iterable[int] = ()
        if ins[0] == LOOP:
            unknowns = ins[1].unknowns
        elif ins[0] == SKIP:
            unknowns = [u for u, _ in ins[2].terms]
        elif ins[0] == WHEN:
            unknowns = _tested(conditions[ins[1]])
            agent.period = lcm(agent.period, *_turns(conditions[ins[1]].test))
            agent.asks[ins[1]] = pc
        elif ins[0] == TILE and ins[3] >= 0:
            unknowns = _tested(conditions[ins[3]])
        inside = agent.loop[0] <= pc <= agent.loop[1]
        for u in unknowns:
            agent.queries[u] = max(agent.queries.get(u, -1), agent.loop[1] if inside else pc)


def choosable(system: System, agents: Collection[int]) -> list[frozenset[int]]:
    """Sets of conditions to choose, one after the other: all that agents ask for, then those alone that numbers decide
    which a state would have to keep. Of those that say the same, the one that stands for them is named."""
    used = {c for a in agents for c in (*system.agents[a].asks, *system.agents[a].skips)}
    tests = {c: test for c in used if (test := system.conditions[c].test) is not None}
    every = frozenset(system.conditions[c].same for c in tests)
    hard = frozenset(system.conditions[c].same for c, test in tests.items() if is_hard(test))
    return [s for s in dict.fromkeys((every, hard)) if s]


def is_hard(test: Test) -> bool:
    """Whether a test looks at more than the first few iterations, or at where they are in a period."""
    forms = [(t.form, t.loop) for t in comparisons(test)]
    return any(form is not None and (form.terms or abs(form.const) > FEW * max(abs(k), 1)) for form, k in forms)


def with_chosen(system: System, chosen: Collection[int]) -> System:
    """The same machine where the environment chooses the outcomes of conditions that could be computed: alike for all
    that say the same, in each place that they may depend on."""
    conditions = [replace(c, test=None) if c.test is not None and c.same in chosen else c for c in system.conditions]
    found = replace(system, conditions=conditions)
    found.agents = []
    for agent in system.agents:
        code = [_moved(ins, system.conditions, chosen) for ins in agent.code]
        found.agents.append(replace(agent, code=code))
        asked(found.agents[-1], conditions)
    return found


def _moved(ins: Instruction, conditions: Sequence[Condition], chosen: Collection[int]) -> Instruction:
    """An instruction that asks for the one condition of all that say the same, if that is chosen."""
    if ins[0] not in (WHEN, TILE):
        return ins
    at = 1 if ins[0] == WHEN else 3
    c = conditions[ins[at]]
    if ins[at] < 0 or c.test is None or c.same not in chosen:
        return ins
    return (*ins[:at], c.same, ins[at + 1] != c.turned, *ins[at + 2 :])


def _tested(condition: Condition) -> list[int]:
    return unknowns_of(condition.test) if condition.test is not None else []


def _turns(test: Test | None) -> Iterator[int]:
    """After how many iterations the parts of a test repeat."""
    if test is not None:
        yield from [len(test.turn)] if test.turn else []
        for part in test.parts:
            yield from _turns(part)
