"""What is said where a proof does not end: the bounds and conditions that kept it from that, as they were written."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from tsgen.diagnostics import Finding, Related, error
from tsgen.model.kernel import Kernel
from tsgen.verify.conditions import unknowns_of
from tsgen.verify.machine import LOOP, TILE, WHEN, Instruction, StepInfo, System
from tsgen.verify.opaque import is_hard

NAMED = 3  # bounds and conditions in a message


@error("TS407", "proof-incomplete", "warning")
def proof_incomplete(kernel: Kernel, left: Iterable[StepInfo]) -> Finding:
    """The schedule was tried for small numbers, nothing was found, and the proof for all numbers did not end.

    Conditions that compare with large numbers, several conditions that the data decide, and numbers that depend on each
    other in ways that the verifier does not see make a schedule hard to close. The message names the bounds and the
    conditions that did not fit together. Nothing is promised beyond what was tried: write what is one number or one
    condition alike in all tasks, say what is known in `launch.assume`, or simulate the sizes that matter.
    """
    found: dict[str, StepInfo] = {}
    for info in sorted(left, key=lambda info: info.span):
        found.setdefault(info.text, info)
    named = list(found.values())[:NAMED]
    message = "not proven for all numbers of trips and tiles: only small ones were tried"
    if not named:
        return Finding(message, kernel.span, "simulate the sizes that matter")
    if len(named) == 1:
        message += f"; for larger values of `{named[0].text}` the proof did not end"
        help = "say in `launch.assume` what is known of it, or use the same bound or condition in all tasks"
        return Finding(message, named[0].span, help)
    *words, last = (f"`{info.text}`" for info in named)
    message += f", and it is not known how {', '.join(words)} and {last} are related"
    help = "write one `let` for what is equal, and use it in all tasks, or say in `launch.assume` how they are related"
    related = tuple(Related(f"`{info.text}`", info.span) for info in named[1:])
    return Finding(message, named[0].span, help, related)


def undecided(system: System, agents: Collection[int], doubt: Collection[int]) -> list[StepInfo]:
    """The bounds and conditions of agents that are made of unknowns, or that look far."""
    queues = set(system.tile_unknowns.values())
    unknowns = set(doubt) - queues
    code = [ins for a in agents for ins in system.agents[a].code]
    return [system.steps[ins[-1]] for ins in code if _concerns(system, ins, unknowns)]


def _concerns(system: System, ins: Instruction, unknowns: set[int]) -> bool:
    if ins[0] == LOOP:
        return any(u in unknowns for u in ins[1].unknowns)
    index = ins[1] if ins[0] == WHEN else ins[3] if ins[0] == TILE else -1
    test = system.conditions[index].test if index >= 0 else None
    if test is None:
        return False
    made = unknowns_of(test)
    return any(u in unknowns for u in made) or (not made and is_hard(test))
