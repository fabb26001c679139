"""Conditions that say the same though their forms differ: each takes the form of the first.

A condition is a number, 1 where it holds and 0 elsewhere; so equal conditions are equal numbers, and a contrary is what
is left to 1 (`tsgen.verify.alike`).
"""

from __future__ import annotations

from collections.abc import Callable

from tsgen.derive.unfold import Env
from tsgen.model.algebra import fold
from tsgen.model.expr import Const, Expr, Unary
from tsgen.model.poly import Poly
from tsgen.verify.cases import ONE, ZERO
from tsgen.verify.outcomes import TRUE, Form

Said = tuple[Form, bool, Expr]  # the form, whether it is the contrary of it, and the condition in names


class Classes:
    """The conditions of all tasks. `alike`: the form of equal numbers."""

    def __init__(self, alike: Callable[[Poly], Poly]) -> None:
        self._alike = alike
        self._first: dict[Poly, Said] = {}  # by the number that is 1 where the form holds

    def first(self, form: Form, negated: bool, e: Expr, env: Env) -> Said:
        """The same condition in the form of the first that was asked for."""
        truth = _truth(form)
        if truth is None:
            return form, negated, e
        if truth not in self._first:
            self._first[truth] = self._said(truth) or (form, False, fold(Unary("not", e) if negated else e, env))
        known = self._first[truth]
        return (form, negated, e) if known[0] == form else _turned(known, negated)

    def _said(self, truth: Poly) -> Said | None:
        """What was said before and is equal, or the contrary."""
        found = self._alike(truth)
        if found.value is not None:
            return TRUE, not found.value, Const(bool(found.value))
        other = self._alike(ONE - truth)
        if found in self._first:
            return self._first[found]
        return _turned(self._first[other], True) if other in self._first else None


def _turned(said: Said, turned: bool) -> Said:
    form, negated, e = said
    return (form, not negated, Unary("not", e)) if turned else said


def _truth(form: Form) -> Poly | None:
    """1 where a form holds and 0 elsewhere; None where it compares no integers."""
    match form:
        case (">=" | "==" as op, p):
            return Poly.atom(op, p, ZERO)
        case ("is", p):
            return Poly.atom("!=", p, ZERO)
        case ("and", *parts):
            found = [(_truth(f), negated) for f, negated in parts]
            truths = [ONE - t if negated else t for t, negated in found if t is not None]
            return Poly.atom("and", *truths) if len(truths) == len(parts) else None
    return None
