"""Loops to the greatest or least of several numbers, beside loops and conditions that count those: equal numbers of
steps are proven to be equal, others are told."""

from __future__ import annotations

import pytest

from tests.unit.verify.test_chosen import codes
from tests.unit.verify.test_quotients import check

EQUAL = [  # and what has more or fewer steps
    (("max(N, G)", "i < N"), ("N", "i >= 0"), ("max(N, G)", "i <= N")),
    (("max(N, G)", "i < N"), ("N", "i >= 0"), ("G", "i < N")),
    (("max(N, G + 2)", "i < N"), ("N", "i >= 0"), ("N + 1", "i >= 0")),
    (("min(N, G)", "i >= 0"), ("N", "i < G"), ("N", "i <= G")),
    (("min(N, G)", "i >= 0"), ("N", "i < G"), ("min(N + 1, G)", "i >= 0")),
    (("min(N, min(G, 5))", "i >= 0"), ("min(N, G, 5)", "i >= 0"), ("min(N, G, 6)", "i >= 0")),
    (("min(N, h + 1)", "i == h"), ("min(N, h + 1)", "i >= h"), ("min(N, h + 2)", "i >= h")),
    (("max(N, G, 3)", "i < N and i < G"), ("min(N, G)", "i >= 0"), ("max(N, G, 3)", "i < N or i < G")),
    (("max(N, G) + 1", "i > G"), ("N", "i >= G"), ("max(N, G) + 1", "i >= G")),
]


@pytest.mark.parametrize(("load", "store", "other"), EQUAL)
def test_steps_of_a_loop_to_an_extreme(load: tuple[str, str], store: tuple[str, str], other: tuple[str, str]) -> None:
    right = check(load, store)
    assert right.diagnostics == () and right.proof.complete
    assert codes(check(store, other)) in (["TS400"], ["TS404"])
    assert codes(check(other, store)) in (["TS400"], ["TS404"])


def test_what_was_chosen_of_a_number_counts_when_nobody_asks_for_it_any_more() -> None:
    """N = 1 with `min(N, G) = 1`, so G is not 0, though nothing looks at it then."""
    report = check(("min(N, G)", "i == N - 1"), ("max(N // 2, G)", "i == N - 1"))
    assert codes(report) == []
