"""Values of forms at some points: values of names that agree with what is assumed. Forms that differ at a point are not
equal; that others are has to be proven."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from random import Random

from tsgen.model.bounds import Interval
from tsgen.model.poly import Atom, Poly
from tsgen.verify.cases import COMPARISONS, Known, holds

POINTS = 24
TRIED = 300  # points, of which those are kept that agree with what is assumed
COMPUTED = frozenset({"//", "%", "ceil_div", "min", "max", "if", "and", "or", "not", *COMPARISONS})
Value = Fraction | None  # None: a division by zero
Stated = tuple[tuple[Poly, str], ...]  # comparisons of forms with zero


class Points:
    """Points that are drawn when they are first asked for. Where few agree with what is assumed, they repeat."""

    def __init__(self, known: Known, stated: Stated) -> None:
        self._known, self._stated = known, stated
        self._names = sorted({a for p, _ in stated for a in free_atoms(p)}, key=repr)
        self._random = Random(0)
        self._points: list[dict[Atom, Fraction]] = []
        self._tried = 0
        self._found: dict[tuple[Poly, int], Value] = {}

    def value(self, p: Poly, i: int) -> Value:
        """The value of a form at the i-th point."""
        if (p, i) not in self._found:
            while len(self._points) <= i:
                self._points.append(self._drawn())
            point = self._points[i]
            for a in free_atoms(p):
                if a not in point:
                    point[a] = self._one(a)
            self._found[p, i] = value_at(p, point)
        return self._found[p, i]

    def _drawn(self) -> dict[Atom, Fraction]:
        """Values of all names that something is assumed of, which agree with it."""
        while self._tried < TRIED:
            self._tried += 1
            point = {a: self._one(a) for a in self._names}
            if all((v := value_at(p, point)) is not None and holds(op, v) for p, op in self._stated):
                return point
        return dict(self._random.choice(self._points)) if self._points else {}

    def _one(self, atom: Atom) -> Fraction:
        """A value: small, or near a multiple of a usual number."""
        r = self._random
        value = r.choice(
            (r.randint(0, 9), r.randint(0, 9), r.choice((16, 64, 128)) * r.randint(0, 9) + r.randint(-1, 1))
        )
        value = r.choice((value, value, value + r.randint(0, 300), -value))
        limits = self._known.limits.get(atom.head, Interval()) if atom.head != "extent" else Interval(1)
        if limits.low is not None and value < limits.low:
            value = limits.low + abs(value) % 1000
        if limits.high is not None and value > limits.high:
            value = limits.high - (
                abs(value) % (limits.high - limits.low + 1) if limits.low is not None else abs(value)
            )
        return Fraction(value)


def value_at(p: Poly, point: Mapping[Atom, Fraction | int]) -> Value:
    """The value of a form at a point, which knows the values of all that is not computed."""
    total = Fraction(0)
    for monomial, c in p.terms:
        for atom, power in monomial:
            v = _atom(atom, point)
            if v is None:
                return None
            c = c * v**power
        total += c
    return total


def _atom(atom: Atom, point: Mapping[Atom, Fraction | int]) -> Value:
    if not is_computed(atom):
        return Fraction(point[atom])
    found = [value_at(a, point) for a in atom.args if isinstance(a, Poly)]
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


def is_computed(atom: Atom) -> bool:
    """Whether an atom is computed here from others."""
    return bool(atom.args) and atom.head in COMPUTED


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
            if is_computed(atom):
                for a in atom.args:
                    if isinstance(a, Poly):
                        yield from free_atoms(a)
            else:
                yield atom
