"""Whether unknowns can have certain values at once: they may be functions of the same dims.

The exploration takes unknowns for independent, which covers more than can happen. Here values of the dims, tile
coordinates and elements of tensors are looked for that give all unknowns their values. What is not found among the
likely ones is not called impossible for good: such a counterexample is not told, but nothing is proven either.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise, product
from math import inf
from struct import pack, unpack

from tsgen.model.expr import Binary
from tsgen.model.inexact import MARK
from tsgen.model.poly import Atom, Poly
from tsgen.verify.rewrite import assumed
from tsgen.verify.symbols import Symbols

Range = tuple[int, int | None]  # least and greatest value
MAX_TRIED = 100_000  # assignments of dims
MOST_NAMES = 4  # that all likely values of are tried together
_COMPUTED = frozenset({"//", "%", "ceil_div", "min", "max", "if", "and", "or", "not", "<", "<=", ">", ">=", "==", "!="})
_FLOATS = frozenset({"+", "-", "*", "/", "neg"})  # of which no sums of products are made
Chosen = tuple[Poly, bool]  # a condition and its outcome


class Relations:
    """The unknowns of a kernel as functions of what is free: names, elements, and all that is not computed here.
    `hints` are numbers that may matter."""

    def __init__(self, symbols: Symbols, hints: Iterable[int] = ()) -> None:
        self.hints = frozenset(hints)
        self.units = symbols.units
        self.lows = symbols.lows
        env = symbols.kernel.env
        facts = [(symbols.poly(Binary("-", a, b), env), op) for op, a, b in assumed(symbols.kernel)]
        for a in symbols.kernel.launch.axes:  # CTAs of a cluster may lie past the edge
            facts.append((Poly.atom(a.name) - symbols.poly(a.extent, env) - Poly.constant(a.cluster - 1), "<"))
        self.facts = facts
        self.known: dict[Hashable, bool] = {}
        self.free = {u: frozenset(_free(p)) for u, p in self.units.items()}

    def related(self, unknowns: set[int]) -> bool:
        """Whether some of the unknowns are made of the same names, or of some that an assumption relates."""
        seen: set[Atom] = set()
        for u in unknowns & self.free.keys():
            reach = self._reach(self.free[u])
            if seen & reach:
                return True
            seen |= reach
        return False

    def agree(self, chosen: Iterable[Chosen], values: Mapping[int, Range]) -> bool:
        """Whether the outcomes of conditions can be, each with those that speak of the same names, and with these
        values of the unknowns."""
        left = [(p, holds, frozenset(_free(p))) for p, holds in chosen]
        left = [c for c in left if not any(n.head.startswith("%") for n in c[2])]
        while left:
            reach, group = self._reach(left[0][2]), [left.pop(0)]
            while True:
                more = [c for c in left if c[2] & reach]
                if not more:
                    break
                left = [c for c in left if c not in more]
                group += more
                reach = self._reach(reach.union(*(c[2] for c in more)))
            wanted = {u: r for u, r in values.items() if u in self.free and self.free[u] <= reach}
            outcomes = [(p, holds) for p, holds, _ in group]
            if len(reach) <= MOST_NAMES and not self._some(wanted, outcomes, reach):
                return False
        return True

    def _some(self, wanted: Mapping[int, Range], chosen: list[Chosen], names: frozenset[Atom]) -> bool:
        key = (frozenset(wanted.items()), frozenset(chosen))
        if key not in self.known:
            self.known[key] = next(self.assignments(wanted, chosen, names), None) is not None
        return self.known[key]

    def possible(self, values: Mapping[int, Range]) -> dict[int, int] | None:
        """Values for these of the unknowns that are related, within their ranges; None if no values of the dims give
        them such values."""
        wanted = {u: r for u, r in values.items() if u in self.free}
        if not self.related(set(wanted)):
            return {}
        found = next(self.assignments(wanted), None)
        return None if found is None else dict(zip(wanted, found, strict=True))

    def assignments(
        self, wanted: Mapping[int, Range], chosen: Iterable[Chosen] = (), others: frozenset[Atom] = frozenset()
    ) -> Iterator[tuple[int, ...]]:
        """The values of unknowns, each within its range, for likely values of all that they, or `others`, are made of.
        `chosen`: conditions that must come out like this."""
        names = self._reach(others.union(*(self.free[u] for u in wanted)))
        facts = [(f"({{}}) {op} 0", p) for p, op in self.facts if names.issuperset(_free(p))]
        facts += [("{}" if holds else "not ({})", p) for p, holds in chosen]
        polys = [self.units[u] for u in wanted] + [p for _, p in facts]
        ordered = {n: f"v{i}" for i, n in enumerate(sorted(names, key=repr))}
        likely = [self._likely(n, polys, list(wanted.values()), len(ordered)) for n in ordered]
        true = " and ".join(f"({fact.format(_code(p, ordered))})" for fact, p in facts) or "True"
        units = "".join(f"{_code(self.units[u], ordered)}, " for u in wanted)
        row = eval(f"lambda {', '.join(ordered.values())}: ({units}) if {true} else None", _GIVEN)
        for given in product(*likely):
            try:
                found = row(*given)
            except (ZeroDivisionError, OverflowError):
                continue
            if found is not None and all(
                low <= v and (high is None or v <= high) for v, (low, high) in zip(found, wanted.values(), strict=True)
            ):
                yield tuple(int(v) for v in found)

    def _reach(self, names: frozenset[Atom]) -> frozenset[Atom]:
        """The names that assumptions relate with these."""
        while True:
            more = frozenset[Atom]().union(names, *(f for p, _ in self.facts if names & (f := frozenset(_free(p)))))
            if more == names:
                return names
            names = more

    def _likely(self, name: Atom, polys: list[Poly], ranges: list[Range], names: int) -> list[int | float]:
        """Small values, and those around multiples of what occurs by what is wanted: the simplest of them. Of a float
        those in between, too, and what is no number."""
        numbers = {abs(n) for p in polys for n in _numbers(p)} - {0}
        targets = {0, 1, 2, 3, *numbers, *self.hints, *(n for r in ranges for n in r if n is not None)}
        low = 1 if name.head == "extent" else self.lows.get(name.head)
        costs: dict[int, int] = {v: abs(v) for v in range(-3, 8)}
        for rank, scale in enumerate(sorted(numbers | {1})):
            for target in targets:
                for rest in (-1, 0, 1):
                    v = scale * target + rest
                    costs[v] = min(costs.get(v, 2**40), rank + min(abs(target), 9) + abs(rest))
        kept = sorted((v for v in costs if low is None or v >= low), key=lambda v: (costs[v], abs(v), v))
        room = max(4, int(MAX_TRIED ** (1 / names)))
        if MARK in name.head:
            ends = sorted({float(f) for p in polys for f in _fractions(p)})
            between = [(a + b) / 2 for a, b in pairwise(ends)]
            halves = [v + half for v in kept[: room // 2] for half in (0.0, 0.5)]
            return [*ends, *between, *halves, float("nan")]
        return sorted(kept[:room], key=lambda v: (abs(v), v))


def _rounded(x: int | float | Fraction) -> float:
    """A number as float32 holds it."""
    try:
        return float(unpack("f", pack("f", float(x)))[0])
    except OverflowError:
        return inf if x > 0 else -inf


_GIVEN = {"Fraction": Fraction, "rounded": _rounded}


def _fractions(p: Poly) -> Iterator[Fraction]:
    """The constants in a form that are no integers, and those beside them."""
    for monomial, c in p.terms:
        if c.denominator != 1:
            yield from (c, -c, c - 1, c + 1)
        for atom, _ in monomial:
            for a in atom.args:
                if isinstance(a, Poly):
                    yield from _fractions(a)


def _code(p: Poly, names: Mapping[Atom, str]) -> str:
    """A form as Python, with names for its free atoms."""
    terms = []
    for monomial, c in p.terms:
        factor = str(c) if c.denominator == 1 else f"Fraction({c.numerator}, {c.denominator})"
        terms.append("*".join([factor, *(f"{_atom(a, names)}**{n}" for a, n in monomial)]))
    return " + ".join(terms) or "0"


def _atom(atom: Atom, names: Mapping[Atom, str]) -> str:
    if atom in names:
        return names[atom]
    args = [f"({_code(a, names)})" if isinstance(a, Poly) else "0" for a in atom.args]
    match atom.head:
        case "ceil_div":
            return f"(-(-{args[0]} // {args[1]}))"
        case "min" | "max":
            return f"{atom.head}({', '.join(args)})"
        case "if":
            return f"({args[1]} if {args[0]} else {args[2]})"
        case "not":
            return f"(not {args[0]})"
        case "neg":
            return f"(-{args[0]})"
        case "+" | "-" | "*" | "/":
            return f"rounded(rounded({args[0]}) {atom.head} rounded({args[1]}))"
        case "and" | "or":
            return "(" + f" {atom.head} ".join(args) + ")"
    return f"({args[0]} {atom.head} {args[1]})"


def _free(p: Poly) -> Iterator[Atom]:
    """The atoms of a form that are not computed from others."""
    for monomial, _ in p.terms:
        for atom, _power in monomial:
            if atom.head in _COMPUTED | _FLOATS and all(isinstance(a, Poly) for a in atom.args):
                for a in atom.args:
                    if isinstance(a, Poly):
                        yield from _free(a)
            else:
                yield atom


def _numbers(p: Poly) -> Iterator[int]:
    """The numbers in a form."""
    for monomial, c in p.terms:
        if c.denominator == 1:
            yield int(c)
        for atom, _ in monomial:
            for a in atom.args:
                if isinstance(a, Poly):
                    yield from _numbers(a)
