"""Loops to a quotient beside loops and conditions that count what it is a quotient of: equal numbers of steps are
proven to be equal, others are told with numbers that can be."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tests.unit.verify.test_chosen import HEAD, LOAD, RELEASE, STORE, codes, task
from tsgen.diagnostics.report import FileReport


def check(load: tuple[str, str], store: tuple[str, str]) -> FileReport:
    """Each task with its bound and its condition."""
    both = task("load", LOAD, load[1], [], "", load[0]) + task("store", STORE + RELEASE, store[1], [], "", store[0])
    return check_text(HEAD + both)


EQUAL = [  # and what has more or fewer steps
    (("N", "i % 4 == 0"), ("ceil_div(N, 4)", "i >= 0"), ("N // 4", "i >= 0")),
    (("N", "i % 4 == 3"), ("N // 4", "i >= 0"), ("(N + 1) // 4", "i >= 0")),
    (("N", "i % 2 == 1"), ("N // 2", "i >= 0"), ("N // 2 + 1", "i >= 0")),
    (("N", "i % 3 == 1"), ("(N + 1) // 3", "i >= 0"), ("(N + 2) // 3", "i >= 0")),
    (("N", "i % 3 == 0 and i > 0"), ("ceil_div(N, 3) - 1", "i >= 0"), ("ceil_div(N, 3)", "i >= 0")),
    (("ceil_div(N, 64)", "i % 4 == 0"), ("ceil_div(N, 256)", "i >= 0"), ("ceil_div(N, 128)", "i >= 0")),
    (("ceil_div(N, 4)", "4*i + 3 < N"), ("N", "i % 4 == 3"), ("N", "i % 4 == 2")),
]


@pytest.mark.parametrize(("load", "store", "other"), EQUAL)
def test_steps_of_a_loop_to_a_quotient(load: tuple[str, str], store: tuple[str, str], other: tuple[str, str]) -> None:
    right = check(load, store)
    assert right.diagnostics == () and right.proof.complete
    assert codes(check(load, other)) in (["TS400"], ["TS404"])
    assert codes(check(other, load)) in (["TS400"], ["TS404"])


def test_numbers_of_a_counterexample_fit() -> None:
    (d,) = check(("N", "i % 4 == 0"), ("N // 4", "i >= 0")).diagnostics
    assert "N = 1" in d.message and "//" not in d.message
