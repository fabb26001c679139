"""Ring positions of pipeline steps, symbolic in the iteration of the loop they stand in.

A task keeps one position for each side and method of a ring (acquire, commit, wait, release), counted from its first
tile. Inside the domain loop a position is `a + b·i` for iteration i, after it `a + b·n` for n iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tsgen.model.algebra import Env, NotConstant, NoValue, evaluate, integer
from tsgen.model.expr import text
from tsgen.model.steps import CallStep, DomainLoop, Guard, Skippable, StaticFor, StaticIf, Step, TileLoop, When

ADVANCING = ("acquire", "commit", "wait", "release")
_TRIES = {"try_acquire": "acquire", "try_wait": "wait"}


@dataclass(frozen=True, slots=True)
class Position:
    """`constant + Σ coefficient·symbol`, or unknown where guards decide how often the ring moves on."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()
    known: bool = True

    def plus(self, other: Position) -> Position:
        terms = dict(self.terms)
        for symbol, coefficient in other.terms:
            terms[symbol] = terms.get(symbol, 0) + coefficient
        kept = tuple((s, c) for s, c in terms.items() if c)
        return Position(self.constant + other.constant, kept, self.known and other.known)

    def times(self, count: int | str) -> Position:
        """The position after that many moves; a str names an unknown count. Products of unknowns are unknown."""
        if self == Position():
            return self
        if isinstance(count, int):
            return Position(self.constant * count, tuple((s, c * count) for s, c in self.terms), self.known)
        return Position(0, ((count, self.constant),) if self.constant else (), self.known and not self.terms)

    def show(self, num_stages: int) -> str:
        """As the table shows it; a known number is reduced to the stage."""
        if not self.known:
            return "?"
        if not self.terms:
            return str(self.constant % num_stages)
        parts = [s if c == 1 else f"{c}{s}" for s, c in self.terms]
        constant = self.constant % num_stages
        return "+".join([*([str(constant)] if constant else []), *parts])


UNKNOWN = Position(known=False)
Key = tuple[str, str]  # ring (with its instance), method


class Positions:
    """The positions of one task, moved on step by step."""

    def __init__(self, env: Env, start: Mapping[Key, Position] | None = None) -> None:
        self.env = env
        self.at: dict[Key, Position] = dict(start or {})

    def of(self, step: CallStep) -> Position:
        """Where a pipeline step stands in its ring; a `try_*` looks at the next position of its side."""
        return self.at.get((ring(step), _TRIES.get(step.method, step.method)), Position())

    def move(self, step: CallStep) -> None:
        """Moves on past a step."""
        if step.kind not in ("pipeline", "group", "queue"):
            return
        if step.method in ADVANCING:
            self._add((ring(step), step.method), Position(1))
        elif step.method == "skip":
            n = step.args["n"].expr
            try:
                amount = Position(integer(n, self.env))
            except (NotConstant, NoValue):
                amount = Position(0, ((text(n), 1),))
            for method in ("wait", "release"):
                self._add((ring(step), method), amount)

    def add(self, delta: Mapping[Key, Position], count: int | str = 1) -> None:
        """Moves on by `count` times the movement of a body."""
        for key, amount in delta.items():
            self._add(key, amount.times(count))

    def forget(self, keys: Iterable[Key]) -> None:
        """Marks positions whose movement is not known."""
        for key in keys:
            self.at[key] = UNKNOWN

    def _add(self, key: Key, amount: Position) -> None:
        self.at[key] = self.at.get(key, Position()).plus(amount)


def ring(step: CallStep) -> str:
    """The name of a step's target with its instance, as the spec writes it."""
    return step.target if step.instance is None else f"{step.target}[{text(step.instance)}]"


def movement(steps: tuple[Step, ...], env: Env) -> dict[Key, Position]:
    """How far one pass over the steps moves each ring."""
    p = Positions(env)
    for s in steps:
        if isinstance(s, CallStep):
            p.move(s)
        elif isinstance(s, DomainLoop):
            p.add(movement(s.body, env), trips(s, env))
        elif isinstance(s, StaticFor):
            p.add(movement(s.body, env), len(s.values))
        elif isinstance(s, Skippable):
            p.add(movement(s.body, env))
        elif isinstance(s, StaticIf):
            taken = branch(s, env)
            p.add(movement(taken, env)) if taken is not None else p.forget(
                {**movement(s.body, env), **movement(s.orelse, env)}
            )
        elif isinstance(s, Guard | When | TileLoop):
            p.forget(movement(s.body, env))
    return p.at


def trips(loop: DomainLoop, env: Env) -> int | str:
    """The trip count of a loop, `n` where it is known only at run time."""
    try:
        start, end, step = (integer(p.expr, env) for p in (loop.start, loop.end, loop.step))
    except (NotConstant, NoValue):
        return "n"
    return len(range(start, end, step)) if step else 0


def branch(s: StaticIf, env: Env) -> tuple[Step, ...] | None:
    """The branch that a compile-time choice takes, None where it depends on the task's instance."""
    try:
        return s.body if evaluate(s.condition.expr, env) else s.orelse
    except (NotConstant, NoValue):
        return None
