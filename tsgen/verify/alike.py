"""One form for equal numbers, however they are written.

Numbers are compared at some points first: values of names that agree with what is assumed. Two that are equal at all
points, up to a constant, are equal if that is proven by cases (`tsgen.verify.cases`); then the second takes the form of
the first. A number that is a sum of multiples of its names gets that form at once. What is not proven keeps its own
form: nothing is claimed of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from random import Random

from tsgen.model.bounds import Interval
from tsgen.model.poly import Atom, Poly
from tsgen.verify.cases import COMPARISONS, ONE, ZERO, Known, holds, is_zero, plain

POINTS = 24
TRIED = 2000  # points, of which those are kept that agree with what is assumed
PROOFS = 200  # attempts for one kernel
_COMPUTED = frozenset({"//", "%", "ceil_div", "min", "max", "if", "and", "or", "not", *COMPARISONS})
Signature = tuple[Fraction | None, ...]  # values at the points; None: no value there


class Alike:
    """The numbers of a kernel, each in the form of the first that is equal. `facts`: what is said of forms and zero."""

    def __init__(self, limits: Mapping[str, Interval], facts: Iterable[tuple[Poly, str]]) -> None:
        stated = [(p, op) for p, op in facts if p.value is None and op in COMPARISONS and _is_known(p)]
        self.known = Known(limits, tuple(f for p, op in stated for f in _never_negative(p, op)))
        self._random = Random(0)
        self._values: dict[Atom, list[Fraction | None]] = {}
        self._found: dict[Poly, Poly] = {ZERO: ZERO}
        self._trips: dict[Poly, Poly] = {}
        self._classes: dict[tuple[str, Signature], list[Poly]] = {}
        self._left = PROOFS
        self._draw(stated)

    def form(self, p: Poly) -> Poly:
        """The form of the numbers that are equal to this one for all values."""
        const = Poly.constant(dict(p.terms).get((), Fraction(0)))
        unit = p - const
        found = self._found.get(unit)
        if found is None:
            found = self._found[unit] = self._sought(unit)
        return found + const

    def trips(self, p: Poly) -> Poly:
        """The form of the loops that have as many trips as one to this bound: none below zero."""
        if not _is_known(p):
            return p
        found = self._trips.get(p)
        if found is None:
            found = self._trips[p] = self._first("trips", p, _above(self._at_points(p)))
        return found

    def _sought(self, p: Poly) -> Poly:
        if not _is_known(p) or not _is_computed(p):
            return p
        values = self._at_points(p)
        return self._linear(p, values) or self._first("form", p, values)

    # ---- classes -----------------------------------------------------------------------------------------------------

    def _first(self, kind: str, p: Poly, values: Signature) -> Poly:
        """The first form that is equal, up to a constant if it is no number of trips."""
        first = next((v for v in values if v is not None), Fraction(0)) if kind == "form" else Fraction(0)
        others = self._classes.setdefault((kind, tuple(None if v is None else v - first for v in values)), [])
        for other in others:
            found = other + (Poly.constant(first - self._offset(other)) if kind == "form" else ZERO)
            if self._equal(*((p, found) if kind == "form" else (_positive(p), _positive(found)))):
                return found
        others.append(p)
        return p

    def _offset(self, p: Poly) -> Fraction:
        return next((v for v in self._at_points(p) if v is not None), Fraction(0))

    def _equal(self, p: Poly, q: Poly) -> bool:
        self._left -= 1
        return self._left >= 0 and is_zero(p - q, self.known)

    def _linear(self, p: Poly, values: Signature) -> Poly | None:
        """The sum of multiples of free names that a form with several terms, or with choices, is."""
        if len(p.terms) == 1 and all(a.head in ("//", "%") for a, _ in p.terms[0][0]):
            return None
        free = sorted(set(free_atoms(p)), key=repr)
        rows = [
            [*(self._of_free(a)[i] or Fraction(0) for a in free), Fraction(1), v]
            for i, v in enumerate(values)
            if v is not None
        ]
        factors = _solved(rows)
        if factors is None or any(f.denominator != 1 for f in factors):
            return None
        parts = {((a, 1),): f for a, f in zip(free, factors, strict=False)}
        found = Poly.of({**parts, (): factors[-1]})
        return found if found != p and self._equal(p, found) else None

    # ---- points ------------------------------------------------------------------------------------------------------

    def _draw(self, facts: list[tuple[Poly, str]]) -> None:
        """Values of all names that something is assumed of, which agree with it."""
        names = sorted({a for p, _ in facts for a in free_atoms(p)}, key=repr)
        kept: list[dict[Atom, Fraction | None]] = []
        for _ in range(TRIED if facts else 0):
            self._values = {a: [self._one(a)] for a in names}
            got = [(self._value(p, 0, {}), op) for p, op in facts]
            if all(v is not None and holds(op, v) for v, op in got):
                kept.append({a: v[0] for a, v in self._values.items()})
            if len(kept) == POINTS:
                break
        kept = (kept * POINTS)[:POINTS]
        self._values = {a: [k[a] for k in kept] for a in names} if kept else {}

    def _one(self, atom: Atom) -> Fraction:
        """A value: small, or near a multiple of a usual number."""
        r = self._random
        value = r.choice((r.randint(0, 9), r.randint(0, 9), r.choice((16, 64, 128)) * r.randint(0, 9) + r.randint(-1, 1)))
        value = r.choice((value, value, value + r.randint(0, 300), -value))
        limits = self.known.limits.get(atom.head, Interval()) if atom.head != "extent" else Interval(1)
        if limits.low is not None and value < limits.low:
            value = limits.low + abs(value) % 1000
        if limits.high is not None and value > limits.high:
            value = limits.high - (abs(value) % (limits.high - limits.low + 1) if limits.low is not None else abs(value))
        return Fraction(value)

    def _of_free(self, atom: Atom) -> list[Fraction | None]:
        found = self._values.get(atom)
        if found is None:
            found = self._values[atom] = [self._one(atom) for _ in range(POINTS)]
        return found

    def _at_points(self, p: Poly) -> Signature:
        return tuple(self._value(p, i, {}) for i in range(POINTS))

    def _value(self, p: Poly, i: int, seen: dict[Atom, Fraction | None]) -> Fraction | None:
        total = Fraction(0)
        for monomial, c in p.terms:
            for atom, power in monomial:
                if atom not in seen:
                    seen[atom] = self._atom(atom, i, seen)
                v = seen[atom]
                if v is None:
                    return None
                c = c * v**power
            total += c
        return total

    def _atom(self, atom: Atom, i: int, seen: dict[Atom, Fraction | None]) -> Fraction | None:
        if atom.head not in _COMPUTED or not atom.args:
            return self._of_free(atom)[i]
        found = [self._value(a, i, seen) for a in atom.args if isinstance(a, Poly)]
        args = [v for v in found if v is not None]
        return _computed(atom.head, args) if len(args) == len(atom.args) else None


def _computed(head: str, args: list[Fraction]) -> Fraction | None:
    match head:
        case "//" | "%" | "ceil_div" if args[1] == 0:
            return None
        case "//":
            return Fraction(args[0] // args[1])
        case "%":
            return args[0] % args[1]
        case "ceil_div":
            return Fraction(-(-args[0] // args[1]))
        case "min" | "max":
            return min(args) if head == "min" else max(args)
        case "if":
            return args[1] if args[0] else args[2]
        case "not":
            return Fraction(not args[0])
        case "and" | "or":
            return Fraction(all(args) if head == "and" else any(args))
    return Fraction(holds(head, args[0] - args[1]))


def _never_negative(p: Poly, op: str) -> Iterator[Poly]:
    """What is not negative if `p op 0`."""
    p = plain(p)
    if op in (">", ">=", "=="):
        yield p - (ONE if op == ">" else ZERO)
    if op in ("<", "<=", "=="):
        yield -p - (ONE if op == "<" else ZERO)


def _positive(p: Poly) -> Poly:
    return Poly.atom("max", p, ZERO)


def _above(values: Signature) -> Signature:
    return tuple(None if v is None else max(v, Fraction(0)) for v in values)


def _is_known(p: Poly) -> bool:
    """Whether a form is made of integers: of values that works made this is not known."""
    return p.integral and not any(not a.args and a.head[0] in "=@%" for a in atoms(p))


def _is_computed(p: Poly) -> bool:
    return any(a.head in _COMPUTED and a.args for m, _ in p.terms for a, _ in m)


def atoms(p: Poly) -> Iterator[Atom]:
    """All atoms of a form, inner ones too."""
    for monomial, _ in p.terms:
        for atom, _power in monomial:
            yield atom
            for a in atom.args:
                if isinstance(a, Poly):
                    yield from atoms(a)


def free_atoms(p: Poly) -> Iterator[Atom]:
    """The atoms that a form is computed from."""
    for monomial, _ in p.terms:
        for atom, _power in monomial:
            if atom.head in _COMPUTED and atom.args:
                for a in atom.args:
                    if isinstance(a, Poly):
                        yield from free_atoms(a)
            else:
                yield atom


def _solved(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The factors with which each row's numbers add up to its last one; None if there are none, or several."""
    found: list[list[Fraction]] = []
    width = len(rows[0]) - 1 if rows else 0
    for row in rows:
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
