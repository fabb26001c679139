"""Polynomials over indivisible unknowns: the canonical form of an expression.

Two expressions that are the same polynomial are equal for every value of their names. Divisions by a number are
brought to one form, too (`floor_div`), so that `(N + 63) // 64`, `ceil_div(N, 64)` and `-(-N // 64)` are one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import gcd

from tsgen.frozen import frozen
from tsgen.model.expr import Scalar
from tsgen.model.inexact import MARK

# operations that make integers of integers; all others may give other numbers
_INTEGRAL = frozenset({"%", "//", "ceil_div", "min", "max", "if", "extent"})
_TRUTHS = frozenset({"and", "or", "not", "<", "<=", ">", ">=", "==", "!="})


@frozen
class Atom:
    """An indivisible unknown of a polynomial: a name, or an operation other than + - *, over canonical forms."""

    head: str
    args: tuple[Poly | Scalar, ...] = ()


Monomial = tuple[tuple[Atom, int], ...]  # atoms with their powers, in a fixed order


@frozen
class Poly:
    """A polynomial over atoms: the canonical form of an expression. Hashable; equal forms are equal symbols."""

    terms: tuple[tuple[Monomial, Fraction], ...]

    @staticmethod
    def of(terms: Mapping[Monomial, Fraction]) -> Poly:
        return Poly(tuple(sorted(((m, c) for m, c in terms.items() if c), key=lambda t: repr(t[0]))))

    @staticmethod
    def constant(value: int | Fraction) -> Poly:
        return Poly.of({(): Fraction(value)})

    @staticmethod
    def atom(head: str, *args: Poly | Scalar) -> Poly:
        return Poly.of({((Atom(head, args), 1),): Fraction(1)})

    def __add__(self, other: Poly) -> Poly:
        terms = dict(self.terms)
        for m, c in other.terms:
            terms[m] = terms.get(m, Fraction(0)) + c
        return Poly.of(terms)

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Poly) -> Poly:
        return self + -other

    def __mul__(self, other: Poly) -> Poly:
        terms: dict[Monomial, Fraction] = {}
        for m1, c1 in self.terms:
            for m2, c2 in other.terms:
                powers = dict(m1)
                for a, p in m2:
                    powers[a] = powers.get(a, 0) + p
                m = tuple(sorted(powers.items(), key=repr))
                terms[m] = terms.get(m, Fraction(0)) + c1 * c2
        return Poly.of(terms)

    @property
    def value(self) -> Fraction | None:
        """The number it is, or None if unknowns remain."""
        if not self.terms:
            return Fraction(0)
        return self.terms[0][1] if len(self.terms) == 1 and self.terms[0][0] == () else None

    def over(self, divisor: int) -> Poly | None:
        """The quotient if every coefficient is a multiple of `divisor`, else None."""
        if any((c / divisor).denominator != 1 for _, c in self.terms):
            return None
        return Poly(tuple((m, c / divisor) for m, c in self.terms))

    def multiple_of(self, n: int) -> bool:
        """Whether every value is a multiple of n, as far as the coefficients show (atoms are integers)."""
        return self.over(n) is not None

    @property
    def integral(self) -> bool:
        """Whether every value is an integer. Names and elements of tensors stand for integers, unless marked."""
        return all(c.denominator == 1 and all(_integral(a) for a, _ in m) for m, c in self.terms)


def _integral(atom: Atom) -> bool:
    named = not atom.args or "." in atom.head  # a name, or an element of a tensor or field
    if named:
        return MARK not in atom.head
    whole = all(a.integral for a in atom.args if isinstance(a, Poly))
    return atom.head in _TRUTHS or (atom.head in _INTEGRAL and whole)


def floor_div(p: Poly, d: int) -> Poly | None:
    """`p // d` in normal form, None if `p` may not be an integer. `d` is positive.

    Numerator and divisor share no factor; a quotient of a quotient is one quotient; multiples of d are taken out; the
    first term of what is left is positive: `-x // d` is `-((x + d - 1) // d)`. Each step holds for all integers, so
    equal forms are equal; that unequal forms differ is not claimed.
    """
    if not p.integral:
        return None
    g = gcd(d, *(int(c) for m, c in p.terms if m))
    p, d = Poly.of({m: c / g for m, c in p.terms if m}) + Poly.constant(_const(p) // g), d // g
    inner = [(m, *q) for m, c in p.terms if abs(c) == 1 and (q := _quotient(m)) is not None]
    if len(inner) == 1:  # (x // a + s) // d is (x + a*s) // (a*d), and -(x // a) is (-x + a - 1) // a
        ((monomial, x, a),) = inner
        added = dict(p.terms)[monomial] > 0
        s = Poly(tuple(t for t in p.terms if t[0] != monomial)) * Poly.constant(a)
        return floor_div(s + x if added else s - x + Poly.constant(a - 1), a * d)
    whole = Poly.of({m: c / d for m, c in p.terms if m and c % d == 0}) + Poly.constant(_const(p) // d)
    rest = p - whole * Poly.constant(d)
    first = next((c for m, c in rest.terms if m), None)
    if first is None:
        return whole
    if first < 0:
        up = floor_div(Poly.constant(d - 1) - rest, d)
        return None if up is None else whole - up
    more = Poly.of({m: Fraction(c // d) for m, c in rest.terms if m})
    if more.terms:
        left = floor_div(rest - more * Poly.constant(d), d)
        return None if left is None else whole + more + left
    return whole + Poly.atom("//", rest, Poly.constant(d))


def _const(p: Poly) -> int:
    return int(next((c for m, c in p.terms if not m), Fraction(0)))


def _quotient(m: Monomial) -> tuple[Poly, int] | None:
    """Numerator and divisor of a quotient by a number."""
    if len(m) != 1 or m[0][1] != 1 or m[0][0].head != "//":
        return None
    numerator, divisor = m[0][0].args
    if not isinstance(numerator, Poly) or not isinstance(divisor, Poly) or not numerator.integral:
        return None
    v = divisor.value
    return (numerator, int(v)) if v is not None and v.denominator == 1 and v > 0 else None


def remainder(p: Poly, d: int) -> Poly | None:
    """`p % d` in normal form, None if `p` may not be an integer: only coefficients modulo d matter. `d` is positive."""
    if not p.integral:
        return None
    rest = Poly.of({m: c % d for m, c in p.terms})
    if rest.value is not None:
        return rest
    return Poly.atom("%", rest, Poly.constant(d))
