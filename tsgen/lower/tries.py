"""Where the answers of `try_acquire` and `try_wait` go: to the next blocking step of that side in the task, once.

That step may stand in the next iteration or tile, so an answer is a variable. Where a blocking step may also be
reached without an answer, the variable must say "not ready" there: it starts so, and is cleared where an answer was
used or, after a skip, is about another stage.
"""

from __future__ import annotations

from dataclasses import field

from tsgen.frozen import frozen
from tsgen.model.algebra import Env, NotConstant, evaluate
from tsgen.model.steps import CallStep, DomainLoop, StaticFor, StaticIf, Step, TileLoop, calls

START = 0  # stands for the task's beginning among the steps that a value comes from
_BLOCKING = {"try_acquire": "acquire", "try_wait": "wait"}


@frozen
class Answers:
    """What becomes of the answers of one kind of try on one ring. Steps are known by their id()."""

    used_by: frozenset[int] = frozenset()  # blocking steps that take an answer
    asked: frozenset[int] = frozenset()  # tries whose answer some step takes
    cleared_after: frozenset[int] = frozenset()  # blocking steps and skips
    starts_unknown: bool = False  # whether the variable must have a value before the first try


@frozen
class _Flow:
    """One walk over a schedule: the sets of steps that the variable's value may come from."""

    target: str
    attempt: str
    env: Env
    reaching: dict[int, frozenset[int]] = field(default_factory=dict)  # at each blocking step

    def walk(self, steps: tuple[Step, ...], before: frozenset[int]) -> frozenset[int]:
        for x in steps:
            before = self.call(x, before) if isinstance(x, CallStep) else self.block(x, before)
        return before

    def call(self, c: CallStep, before: frozenset[int]) -> frozenset[int]:
        if c.target != self.target or c.kind not in ("pipeline", "group"):
            return before
        if c.method == _BLOCKING[self.attempt]:
            self.reaching[id(c)] = self.reaching.get(id(c), frozenset()) | before
            return frozenset({id(c)})
        skips = c.method == "skip" and self.attempt == "try_wait"
        return frozenset({id(c)}) if skips or c.method == self.attempt else before

    def block(self, x: Step, before: frozenset[int]) -> frozenset[int]:
        assert not isinstance(x, CallStep)
        if isinstance(x, StaticIf):
            try:
                return self.walk(x.body if evaluate(x.condition.expr, self.env) else x.orelse, before)
            except NotConstant:
                return self.walk(x.body, before) | self.walk(x.orelse, before)
        after = self.walk(x.body, before)
        if isinstance(x, DomainLoop | TileLoop | StaticFor):
            after |= self.walk(x.body, before | after)
        always = isinstance(x, StaticFor) and bool(x.values)
        return after if always else before | after


def answers(steps: tuple[Step, ...], target: str, attempt: str, env: Env) -> Answers:
    """What becomes of the answers of `target.attempt()` in a schedule."""
    tries = {id(c) for c in calls(steps) if c.target == target and c.method == attempt}
    if not tries:
        return Answers()
    flow = _Flow(target, attempt, env)
    flow.walk(steps, frozenset({START}))
    used_by = {step: sources for step, sources in flow.reaching.items() if sources & tries}
    sources = frozenset[int]().union(*used_by.values()) if used_by else frozenset[int]()
    return Answers(frozenset(used_by), sources & tries, sources - tries - {START}, START in sources)


def late(steps: tuple[Step, ...], target: str, attempt: str, env: Env) -> CallStep | None:
    """A blocking step of a ring that is tried, which may follow another one without a try in between."""
    flow = _Flow(target, attempt, env)
    flow.walk(steps, frozenset({START}))
    tries = {id(c) for c in calls(steps) if c.target == target and c.method == attempt}
    old = {step for step, sources in flow.reaching.items() if sources - tries - {START}}
    return next((c for c in calls(steps) if tries and id(c) in old), None)
