"""Trip counts as linear forms over unknowns.

Every bound is brought to its canonical polynomial with all `let` values written out, so that equal bounds are equal
unknowns whatever names they were given. A sum that occurs in one combination only is one unknown; otherwise each of its
terms is. A loop must not have fewer trips where an unknown is larger: a bound that would need a negative factor
(`end: n - m`, where other loops count to n) is an unknown of its own, or, if it is known not to be negative, the others
are counted from it (`n = (n - m) + m`). An unknown has a smallest and a largest value from interval arithmetic and
`launch.assume`, and it may change from tile to tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, gcd, lcm
from typing import NamedTuple

from tsgen.model.algebra import canonical, substitute
from tsgen.model.bounds import Interval, interval, intervals
from tsgen.model.expr import Binary, Call, Expr, Name, Scalar, names, text
from tsgen.model.floats import floats, marked
from tsgen.model.kernel import Kernel
from tsgen.model.poly import Atom, Monomial, Poly
from tsgen.verify.alike import Alike
from tsgen.verify.rewrite import assumed, counted, equalities, extents, limited, simplified, tiles
from tsgen.verify.uniform import uniform

Env = Mapping[str, Scalar]
LONG, SHORT = 512, 64
_SIGNS = {">": Interval(1), ">=": Interval(0), "<": Interval(None, -1), "<=": Interval(None, 0), "==": Interval(0, 0)}


class Linear(NamedTuple):
    """`const + sum(coefficient * unknown)`; unknowns are indices into `Symbols.unknowns`. With `others`, the greatest
    of this number and those; with `least`, the least."""

    const: int
    terms: tuple[tuple[int, int], ...] = ()  # (unknown, coefficient)
    others: tuple[Linear, ...] = ()
    least: bool = False

    @property
    def parts(self) -> tuple[Linear, ...]:
        """The numbers that it is the greatest or the least of; of a plain one only itself."""
        return (self._replace(others=(), least=False), *self.others)

    @property
    def unknowns(self) -> tuple[int, ...]:
        return tuple(u for part in self.parts for u, _ in part.terms)


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
    said: dict[str, Expr] = field(default_factory=dict)  # what values are called that only `verify` has names for
    apart: bool = False  # a bound that is the greatest or least of several numbers is not an unknown of its own
    _polys: dict[tuple[Expr, tuple[tuple[str, Scalar], ...]], Poly] = field(default_factory=dict)
    _lets: dict[str, Expr] = field(default_factory=dict)
    _dims: dict[str, Expr] = field(default_factory=dict)  # those that are known in terms of others
    _known: dict[str, Interval] = field(default_factory=dict)
    _floats: frozenset[str] = frozenset()
    _units: dict[Poly, str] = field(default_factory=dict)  # non-constant parts without their factor, and their text
    _counted: dict[Poly, str] = field(default_factory=dict)  # those of bounds, with their sign
    _facts: list[tuple[Poly, Interval]] = field(default_factory=list)
    _index: dict[Poly, int] = field(default_factory=dict)  # unit -> unknown
    _long: list[int] = field(default_factory=list)  # large numbers that loops count to
    _strided: list[tuple[Poly, Fraction | None]] = field(default_factory=list)  # what was announced, with its step
    _alike: Alike = field(init=False)
    _basis: list[tuple[Monomial, Poly, dict[int, Fraction]]] = field(default_factory=list)  # of all other forms
    _finer: dict[str, Interval] = field(default_factory=dict)  # bounds that a loop of another step counts to

    def __post_init__(self) -> None:
        self._known = intervals(self.kernel)
        self._floats = floats(self.kernel)
        for let in self.kernel.launch.lets:
            self._lets[let.name] = substitute(let.value, self._lets)
        self._dims = equalities(self.kernel, self._lets)
        self._alike = Alike(self._known, self._stated)

    def _stated(self) -> Iterator[tuple[Poly, str]]:
        """What is known of forms and zero where there is a tile."""
        env = self.kernel.env
        for op, a, b in assumed(self.kernel):
            yield self._written(Binary("-", a, b), env), op
        for e in tiles(self.kernel):
            yield self._written(e, env), ">="

    @property
    def lets(self) -> Mapping[str, Expr]:
        """The `let` values, written out."""
        return self._lets

    @property
    def clusters(self) -> dict[str, int]:
        """CTAs of a cluster along each axis that has any."""
        return {a.name: a.cluster for a in self.kernel.launch.axes if a.cluster > 1}

    @property
    def units(self) -> dict[int, Poly]:
        """What each unknown stands for. Large numbers are left out."""
        return {i: p for p, i in self._index.items() if self.unknowns[i].number is None}

    @property
    def lows(self) -> dict[str, int | None]:
        """Least values of names."""
        return {n: known.low for n, known in self._known.items()}

    def poly(self, e: Expr, env: Env) -> Poly:
        """The canonical form with all `let` values written out; remembered, as all agents of a task ask alike."""
        key = (e, tuple((n, env[n]) for n in sorted(names(e)) if n in env))
        found = self._polys.get(key)
        if found is None:
            found = self._polys[key] = self._alike.form(self._written(e, env))
        return found

    def alike(self, p: Poly) -> Poly:
        """The form of the numbers that are equal to one."""
        return self._alike.form(p)

    def _written(self, e: Expr, env: Env) -> Poly:
        exact = marked(extents(substitute(e, self._lets), self.kernel), self.kernel, self._floats)
        return canonical(substitute(simplified(exact, self._known, env), self._dims), env)

    def trips(self, e: Expr, step: Expr | None, env: Env) -> Poly:
        """The number of trips of a loop, or what has it as its positive part."""
        if step is None or self._is_finer(e):
            return self.poly(e, env)
        p = counted(self.poly(e if self.strides(e, step, env) else Call("ceil_div", (e, step)), env))
        least = limited(p)
        above = p if least is None else least[0] - Poly.constant(least[1])
        plain = any(v == 1 and q == above for q, v in self._strided)
        other = least is not None or any(
            v == 1 and (x := limited(counted(q))) is not None and x[0] - Poly.constant(x[1]) == p
            for q, v in self._strided
        )
        if not plain or not other:
            return self._alike.trips(p)
        whole = Poly.atom("max", above, Poly.constant(0))  # `max(n, 1)` beside `n - 1`
        return whole if least is None else whole + Poly.constant(least[1])

    def strides(self, e: Expr, step: Expr, env: Env) -> bool:
        """Whether a loop counts to its bound by its step, and not to the number of trips: something else looks at what
        the bound is made of."""
        value = self.poly(step, env).value
        if value is None or self._is_finer(e):
            return value is not None
        unit = parts_of(self.poly(e, env))[0]
        trips = parts_of(self.poly(Call("ceil_div", (e, step)), env))[0]
        return value == 1 or any(
            (v != value or parts_of(q)[0] != unit) and parts_of(q)[0] != trips and _monomials(q) & _monomials(unit)
            for q, v in self._strided
        )

    def announce(self, e: Expr, step: Expr | None, env: Env) -> None:
        """Tells of a bound, or of what a condition compares (step 0), before any is added."""
        value = Fraction(0) if step is None else self.poly(step, env).value
        self._strided.append((self.poly(e, env), value))

    def _is_finer(self, e: Expr) -> bool:
        return isinstance(e, Name) and e.id in self._finer

    def finer(self, e: Expr, env: Env) -> tuple[Expr, int] | None:
        """A bound and a step that give as many trips as `e`, a rounded quotient of what something else that was
        announced looks at: `ceil_div(N, 4)` is N by steps of 4. None if there is nothing of the kind."""
        p = self.poly(e, env)
        found = quotient(p)
        if found is None:
            return None
        y, d = found
        for q in (q for q, _ in self._strided if q != p):  # (x // c + s) // (d / c) is (x + c*s) // d
            inner = quotient(q)
            if inner is not None and inner[1] < d and d % inner[1] == 0:
                x, c = inner
                s = (y - x).value
                if s is not None and s.denominator == 1 and s % c == 0:
                    y, d = q + Poly.constant(s / c), d // c
                    break
        else:
            whole, made = parts_of(p)[0], _monomials(parts_of(y)[0])
            if not any(u != whole and _monomials(u) & made for u in (parts_of(q)[0] for q, _ in self._strided)):
                return None
        return self._named(y - Poly.constant(d - 1), d, interval(e, self._known, env)), d

    def _named(self, bound: Poly, step: int, trips: Interval) -> Expr:
        """A name for a bound that a loop counts to by a step."""
        name = Name(f"={len(self._finer)}")
        low = None if trips.low is None else step * (trips.low - 1) + 1
        self._finer[name.id] = Interval(low, None if trips.high is None else step * trips.high)
        self._polys[name, ()] = bound
        return name

    def add(
        self, e: Expr, env: Env, written: Expr | None = None, step: Expr | None = None, side: Expr | None = None
    ) -> None:
        """Announces what a condition compares, of which `side` is what a reader knows; or a bound, of which `written`
        is the part that names it."""
        p = self.trips(e, step, env)
        unit, factor, _ = parts_of(p)
        for part in _extremes(p)[1] if self.apart and step is not None else ():
            if parts_of(part)[0].terms:
                self._units.setdefault(parts_of(part)[0], _poly_text(part))
        if unit.terms:
            label = self._label(e, env, unit, side if written is None else written, step)
            self._units.setdefault(unit, label)
            if written is not None:
                self._counted.setdefault(unit if factor > 0 else -unit, label)
            self._facts.append((p, self._of_trips(p, e, step, env)))
        elif (value := p.value) is not None and value > LONG and value.denominator == 1:
            self._long.append(int(value))

    def _label(self, e: Expr, env: Env, unit: Poly, name: Expr | None, step: Expr | None) -> str:
        if self._is_finer(e):
            return _poly_text(unit)
        if name is None:
            return self._text(e)
        if step is not None and not self.strides(e, step, env):
            return self._text(Call("ceil_div", (name if self.poly(name, env) == self.poly(e, env) else e, step)))
        return self._text(name if parts_of(self.poly(name, env))[0] in (unit, -unit) else e)

    def _text(self, e: Expr) -> str:
        return text(substitute(e, self.said))

    def _interval(self, e: Expr, step: Expr | None, env: Env) -> Interval:
        if isinstance(e, Name) and e.id in self._finer:
            return self._finer[e.id]
        e = marked(e, self.kernel, self._floats)
        if step is None or self.strides(e, step, env):
            return interval(e, self._known, env)
        return interval(Call("ceil_div", (e, step)), self._known, env)

    def _of_trips(self, p: Poly, e: Expr, step: Expr | None, env: Env) -> Interval:
        """The interval of a form that stands for a bound: one that has no more in common with it than the number of
        trips may be any number below zero where the bound is zero."""
        known = self._interval(e, step, env)
        strides = step is None or self.strides(e, step, env)
        exact = self.poly(e if strides or step is None else Call("ceil_div", (e, step)), env)
        if p == exact or (p - exact).value == 0:
            return known
        low = known.low if known.low is not None and known.low > 0 else None
        return Interval(low, None if known.high is None else max(known.high, 0))

    def settle(self) -> None:
        """Chooses the unknowns: a sum that shares terms with a different sum is taken apart into its terms."""
        env = self.kernel.env
        for name in (*self._known, *self._lets):
            p = self.poly(Name(name), env)
            self._facts.append((p, self._known.get(name, Interval())))
            if p in self._units:
                self._units[p] = name
            if p in self._counted:
                self._counted[p] = name
        for op, one, other in assumed(self.kernel):
            p = self.poly(Binary("-", one, other), env)
            if p.integral and op in _SIGNS:
                self._facts.append((p, _SIGNS[op]))
        shared = [u for u in self._units if any(v != u and _monomials(u) & _monomials(v) for v in self._units)]
        for unit, label in self._units.items():
            if unit not in shared:
                self._declare(-unit if -unit in self._counted and unit not in self._counted else unit, label, True)
        mixed = [
            u
            for u in self._counted
            if (u in shared or -u in shared) and any(c < 0 for _, c in u.terms) and self._range(u).low is not None
        ]
        for unit in mixed:
            self._declare(unit, self._counted[unit], True)
        negative = [m for u in mixed for m, c in u.terms if c < 0]
        for monomial in (*negative, *(m for u in shared for m, _ in u.terms)):
            single = Poly(((monomial, Fraction(1)),))
            self._declare(single, self._units.get(single, _monomial_text(monomial)), True)

    def _declare(self, unit: Poly, label: str, base: bool = False) -> int:
        """The unknown of a unit. With `base`, other forms are combined from it, unless it is a combination itself."""
        if unit in self._index:
            return self._index[unit]
        index = len(self.unknowns)
        if base:
            rest, used = self._reduce(unit)
            if not rest.terms:
                return -1
            pivot, c = rest.terms[0]
            share = {u: -f / c for u, f in used.items()} | {index: 1 / c}
            self._basis.append((pivot, rest * Poly.constant(1 / c), share))
        names = set(names_of(unit))
        made = any(n.startswith("%") and n != "%" for n in names)  # read from what the kernel itself writes
        tile = made or any(n in self.kernel.symbols and self.kernel.symbols[n].time in ("tile", "step") for n in names)
        known = self._range(unit)
        low = SHORT if known.low is not None and known.low > LONG else known.low  # a larger range, soon gone through
        self._index[unit] = index
        apart = not uniform(unit, self.clusters) or (made and bool(self.clusters))
        self.unknowns.append(Unknown(label, low, known.high, tile, apart))
        return index

    def _reduce(self, p: Poly) -> tuple[Poly, dict[int, Fraction]]:
        """What is left of a form after its part over the basis, and that part."""
        used: dict[int, Fraction] = {}
        for pivot, row, share in self._basis:
            c = dict(p.terms).get(pivot)
            if c is not None:
                p = p - row * Poly.constant(c)
                for u, f in share.items():
                    used[u] = used.get(u, Fraction(0)) + c * f
        return p, {u: f for u, f in used.items() if f}

    def _range(self, unit: Poly) -> Interval:
        """What the facts say of a unit alone."""
        found = Interval()
        for p, known in self._facts:
            other, factor, const = parts_of(p)
            if other not in (unit, -unit):
                continue
            c = factor if other == unit else -factor
            low, high = (known.low, known.high) if c > 0 else (known.high, known.low)
            least = None if low is None else ceil((low - const) / c)
            most = None if high is None else floor((high - const) / c)
            found = found.meet(Interval(least, most))
        return found

    def bound(self, e: Expr, env: Env, step: Expr | None = None) -> Linear:
        """The linear form of an announced bound, in which no unknown has a negative factor: one that has none is an
        unknown of its own. A large number is taken for an unknown of at least `SHORT` (and a difference): what holds
        for all those holds for it."""
        p = self.trips(e, step, env)
        form = self._form(p)
        if self.apart and step is not None and (several := self._extreme(p)) is not None:
            return several
        if form is not None and not form.terms and form.const > LONG:
            least = self._least_of_its_group(form.const)
            unit = Poly.atom(f"={least}")
            u = self.unknowns[self._declare(unit, str(least))]
            u.low, u.high, u.number = SHORT, least, least
            return Linear(form.const - least, ((self._index[unit], 1),))
        if form is not None and (not form.terms or self._rises(form)):
            return self._of_its_own(p, e, step, env) if _is_far(form) else form
        unit, factor, const = parts_of(p)
        if factor.denominator != 1 or const.denominator != 1:
            return Linear(0, ((self._declare(p, self._text(e)), 1),))
        unit, factor = (unit, factor) if factor > 0 else (-unit, -factor)
        label = self._counted.get(unit, self._text(e))
        return Linear(int(const), ((self._declare(unit, label), int(factor)),))

    def _of_its_own(self, p: Poly, e: Expr, step: Expr | None, env: Env) -> Linear:
        """A bound whose values are thousands of trips apart, or so many from none: any number stands for it."""
        low = self._interval(e, step, env).low
        unit, factor, const = parts_of(p)
        label = self._counted.get(unit if factor > 0 else -unit, self._text(e)) if not const else self._text(e)
        index = self._declare(Poly.atom("bound", p), label)
        self.unknowns[index].low = SHORT if low is not None and low > LONG else low
        return Linear(0, ((index, 1),))

    def _extreme(self, p: Poly) -> Linear | None:
        """A greatest or least number as several."""
        head, parts = _extremes(p)
        found = [self._form(part) for part in parts]
        forms = [f for f in found if f is not None and self._rises(f) and self._has_least(f) and not _is_far(f)]
        if not forms or len(forms) < len(found):
            return None
        return Linear(*forms[0][:2], tuple(forms[1:]), head == "min")

    def _has_least(self, form: Linear) -> bool:
        return all(self.unknowns[u].low is not None for u, _ in form.terms)

    def _least_of_its_group(self, number: int) -> int:
        """Large numbers that differ by little are one unknown, and keep their differences."""
        least = -SHORT - 1
        for n in sorted(n for n in (*self._long, number) if n <= number):
            if n - least > SHORT:
                least = n
        return least

    def _rises(self, form: Linear) -> bool:
        """Whether a form never falls with its unknowns; in a sum, each of them must have a least value."""
        known = len(form.terms) == 1 or all(self.unknowns[u].low is not None for u, _ in form.terms)
        return known and all(c > 0 for _, c in form.terms)

    def form(self, e: Expr, env: Env) -> Linear | None:
        """The linear form of an expression over the unknowns; None if it has another form."""
        return self._form(self.poly(e, env))

    def _form(self, p: Poly) -> Linear | None:
        unit, factor, const = parts_of(p)
        if const.denominator != 1:
            return None
        if not unit.terms:
            return Linear(int(const))
        signed = unit if factor > 0 else -unit
        for u, c in ((signed, abs(factor)), (-signed, -abs(factor))):
            if u in self._index:
                return Linear(int(const), ((self._index[u], int(c)),)) if c.denominator == 1 else None
        rest, used = self._reduce(unit * Poly.constant(factor))
        if rest.terms or any(c.denominator != 1 for c in used.values()):
            return None
        return Linear(int(const), tuple(sorted((u, int(c)) for u, c in used.items())))


def _is_far(form: Linear) -> bool:
    return bool(form.terms) and max(form.const, *(c for _, c in form.terms)) > LONG


def parts_of(p: Poly) -> tuple[Poly, Fraction, Fraction]:
    """unit, factor, constant: `p = factor * unit + constant`, the unit with whole coefficients, no common divisor."""
    terms = tuple(t for t in p.terms if t[0])
    const = next((c for m, c in p.terms if not m), Fraction(0))
    if not terms:
        return Poly(()), Fraction(1), const
    denominator = lcm(*(c.denominator for _, c in terms))
    factor = Fraction(gcd(*(int(c * denominator) for _, c in terms)), denominator)
    factor = -factor if terms[0][1] < 0 else factor
    return Poly(tuple((m, c / factor) for m, c in terms)), factor, const


def _extremes(p: Poly) -> tuple[str, list[Poly]]:
    """The numbers that a form is the greatest or the least of; none if it is neither."""
    for monomial, c in p.terms:
        if c == 1 and len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0].head in ("min", "max"):
            head, rest = monomial[0][0].head, p - Poly(((monomial, c),))
            parts = [a + rest for a in monomial[0][0].args if isinstance(a, Poly)]
            inner = [_extremes(part) for part in parts]
            return head, [
                x for part, (h, more) in zip(parts, inner, strict=True) for x in (more if h == head else [part])
            ]
    return "", []


def quotient(p: Poly) -> tuple[Poly, int] | None:
    """y and d of a form that is `y // d` with a number d."""
    for monomial, c in p.terms:
        if c == 1 and len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0].head == "//":
            numerator, divisor = monomial[0][0].args
            d = divisor.value if isinstance(divisor, Poly) else None
            if isinstance(numerator, Poly) and d is not None and d > 1 and d.denominator == 1 and p.integral:
                rest = Poly(tuple(t for t in p.terms if t[0] != monomial))
                return numerator + rest * Poly.constant(d), int(d)
    return None


def _monomials(p: Poly) -> frozenset[Monomial]:
    return frozenset(m for m, _ in p.terms)


def names_of(p: Poly) -> Iterable[str]:
    """Every name and operation in a form."""
    for monomial, _ in p.terms:
        for atom, _power in monomial:
            yield from _atom_names(atom)


def _atom_names(atom: Atom) -> Iterable[str]:
    yield atom.head
    if atom.head == "extent":  # of an axis: one number, though the axis has many coordinates
        return
    for arg in atom.args:
        if isinstance(arg, Poly):
            yield from names_of(arg)


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
