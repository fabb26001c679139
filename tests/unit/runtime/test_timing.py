"""Fair timing: no candidate always comes after the same other one."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise
from random import Random

import pytest

from tsgen.runtime.timing import orders


@pytest.mark.parametrize(("names", "rounds"), [("a", 3), ("ab", 4), ("abc", 12), ("abcd", 24)])
def test_each_candidate_follows_each_other_equally_often(names: str, rounds: int) -> None:
    found = list(islice(orders(list(names), Random(1)), rounds))
    assert all(sorted(order) == list(names) for order in found)
    follows = Counter(pair for order in found for pair in pairwise(order))
    assert len(follows) == len(names) * (len(names) - 1) and len(set(follows.values())) <= 1


def test_many_candidates_come_in_drawn_orders() -> None:
    first, second = islice(orders(list("abcdefgh"), Random(1)), 2)
    assert sorted(first) == sorted(second) and first != second
