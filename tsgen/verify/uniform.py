"""Which values are the same in all CTAs of a cluster.

CTAs of a cluster have neighbouring coordinates along its axes: with a cluster of c along m, m is c*q + rank. So
`m // c` is uniform, and so is what is made from it, such as `lens[m // c]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import gcd

from tsgen.model.bounds import Interval
from tsgen.model.poly import Atom, Monomial, Poly
from tsgen.verify.cases import Known, is_zero, plain, replaced

MOST_RANKS = 16
WHOLE = "cluster "  # of an axis: no name of a spec, it ends in a blank


def uniform(p: Poly, clusters: Mapping[str, int]) -> bool:
    """Whether a value does not depend on the CTA's rank. `clusters`: CTAs along each clustered axis."""
    return _is_uniform(p, clusters) or _is_uniform(plain(p), clusters) or _is_proven(p, tuple(clusters.items()))


def uniformly_positive(p: Poly, clusters: Mapping[str, int]) -> bool:
    """Whether `p >= 0` says the same in all CTAs of a cluster, for an integer p."""
    return uniform(p, clusters) or divided(p, clusters) is not None


def divided(p: Poly, clusters: Mapping[str, int]) -> tuple[int, bool] | None:
    """A divisor d with which `p >= 0` is `p // d >= 0` (True), or the contrary of `(-p - 1) // d >= 0` (False), and the
    quotient is the same in all CTAs of a cluster. None if there is none; both hold for every positive d."""
    for q, holds in ((p, True), (-p - Poly.constant(1), False)):
        axes = ((clusters[a], c) for m, c in q.terms if (a := _axis(m)) in clusters)
        for d in sorted({int(c) * ctas for ctas, c in axes if c > 0 and c.denominator == 1}):
            if _rank_is_cut_off(Atom("//", (q, Poly.constant(d))), clusters):
                return d, holds
    return None


@cache
def _is_proven(p: Poly, clusters: tuple[tuple[str, int], ...]) -> bool:
    """Whether the numbers of all ranks are equal by cases, where one axis alone plays a part: m is `c*q + rank`."""
    axes = [(a, ctas) for a, ctas in clusters if a in _leaves(p)]
    if len(axes) != 1 or axes[0][1] > MOST_RANKS or not p.integral:
        return False
    ((axis, ctas),) = axes
    whole = Poly.atom(WHOLE) * Poly.constant(ctas)
    first, *others = (replaced(p, Atom(axis), whole + Poly.constant(rank)) for rank in range(ctas))
    return all(is_zero(q - first, Known({WHOLE: Interval(0)})) for q in others)


def _leaves(p: Poly) -> set[str]:
    found: set[str] = set()
    for monomial, _ in p.terms:
        for atom, _power in monomial:
            found |= {atom.head} if not atom.args else set()
            found |= {n for a in atom.args if isinstance(a, Poly) for n in _leaves(a)}
    return found


def _is_uniform(p: Poly, clusters: Mapping[str, int]) -> bool:
    return all(_uniform(atom, clusters) for monomial, _ in p.terms for atom, _ in monomial)


def _axis(monomial: Monomial) -> str:
    """The name that a monomial is; nothing if it is something else."""
    alone = len(monomial) == 1 and monomial[0][1] == 1 and not monomial[0][0].args
    return monomial[0][0].head if alone else ""


def _uniform(atom: Atom, clusters: Mapping[str, int]) -> bool:
    if not atom.args:
        return atom.head not in clusters
    if atom.head == "//" and _rank_is_cut_off(atom, clusters):
        return True
    return all(uniform(a, clusters) for a in atom.args if isinstance(a, Poly))


def _rank_is_cut_off(atom: Atom, clusters: Mapping[str, int]) -> bool:
    """Whether a quotient is the same for all ranks: the numerator is a multiple of g plus something in [0, g) that only
    the ranks and a constant make up, and g divides the divisor."""
    numerator, divisor = atom.args
    assert isinstance(numerator, Poly) and isinstance(divisor, Poly)
    d = divisor.value
    if d is None or d.denominator != 1 or d <= 0 or not numerator.integral:
        return False
    g, constant, most = int(d), 0, 0
    for monomial, c in numerator.terms:
        axis = _axis(monomial)
        if not monomial:
            constant = int(c)
        elif axis in clusters:
            if c < 0:
                return False
            g = gcd(g, int(c) * clusters[axis])
            most += int(c) * (clusters[axis] - 1)
        elif uniform(Poly(((monomial, c),)), clusters):
            g = gcd(g, int(c))
        else:
            return False
    return constant % g + most < g
