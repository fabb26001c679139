"""Which values are the same in all CTAs of a cluster.

CTAs of a cluster have neighbouring coordinates along its axes: with a cluster of c along m, m is c*q + rank. So
`m // c` is uniform, and so is what is made from it, such as `lens[m // c]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from tsgen.model.poly import Atom, Poly


def uniform(p: Poly, clusters: Mapping[str, int]) -> bool:
    """Whether a value does not depend on the CTA's rank. `clusters`: CTAs along each clustered axis."""
    return all(_uniform(atom, clusters) for monomial, _ in p.terms for atom, _ in monomial)


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
        axis = monomial[0][0].head if len(monomial) == 1 and monomial[0][1] == 1 and not monomial[0][0].args else ""
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
