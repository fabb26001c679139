"""Whether linear conditions over integers contradict each other.

Fourier-Motzkin elimination: every pair of a lower and an upper limit of an unknown makes a condition without it, and
every condition is divided by the common divisor of its factors, its constant rounded down. Each step follows from the
conditions before it, for all integers; so a contradiction at the end was one at the beginning. That none is found says
nothing: the rounding does not find all, and the work is limited.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from math import gcd

Factors = tuple[tuple[int, int], ...]  # (unknown, factor), in the order of the unknowns
MAX_ROWS = 400  # conditions at once


def contradictory(conditions: Iterable[tuple[Mapping[Hashable, int], int]]) -> bool:
    """Whether no integers give all `sum(factor * unknown) + constant >= 0`."""
    index: dict[Hashable, int] = {}
    rows: dict[Factors, int] = {}
    for factors, constant in conditions:
        row = {index.setdefault(u, len(index)): c for u, c in factors.items() if c}
        if _add(rows, row, constant):
            return True
    while rows:
        unknown = _cheapest(rows)
        if unknown is None:
            return False
        found = _without(rows, unknown)
        if found is None:
            return True
        rows = found
        if len(rows) > MAX_ROWS:
            return False
    return False


def _add(rows: dict[Factors, int], row: Mapping[int, int], constant: int) -> bool:
    """Adds a condition, of equal ones the stronger; returns whether it can never hold."""
    if not row:
        return constant < 0
    g = gcd(*row.values())
    key = tuple(sorted((u, c // g) for u, c in row.items()))
    constant //= g
    rows[key] = min(rows.get(key, constant), constant)
    return False


def _cheapest(rows: Mapping[Factors, int]) -> int | None:
    """The unknown to eliminate: one whose lower or upper limits all have a factor of one, which loses no integers; of
    those the one that adds least."""
    ends: dict[int, tuple[list[int], list[int]]] = {}
    for key in rows:
        for u, c in key:
            ends.setdefault(u, ([], []))[c < 0].append(abs(c))

    def cost(u: int) -> tuple[bool, int]:
        lower, upper = ends[u]
        return max(lower, default=1) > 1 < max(upper, default=1), len(lower) * len(upper) - len(lower) - len(upper)

    return min(ends, key=cost, default=None)


def _without(rows: Mapping[Factors, int], unknown: int) -> dict[Factors, int] | None:
    """What the conditions say of the other unknowns; None if it can never hold."""
    found: dict[Factors, int] = {}
    lower: list[tuple[int, dict[int, int], int]] = []
    upper: list[tuple[int, dict[int, int], int]] = []
    for key, constant in rows.items():
        row = dict(key)
        c = row.pop(unknown, 0)
        if c:
            (lower if c > 0 else upper).append((abs(c), row, constant))
        elif _add(found, row, constant):
            return None
    for c, row, constant in lower:
        for d, other, more in upper:
            g = gcd(c, d)
            both = {u: v * (d // g) for u, v in row.items()}
            for u, v in other.items():
                both[u] = both.get(u, 0) + v * (c // g)
            both = {u: v for u, v in both.items() if v}
            if _add(found, both, constant * (d // g) + more * (c // g)):
                return None
    return found
