"""Trip counts as linear forms over unknowns.

Every bound is brought to its canonical polynomial with all `let` values written out, so that equal bounds are equal
unknowns whatever names they were given. A sum that occurs in one combination only is one unknown; otherwise each of its
terms is. An unknown has a smallest and a largest value from interval arithmetic, and it may change from tile to tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from tsgen.model.algebra import canonical, substitute
from tsgen.model.bounds import Interval, interval, intervals
from tsgen.model.expr import Expr, Name, Scalar, names, text
from tsgen.model.kernel import Kernel
from tsgen.model.poly import Atom, Monomial, Poly
from tsgen.verify.uniform import uniform

Env = Mapping[str, Scalar]
LONG, SHORT = 512, 64


class Linear(NamedTuple):
    """`const + sum(coefficient * unknown)`; unknowns are indices into `Symbols.unknowns`."""

    const: int
    terms: tuple[tuple[int, int], ...] = ()  # (unknown, coefficient)


@dataclass
class Unknown:
    """`label` is what the spec calls it. `per_tile`, `per_cta`: its value may differ between tiles, CTAs."""

    label: str
    low: int | None
    high: int | None
    per_tile: bool
    per_cta: bool
    number: int | None = None  # the value, of a long loop with a literal bound


@dataclass
class Symbols:
    """The unknowns of a kernel: announce every bound with `add`, call `settle` once, then ask for each `form`."""

    kernel: Kernel
    unknowns: list[Unknown] = field(default_factory=list)
    _polys: dict[tuple[Expr, tuple[tuple[str, Scalar], ...]], Poly] = field(default_factory=dict)
    _lets: dict[str, Expr] = field(default_factory=dict)
    _known: dict[str, Interval] = field(default_factory=dict)
    _units: dict[Poly, str] = field(default_factory=dict)  # non-constant parts without their factor, and their text
    _facts: list[tuple[Poly, Interval]] = field(default_factory=list)
    _index: dict[Poly, int] = field(default_factory=dict)  # unit -> unknown

    def __post_init__(self) -> None:
        self._known = intervals(self.kernel)
        for let in self.kernel.launch.lets:
            self._lets[let.name] = substitute(let.value, self._lets)

    @property
    def clusters(self) -> dict[str, int]:
        """CTAs of a cluster along each axis that has any."""
        return {a.name: a.cluster for a in self.kernel.launch.axes if a.cluster > 1}

    def poly(self, e: Expr, env: Env) -> Poly:
        """The canonical form with all `let` values written out; remembered, as all agents of a task ask alike."""
        key = (e, tuple((n, env[n]) for n in sorted(names(e)) if n in env))
        found = self._polys.get(key)
        if found is None:
            found = self._polys[key] = canonical(substitute(e, self._lets) if self._lets else e, env)
        return found

    def add(self, e: Expr, env: Env, written: Expr | None = None) -> None:
        """Announces a bound; `written` is the part of it that names it."""
        p = self.poly(e, env)
        unit, _, _ = _parts(p)
        if unit.terms:
            named = written is not None and _parts(self.poly(written, env))[0] == unit
            self._units.setdefault(unit, text(written if named and written is not None else e))
            self._facts.append((p, interval(e, self._known, env)))

    def settle(self) -> None:
        """Chooses the unknowns: a sum that shares terms with a different sum is taken apart into its terms."""
        env = self.kernel.env
        for name in (*self._known, *self._lets):
            p = self.poly(Name(name), env)
            self._facts.append((p, self._known.get(name, Interval())))
            if p in self._units:
                self._units[p] = name
        for unit, label in self._units.items():
            if any(u != unit and _monomials(u) & _monomials(unit) for u in self._units):
                for monomial, _ in unit.terms:
                    single = Poly(((monomial, Fraction(1)),))
                    self._declare(single, self._units.get(single, _monomial_text(monomial)))
            else:
                self._declare(unit, label)
        for poly, known in self._facts:
            self._limit(poly, known)

    def _declare(self, unit: Poly, label: str) -> None:
        if unit in self._index:
            return
        names = set(_names(unit))
        tile = any(n in self.kernel.symbols and self.kernel.symbols[n].time in ("tile", "step") for n in names)
        self._index[unit] = len(self.unknowns)
        self.unknowns.append(Unknown(label, None, None, tile, not uniform(unit, self.clusters)))

    def _limit(self, poly: Poly, known: Interval) -> None:
        """Narrows the unknown that a fact is about, if it is about one alone."""
        form = self._form(poly)
        if form is None or len(form.terms) != 1:
            return
        index, c = form.terms[0]
        u = self.unknowns[index]
        low, high = (known.low, known.high) if c > 0 else (known.high, known.low)
        if low is not None:
            n = -((form.const - low) // c) if c > 0 else (form.const - low) // -c
            u.low = n if u.low is None else max(u.low, n)
        if high is not None:
            n = (high - form.const) // c if c > 0 else -((high - form.const) // -c)
            u.high = n if u.high is None else min(u.high, n)

    def bound(self, e: Expr, env: Env) -> Linear:
        """The linear form of an announced bound. One that has none is an unknown of its own. A large number is taken
        for an unknown of at least `SHORT`: what holds for all those holds for it."""
        p = self.poly(e, env)
        form = self._form(p)
        if form is None:
            self._declare(p, text(e))
            return Linear(0, ((self._index[p], 1),))
        if not form.terms and form.const > LONG:
            unit = Poly.atom(f"={form.const}")
            self._declare(unit, str(form.const))
            u = self.unknowns[self._index[unit]]
            u.low, u.high, u.number = SHORT, form.const, form.const
            return Linear(0, ((self._index[unit], 1),))
        return form

    def form(self, e: Expr, env: Env) -> Linear | None:
        """The linear form of an expression over the unknowns; None if it has another form."""
        return self._form(self.poly(e, env))

    def _form(self, p: Poly) -> Linear | None:
        unit, factor, const = _parts(p)
        if const.denominator != 1:
            return None
        if not unit.terms:
            return Linear(int(const))
        if unit in self._index:
            return Linear(int(const), ((self._index[unit], int(factor)),)) if factor.denominator == 1 else None
        terms = []
        for monomial, c in unit.terms:
            single = self._index.get(Poly(((monomial, Fraction(1)),)))
            if single is None or (c * factor).denominator != 1:
                return None
            terms.append((single, int(c * factor)))
        return Linear(int(const), tuple(sorted(terms)))


def _parts(p: Poly) -> tuple[Poly, Fraction, Fraction]:
    """unit, factor, constant: `p = factor * unit + constant`, the unit with whole coefficients, no common divisor."""
    terms = tuple(t for t in p.terms if t[0])
    const = next((c for m, c in p.terms if not m), Fraction(0))
    if not terms:
        return Poly(()), Fraction(1), const
    denominator = lcm(*(c.denominator for _, c in terms))
    factor = Fraction(gcd(*(int(c * denominator) for _, c in terms)), denominator)
    factor = -factor if terms[0][1] < 0 else factor
    return Poly(tuple((m, c / factor) for m, c in terms)), factor, const


def _monomials(p: Poly) -> frozenset[Monomial]:
    return frozenset(m for m, _ in p.terms)


def _names(p: Poly) -> Iterable[str]:
    for monomial, _ in p.terms:
        for atom, _power in monomial:
            yield from _atom_names(atom)


def _atom_names(atom: Atom) -> Iterable[str]:
    yield atom.head
    for arg in atom.args:
        if isinstance(arg, Poly):
            yield from _names(arg)


def _monomial_text(monomial: Monomial) -> str:
    return "*".join(_atom_text(a) + (f"**{p}" if p > 1 else "") for a, p in monomial)


def _atom_text(atom: Atom) -> str:
    if not atom.args:
        return atom.head
    if atom.head in ("//", "%"):
        a, b = (_poly_text(p) if isinstance(p, Poly) else str(p) for p in atom.args)
        return f"({a}) {atom.head} {b}"
    return f"{atom.head}({', '.join(_poly_text(a) if isinstance(a, Poly) else str(a) for a in atom.args)})"


def _poly_text(p: Poly) -> str:
    parts = []
    for m, c in p.terms:
        factor = "" if c == 1 and m else str(c) + ("*" if m else "")
        parts.append(factor + _monomial_text(m))
    return " + ".join(parts) or "0"
