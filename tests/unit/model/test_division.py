"""Quotients by a number have one form: what is equal for all integers compares equal, and the form keeps the value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsgen.diagnostics import Span
from tsgen.lower.pyexpr import expression
from tsgen.model.algebra import canonical, evaluate
from tsgen.model.expr import Binary, Call, Const, Expr, Name, Unary
from tsgen.spec.parse import parse_expr

NAMES = ("M", "N", "K")
numbers = st.integers(-200, 200)


def expressions(quotients: bool = True) -> st.SearchStrategy[Expr]:
    """Integer expressions over three names, with quotients and remainders by positive numbers, or without."""
    leaves = st.one_of(st.sampled_from([Name(n) for n in NAMES]), st.builds(Const, st.integers(-40, 40)))
    divisors = st.builds(Const, st.integers(1, 24))

    def grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
        sums = st.builds(Binary, st.sampled_from(("+", "-", "*")), inner, inner)
        if not quotients:
            return sums
        return st.one_of(
            sums,
            st.builds(Binary, st.sampled_from(("//", "%")), inner, divisors),
            st.builds(lambda a, b: Call("ceil_div", (a, b)), inner, divisors),
            st.builds(lambda a: Unary("-", a), inner),
            st.builds(lambda a, b: Call("max", (a, b)), inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=8)


def value(e: Expr, values: dict[str, int]) -> int:
    found = evaluate(e, values)
    assert isinstance(found, int)
    return found


@given(expressions(), st.fixed_dictionaries(dict.fromkeys(NAMES, numbers)))
def test_the_form_has_the_value(e: Expr, values: dict[str, int]) -> None:
    form = expression(canonical(e, {}))
    assert form is not None
    assert value(form, values) == value(e, values)
    assert canonical(form, {}) == canonical(e, {})  # the form of a form is itself


@given(expressions(), st.integers(1, 24), st.integers(-5, 5))
def test_rounding_up_and_moving_by_multiples_have_one_form(x: Expr, d: int, n: int) -> None:
    by = Const(d)
    up = canonical(Call("ceil_div", (x, by)), {})
    assert up == canonical(Binary("//", Binary("+", x, Const(d - 1)), by), {})
    assert up == canonical(Unary("-", Binary("//", Unary("-", x), by)), {})
    moved = Binary("+", x, Const(n * d))
    assert canonical(Binary("//", moved, by), {}) == canonical(Binary("+", Binary("//", x, by), Const(n)), {})
    assert canonical(Binary("%", moved, by), {}) == canonical(Binary("%", x, by), {})


@given(expressions(quotients=False), st.integers(1, 24), st.integers(1, 24))
def test_quotients_of_quotients_have_one_form(x: Expr, d: int, e: int) -> None:
    down = Binary("//", x, Const(d))
    assert canonical(Binary("//", down, Const(e)), {}) == canonical(Binary("//", x, Const(d * e)), {})
    assert canonical(Binary("//", Binary("*", x, Const(e)), Const(d * e)), {}) == canonical(down, {})


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("(N + 63) // 64", "ceil_div(N, 64)", True),
        ("(N - 1) // 64 + 1", "ceil_div(N, 64)", True),
        ("-(-N // 64)", "ceil_div(N, 64)", True),
        ("(N + 127) // 64", "ceil_div(N, 64) + 1", True),
        ("ceil_div(ceil_div(N, 64), 2)", "ceil_div(N, 128)", True),
        ("ceil_div(2*N, 128)", "ceil_div(N, 64)", True),
        ("(64*M + N) // 64", "M + N // 64", True),
        ("(cu[M + 1] - cu[M] + 7) // 8", "ceil_div(cu[M + 1] - cu[M], 8)", True),
        ("N // 64", "ceil_div(N, 64)", False),
        ("(N + 62) // 64", "ceil_div(N, 64)", False),
        ("N / 64", "N // 64", False),
        ("(N / 2 * 4) // 4", "N / 2", False),  # halves are no integers: nothing may be taken out
        ("ceil_div(N, M)", "(N + M - 1) // M", False),  # not for negative M
    ],
)
def test_bounds_are_compared_by_value(one: str, other: str, equal: bool) -> None:
    assert (canonical(parse(one), {}) == canonical(parse(other), {})) is equal


def parse(text: str) -> Expr:
    return parse_expr(text, Span.start())
