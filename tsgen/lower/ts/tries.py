"""TS never forgets the answer of a try: a blocking step that finds an old one would not block."""

from __future__ import annotations

from tsgen.lower.errors import refuse
from tsgen.model.kernel import Task
from tsgen.model.steps import CallStep, DomainLoop, Guard, Skippable, StaticFor, StaticIf, Step, TileLoop, When, calls

NONE, FRESH, OLD = "none", "fresh", "old"
_OPENS = {"try_acquire": "acquire", "try_wait": "wait"}


def check_tries(task: Task) -> None:
    """Refuses a schedule in which a blocking step may meet an answer that was used before."""
    steps = task.schedule.steps
    for target, method in {(c.target, _OPENS[c.method]) for c in calls(steps) if c.method in _OPENS}:
        _after(steps, target, method, frozenset({NONE}))


def _after(steps: tuple[Step, ...], target: str, method: str, states: frozenset[str]) -> frozenset[str]:
    for x in steps:
        match x:
            case CallStep():
                states = _call(x, target, method, states)
            case DomainLoop() | TileLoop() | StaticFor():
                before: frozenset[str] = frozenset()
                while before != states:
                    before, states = states, states | _after(x.body, target, method, states)
            case StaticIf():
                states = _after(x.body, target, method, states) | _after(x.orelse, target, method, states)
            case Guard() | When() | Skippable():
                states = states | _after(x.body, target, method, states)
    return states


def _call(c: CallStep, target: str, method: str, states: frozenset[str]) -> frozenset[str]:
    if c.target != target:
        return states
    if _OPENS.get(c.method) == method:
        return frozenset({FRESH})
    if c.method != method:
        return states
    if OLD in states:
        refuse(
            f"`{c.text}`, which may come without a `try_{method}` of its own, in TS",
            c.span,
            "TS keeps the answer of the last try for ever: try before every blocking step of this ring, or never",
        )
    return frozenset(OLD if s == FRESH else s for s in states)
