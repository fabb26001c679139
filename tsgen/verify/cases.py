"""Whether a number is zero, or a condition never holds, for all values that are allowed: proven by cases.

Each `min`, `max`, `if` and comparison is taken for each of its outcomes, together with what that says: where
`min(a, b)` is a, a is not larger than b. What is left are sums, products and rounded quotients; of a quotient q of x by
d it is known that `d*q <= x < d*q + d`. All this holds for all integers, so what is proven is true; what is not proven
may be true as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from tsgen.frozen import frozen
from tsgen.model.bounds import Interval
from tsgen.model.expr import Scalar
from tsgen.model.poly import Atom, Monomial, Poly, floor_div
from tsgen.verify.integers import contradictory

MAX_CASES = 400
ONE, ZERO = Poly.constant(1), Poly.constant(0)
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
CHOICES = frozenset({"min", "max", "if", "and", "or", "not", *COMPARISONS})


class TooMany(Exception):
    """More cases than are looked at."""


@frozen
class Known:
    """What is known of all values: limits of names, and forms that are never negative."""

    limits: Mapping[str, Interval]
    facts: tuple[Poly, ...] = ()


Given = tuple[Poly, ...]  # forms that are not negative in a case


def is_zero(p: Poly, known: Known) -> bool:
    """Whether a form is proven to be zero for all integers that are allowed."""
    return never(p - ONE, known) and never(-p - ONE, known)


def never(p: Poly, known: Known) -> bool:
    """Whether `p >= 0` is proven to hold for no values that are allowed."""
    p = plain(p)
    if not p.integral:
        return False
    try:
        for i, (case, given) in enumerate(_cases(p, ())):
            if i >= MAX_CASES:
                return False
            if not (case.value is not None and case.value < 0) and not _excluded(case, given, known):
                return False
    except TooMany:
        return False
    return True


# ---- forms without remainders ------------------------------------------------------------------------------------


def plain(p: Poly) -> Poly:
    """A form with quotients for remainders: `x % d` is `x - d*(x // d)` for every d but 0, `ceil_div(x, d)` is
    `-(-x // d)`."""
    return rebuilt(p, lambda atom: made(atom.head, tuple(plain(a) if isinstance(a, Poly) else a for a in atom.args)))


def rebuilt(p: Poly, f: Callable[[Atom], Poly]) -> Poly:
    """The form with other forms for its atoms."""
    total = ZERO
    for monomial, c in p.terms:
        product = Poly.constant(c)
        for atom, power in monomial:
            new = f(atom)
            for _ in range(power):
                product = product * new
        total = total + product
    return total


def made(head: str, args: tuple[Poly | Scalar, ...]) -> Poly:
    """The form of an operation, without what its numbers decide."""
    polys = [a for a in args if isinstance(a, Poly)]
    if len(polys) < len(args) or not all(p.integral for p in polys):
        return Poly.atom(head, *args)
    values = [p.value for p in polys]
    match head:
        case "//":
            return _quotient(polys[0], polys[1])
        case "%":
            return polys[0] - polys[1] * _quotient(polys[0], polys[1])
        case "ceil_div":
            return -_quotient(-polys[0], polys[1])
        case "min" | "max" if len(set(polys)) == 1:
            return polys[0]
        case "if" if values[0] is not None:
            return polys[1] if values[0] else polys[2]
        case "not" if values[0] is not None:
            return ZERO if values[0] else ONE
        case "and" | "or" if None not in values:
            return ONE if (all if head == "and" else any)(values) else ZERO
        case "<" | "<=" | ">" | ">=" | "==" | "!=" if (d := (polys[0] - polys[1]).value) is not None:
            return ONE if holds(head, d) else ZERO
    return Poly.atom(head, *args)


def holds(op: str, difference: Fraction) -> bool:
    d = difference
    return {"<": d < 0, "<=": d <= 0, ">": d > 0, ">=": d >= 0, "==": d == 0, "!=": d != 0}[op]


def _quotient(x: Poly, d: Poly) -> Poly:
    value = d.value
    if value is not None and value.denominator == 1 and value > 0:
        found = floor_div(x, int(value))
        if found is not None:
            return found
    return Poly.atom("//", x, d)


# ---- cases -------------------------------------------------------------------------------------------------------


def _cases(p: Poly, given: Given, depth: int = 0) -> Iterator[tuple[Poly, Given]]:
    """The form in each case, without choices, and what holds there."""
    atom = next(_choices(p), None)
    if atom is None:
        yield p, given
        return
    if depth > 24:
        raise TooMany
    for value, conditions in _outcomes(atom):
        if not any(c.value is not None and c.value < 0 for c in conditions):
            yield from _cases(replaced(p, atom, value), (*given, *conditions), depth + 1)


def _choices(p: Poly) -> Iterator[Atom]:
    """The choices in a form, inner ones first."""
    for monomial, _ in p.terms:
        for atom, _power in monomial:
            for a in atom.args:
                if isinstance(a, Poly):
                    yield from _choices(a)
            if atom.head in CHOICES and all(isinstance(a, Poly) and a.integral for a in atom.args):
                yield atom


def replaced(p: Poly, atom: Atom, value: Poly) -> Poly:
    """The form with a value for an atom, wherever it stands."""

    def new(a: Atom) -> Poly:
        if a == atom:
            return value
        return made(a.head, tuple(replaced(x, atom, value) if isinstance(x, Poly) else x for x in a.args))

    return rebuilt(p, new)


def _outcomes(atom: Atom) -> Iterator[tuple[Poly, Given]]:
    """What a choice may be, and what is not negative then."""
    args = [a for a in atom.args if isinstance(a, Poly)]
    match atom.head:
        case "min" | "max":
            sign = 1 if atom.head == "min" else -1
            for i, a in enumerate(args):  # of equal ones the first
                others = [(j, b) for j, b in enumerate(args) if j != i]
                yield a, tuple((b - a) * Poly.constant(sign) - (ONE if j < i else ZERO) for j, b in others)
        case "if":
            yield from _decided(args[0], "!=", args[1], args[2])
        case "not":
            yield from _decided(args[0], "!=", ZERO, ONE)
        case "and" | "or":
            rest = made(atom.head, tuple(args[1:]))
            yield from _decided(args[0], "!=", *((rest, ZERO) if atom.head == "and" else (ONE, rest)))
        case _:
            yield from _decided(args[0] - args[1], atom.head, ONE, ZERO)


def _decided(d: Poly, op: str, then: Poly, other: Poly) -> Iterator[tuple[Poly, Given]]:
    """The outcomes of `d op 0`, and where: a whole number is less, equal or more."""
    less, equal, more = (-d - ONE,), (d, -d), (d - ONE,)
    places = {"<": (less, (d,)), ">=": (less, (d,)), ">": (more, (-d,)), "<=": (more, (-d,))}
    for conditions in places.get(op, (equal, less, more)):
        holds_there = holds(op, Fraction(-1 if conditions == less else 1 if conditions == more else 0))
        yield (then if holds_there else other), conditions


# ---- one case ----------------------------------------------------------------------------------------------------


def _excluded(p: Poly, given: Given, known: Known) -> bool:
    """Whether `p >= 0` contradicts what is known, for a form without choices."""
    rows: dict[Poly, None] = dict.fromkeys((p, *given))
    if any(q.value is not None and q.value < 0 for q in rows):
        return True
    seen: set[Monomial] = set()
    todo = list(rows)
    facts = list(known.facts)
    for q in todo:
        for monomial, _ in q.terms:
            if monomial and monomial not in seen:
                seen.add(monomial)
                more = list(_of_monomial(monomial, p, known))
                more += [f for f in facts if any(m == monomial for m, _ in f.terms)]
                todo += [r for r in more if r not in rows]
                rows.update(dict.fromkeys(more))
    if any(not q.integral for q in rows):
        return False
    return contradictory(({m: int(c) for m, c in q.terms if m}, int(dict(q.terms).get((), 0))) for q in rows)


def _of_monomial(monomial: Monomial, p: Poly, known: Known) -> Iterator[Poly]:
    """What is never negative: about the quotients in a product, and its limits."""
    one = Poly(((monomial, Fraction(1)),))
    lows = [_limits(atom, known) for atom, _ in monomial]
    if len(monomial) == 1 and monomial[0][1] == 1:
        low, high = lows[0].low, lows[0].high
        if low is not None:
            yield one - Poly.constant(low)
        if high is not None:
            yield Poly.constant(high) - one
    elif all(x.low is not None and x.low >= 0 for x in lows):
        yield one
    for atom, _power in monomial:
        if atom.head == "//":
            yield from _of_quotient(atom, p, known)


def _of_quotient(atom: Atom, p: Poly, known: Known) -> Iterator[Poly]:
    x, d = atom.args
    if not isinstance(x, Poly) or not isinstance(d, Poly) or not _positive(d, known):
        return
    rest = x - d * Poly.of({((atom, 1),): Fraction(1)})
    yield rest
    yield d - ONE - rest
    if d.value is None:
        yield d * p


def _positive(d: Poly, known: Known) -> bool:
    """Whether a divisor is at least 1: a number, or a product of names that are."""
    if d.value is not None:
        return d.value > 0
    if len(d.terms) != 1 or d.terms[0][1] < 1:
        return False
    return all((low := _limits(atom, known).low) is not None and low >= 1 for atom, _ in d.terms[0][0])


def _limits(atom: Atom, known: Known) -> Interval:
    if atom.head == "extent":
        return Interval(1)
    return known.limits.get(atom.head, Interval())
