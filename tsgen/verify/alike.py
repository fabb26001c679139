"""One form for equal numbers, however they are written.

Numbers are compared at some points first (`tsgen.verify.points`). Two that are equal at all of them, up to a constant,
are equal if that is proven by cases (`tsgen.verify.cases`); then the second takes the form of the first. A number that
is a sum of multiples of its names gets that form at once. What is not proven keeps its own form: nothing is claimed of
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cached_property

from tsgen.model.bounds import Interval
from tsgen.model.poly import Poly
from tsgen.verify.cases import CHOICES, COMPARISONS, ONE, ZERO, Known, is_zero, plain
from tsgen.verify.points import POINTS, Points, atoms, free_atoms, is_computed

PROOFS = 200  # attempts for one kernel


class Alike:
    """The numbers of a kernel, each in the form of the first that is equal. `facts`: what is said of forms and zero."""

    def __init__(self, limits: Mapping[str, Interval], facts: Callable[[], Iterable[tuple[Poly, str]]]) -> None:
        self._limits, self._facts = limits, facts
        self._forms: dict[Poly, Poly] = {ZERO: ZERO}
        self._trips: dict[Poly, Poly] = {}
        self._left = PROOFS

    @cached_property
    def _stated(self) -> tuple[tuple[Poly, str], ...]:
        return tuple((p, op) for p, op in self._facts() if p.value is None and op in COMPARISONS and _is_known(p))

    @cached_property
    def _known(self) -> Known:
        return Known(self._limits, tuple(f for p, op in self._stated for f in _never_negative(p, op)))

    @cached_property
    def points(self) -> Points:
        return Points(self._known, self._stated)

    def form(self, p: Poly) -> Poly:
        """The form of the numbers that are equal to this one for all values."""
        const = Poly.constant(dict(p.terms).get((), Fraction(0)))
        unit = p - const
        found = self._forms.get(unit)
        if found is None:
            found = self._forms[unit] = self._form(unit)
        return found + const

    def trips(self, p: Poly) -> Poly:
        """The form of the loops that have as many trips as one to this bound: none below zero."""
        found = self._trips.get(p)
        if found is None:
            found = self._trips[p] = self._of_trips(p)
        return found

    def _form(self, p: Poly) -> Poly:
        if not _is_computed(p) or not _is_known(p):
            return p
        found = self._linear(p)
        if found is not None:
            return found
        for other in _sharing(p, self._forms):
            c = self._distance(p, other)
            if c is not None and self._equal(p, other + c):
                return other + c
        return p

    def _of_trips(self, p: Poly) -> Poly:
        if not _is_known(p):
            return p
        for other in _sharing(p, self._trips):
            one, two = (Poly.atom("max", x, ZERO) for x in (p, other))
            if (_chooses(p) or _chooses(other)) and self._distance(one, two) == ZERO and self._equal(one, two):
                return other
        return p

    def _distance(self, p: Poly, q: Poly) -> Poly | None:
        """The constant by which two forms differ at all points; None if there is none."""
        found: Fraction | None = None
        for i in range(POINTS):
            a, b = self.points.value(p, i), self.points.value(q, i)
            if a is not None and b is not None:
                if found is not None and found != a - b:
                    return None
                found = a - b
        return None if found is None else Poly.constant(found)

    def _equal(self, p: Poly, q: Poly) -> bool:
        self._left -= 1
        return self._left >= 0 and is_zero(p - q, self._known)

    def _linear(self, p: Poly) -> Poly | None:
        """The sum of multiples of free names that a form is."""
        if len(p.terms) == 1 and all(a.head == "//" for a, _ in p.terms[0][0]):
            return None
        free = sorted(set(free_atoms(p)), key=repr)
        parts = [Poly.of({((a, 1),): Fraction(1)}) for a in free] + [ONE, p]
        values = ([self.points.value(q, i) for q in parts] for i in range(POINTS))
        factors = _solved([v for v in row if v is not None] for row in values if None not in row)
        if factors is None or any(f.denominator != 1 for f in factors):
            return None
        found = ZERO
        for q, f in zip(parts, factors, strict=False):
            found = found + q * Poly.constant(f)
        return found if self._equal(p, found) else None


def _never_negative(p: Poly, op: str) -> Iterator[Poly]:
    """What is not negative if `p op 0`."""
    p = plain(p)
    if op in (">", ">=", "=="):
        yield p - (ONE if op == ">" else ZERO)
    if op in ("<", "<=", "=="):
        yield -p - (ONE if op == "<" else ZERO)


def _is_known(p: Poly) -> bool:
    """Whether a form is made of integers: of values that works made this is not known."""
    return p.integral and not any(not a.args and a.head[0] in "=@%" for a in atoms(p))


def _is_computed(p: Poly) -> bool:
    return any(is_computed(a) for m, _ in p.terms for a, _ in m)


def _chooses(p: Poly) -> bool:
    """Whether a form may be another than of an equal number of trips: sums that are equal above zero are equal."""
    return any(a.head in CHOICES for a in atoms(p))


def _sharing(p: Poly, others: Mapping[Poly, Poly]) -> list[Poly]:
    """The forms of classes that have a name in common with this one."""
    names = set(free_atoms(p))
    return [q for q, first in others.items() if q == first and names.intersection(free_atoms(q)) and _is_known(q)]


def _solved(rows: Iterable[list[Fraction]]) -> list[Fraction] | None:
    """The factors with which each row's numbers add up to its last one; None if there are none, or several."""
    found: list[list[Fraction]] = []
    width = 0
    for row in rows:
        width = len(row) - 1
        for done in found:
            at = next(i for i, v in enumerate(done) if v)
            if row[at]:
                row = [a - row[at] * b for a, b in zip(row, done, strict=True)]
        at = next((i for i, v in enumerate(row) if v), -1)
        if at == width:
            return None
        if at >= 0:
            found.append([v / row[at] for v in row])
    if len(found) < width or not width:
        return None
    factors = [Fraction(0)] * width
    for row in sorted(found, key=lambda r: -next(i for i, v in enumerate(r) if v)):
        at = next(i for i, v in enumerate(row) if v)
        factors[at] = row[-1] - sum(row[j] * factors[j] for j in range(at + 1, width))
    return factors
