"""Bytes that a stage gets through the transaction engine between its acquire and its commit, on every path.

Blocks under conditions and guards make paths. The same condition has one outcome on a path, whatever block it stands
in, so that `when_true: load a` and `when_false: load b` are two ways to fill a stage, not both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from tsgen.derive.unfold import Env, Node, calls
from tsgen.diagnostics import Span
from tsgen.model.algebra import canonical
from tsgen.model.expr import Compare, Expr, Unary
from tsgen.model.steps import CallStep, Guard, When

Ring = tuple[str, int]  # resource, instance
MAX_PATHS = 64
_FLIPPED = {">": "<", ">=": "<="}
_CONTRARY = {"<=": "<", "!=": "=="}


@dataclass(frozen=True)
class Bracket:
    """A commit, and the bytes that were written since the acquire before it."""

    ring: Ring
    nbytes: int
    span: Span


@dataclass
class _Path:
    """Outcomes so far, and the bytes of stages that are acquired and not committed yet."""

    outcomes: dict[Hashable, bool] = field(default_factory=dict)
    open: dict[Ring, int] = field(default_factory=dict)

    @property
    def state(self) -> Hashable:
        return frozenset(self.outcomes.items()), frozenset(self.open.items())


@dataclass(frozen=True)
class Steps:
    """What calls do: `written` gives the ring that a call adds bytes to, and how many; `rings` those that it does a
    method on."""

    written: Callable[[Node], tuple[Ring, int] | None]
    rings: Callable[[Node, str], list[Ring]]

    def matter(self, node: Node) -> bool:
        return self.written(node) is not None or bool(self.rings(node, "acquire") or self.rings(node, "commit"))


def brackets(program: tuple[Node, ...], steps: Steps) -> list[Bracket]:
    """All brackets of a task instance, those of different paths with different bytes one by one."""
    found: dict[Bracket, None] = {}
    _run(program, [_Path()], steps, found)
    return list(found)


def _run(nodes: tuple[Node, ...], paths: list[_Path], steps: Steps, found: dict[Bracket, None]) -> list[_Path]:
    for node in nodes:
        if isinstance(node.step, CallStep):
            for path in paths:
                _call(node, node.step, path, steps, found)
            paths = _settled(paths)
            continue
        choice = _choice(node)
        if choice is None or len(paths) > MAX_PATHS or not any(map(steps.matter, calls(node.body))):
            paths = _run(node.body, paths, steps, found)
            continue
        what, outcome = choice
        taken = [_decided(p, what, outcome) for p in paths if p.outcomes.get(what, outcome) == outcome]
        left = [_decided(p, what, not outcome) for p in paths if p.outcomes.get(what, not outcome) != outcome]
        paths = _settled([*(_run(node.body, taken, steps, found) if taken else []), *left])
    return paths


def _call(node: Node, step: CallStep, path: _Path, steps: Steps, found: dict[Bracket, None]) -> None:
    for ring in steps.rings(node, "acquire"):
        path.open.setdefault(ring, 0)
    added = steps.written(node)
    if added is not None:
        path.open[added[0]] = path.open.get(added[0], 0) + added[1]
    for ring in steps.rings(node, "commit"):
        found.setdefault(Bracket(ring, path.open.pop(ring, 0), step.span))


def _decided(path: _Path, what: Hashable, outcome: bool) -> _Path:
    return _Path({**path.outcomes, what: outcome}, dict(path.open))


def _settled(paths: list[_Path]) -> list[_Path]:
    """One of each kind; without outcomes, if no stage is open on any of them."""
    if not any(p.open for p in paths):
        return [_Path()]
    return list({p.state: p for p in paths}.values())


def _choice(node: Node) -> tuple[Hashable, bool] | None:
    """What a block's body depends on, and the outcome with which it runs."""
    match node.step:
        case When(condition=condition, value=value):
            what, holds = _condition(condition.expr, node.env)
            return what, holds == value
        case Guard(kind="first_iter"):
            return ("first_iter",), True
        case Guard(kind="every", period=1, start=1):
            return ("first_iter",), False
        case Guard(kind=kind, period=period, start=start):
            return (kind, period, start), True
    return None


def _condition(e: Expr, env: Env) -> tuple[Hashable, bool]:
    """One form for a condition and its contrary, and whether the condition is the form."""
    if isinstance(e, Unary) and e.op == "not":
        what, holds = _condition(e.operand, env)
        return what, not holds
    if not isinstance(e, Compare) or len(e.ops) != 1:
        return ("condition", canonical(e, env)), True
    op, (a, b) = e.ops[0], e.operands
    if op in _FLIPPED:
        op, a, b = _FLIPPED[op], b, a
    if op == "<=":  # not b < a
        a, b = b, a
    p = canonical(a, env) - canonical(b, env)
    if op in ("==", "!="):
        p = min(p, -p, key=repr)
    return (_CONTRARY.get(op, op), p), op not in _CONTRARY
