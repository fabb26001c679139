"""Equal numbers have one form, however they are written; what a form says is what was written, for all integers."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsgen.diagnostics import Span
from tsgen.model.algebra import canonical, evaluate
from tsgen.model.bounds import Interval
from tsgen.model.expr import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Name, Unary
from tsgen.model.poly import Atom, Poly
from tsgen.spec.parse import parse_expr
from tsgen.verify.alike import Alike
from tsgen.verify.cases import Known, never
from tsgen.verify.classes import Classes
from tsgen.verify.integers import contradictory
from tsgen.verify.outcomes import form_of
from tsgen.verify.points import value_at
from tsgen.verify.spelled import spelled

NAMES = ("M", "N", "m")
LIMITS = {n: Interval(0) for n in ("L", "M", "N", "b", "m", "s")} | {"S": Interval(1)}
SMALL = range(-3, 8)


def alike(*assumed: str) -> Alike:
    facts = []
    for e in map(parse, assumed):
        assert isinstance(e, Compare)
        facts.append((canonical(Binary("-", *e.operands), {}), e.ops[0]))
    return Alike(LIMITS, lambda: facts)


def parse(text: str) -> Expr:
    return parse_expr(text, Span.start())


def poly(text: str) -> Poly:
    return canonical(parse(text), {})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("min(N, min(M, 5))", "min(N, M, 5)"),
        ("min(max(N - M, 0), 7)", "max(0, min(7, N - M))"),
        ("min(max(M - 1, 0), 7, N)", "max(0, min(N, min(7, M - 1)))"),
        ("min(16, N - m*16)", "min(N, m*16 + 16) - m*16"),
        ("N // 64 + (1 if N % 64 else 0)", "ceil_div(N, 64)"),
        ("N // 64 if N % 64 == 0 else N // 64 + 1", "ceil_div(N, 64)"),
        ("N // 64 + min(N % 64, 1)", "ceil_div(N, 64)"),
        ("N // 64 + (N % 64 + 63) // 64", "ceil_div(N, 64)"),
        ("(N + 63 - (N + 63) % 64) // 64", "ceil_div(N, 64)"),
        ("N // 2 + N % 2", "ceil_div(N, 2)"),
        ("N - N // 2", "ceil_div(N, 2)"),
        ("2*ceil_div(N, 64) - (1 if 0 < N % 64 and N % 64 <= 32 else 0)", "ceil_div(N, 32)"),
        ("N - M if N > M else 0", "max(N - M, 0)"),
        ("max(N, 4) - 4", "max(0, N - 4)"),
        ("N - min(N, M)", "max(N - M, 0)"),
        ("min(N, 2) + max(N - 2, 0)", "N"),
        ("min(m, N) + max(m, N)", "m + N"),
        ("max(N, M) - min(N, M)", "max(N - M, M - N)"),
        ("N if m == 0 else 0", "0 if m != 0 else N"),
        ("N if m == 0 else 0", "N if m < 1 else 0"),
        ("N*(1 if M > 3 else 0)", "N if M > 3 else 0"),
        ("N if m > 0 and b > 0 else 0", "0 if m == 0 or b == 0 else N"),
        ("min(m + 1, N)", "m + 1 if m < N else N"),
        ("ceil_div(min(N, m*64 + 64), 64)", "min(ceil_div(N, 64), m + 1)"),
        ("ceil_div(max(N - m*64, 0), 64)", "max(ceil_div(N, 64) - m, 0)"),
        ("ceil_div(max(N, 1), 64)", "max(1, ceil_div(N, 64))"),
        ("min(N // 64, M // 64)", "min(N, M) // 64"),
        ("(N - s + S - 1) // S", "ceil_div(N - s, S)"),
        ("(N - s - 1) // S + 1", "ceil_div(N - s, S)"),
        ("ceil_div(ceil_div(N, 64), S)", "ceil_div(N, 64*S)"),
        ("N % S", "N - N // S * S"),
        ("(s + 1)*(N // S) + min(s + 1, N % S) - s*(N // S) - min(s, N % S)", "N // S + (1 if s < N % S else 0)"),
    ],
)
def test_equal_numbers_have_one_form(one: str, other: str) -> None:
    for first, second in ((one, other), (other, one)):
        numbers = alike()
        assert numbers.form(poly(first)) == numbers.form(poly(second))
        assert numbers.form(poly(first) + poly("7")) == numbers.form(poly(second)) + poly("7")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("N // 64 + (1 if N % 64 > 1 else 0)", "ceil_div(N, 64)"),
        ("N // 64 + min(N % 64, 2)", "ceil_div(N, 64)"),
        ("N - M if N > M else 1", "max(N - M, 0)"),
        ("max(N, 5) - 4", "max(0, N - 4)"),
        ("N if m == 0 else 0", "N if m < 2 else 0"),
        ("ceil_div(min(N, m*64 + 65), 64)", "min(ceil_div(N, 64), m + 1)"),
        ("max(ceil_div(N, 64), ceil_div(M, 64))", "ceil_div(N, 64)"),
        ("(N - s + S) // S", "ceil_div(N - s, S)"),
        ("ceil_div(N, L)", "(N + L - 1) // L"),  # L may be 0, where it has no value
    ],
)
def test_other_numbers_have_other_forms(one: str, other: str) -> None:
    numbers = alike()
    assert numbers.form(poly(one)) != numbers.form(poly(other))


def test_what_is_assumed_makes_numbers_equal() -> None:
    one, other = poly("max(ceil_div(N, 64), ceil_div(M, 64))"), poly("ceil_div(N, 64)")
    for assumed, equal in (("N >= M", True), ("N >= M - 1", False), ("M <= N", True), ("N > M + 64", True)):
        numbers = alike(assumed)
        assert (numbers.form(one) == numbers.form(other)) is equal


def test_trips_are_equal_where_there_are_none_below_zero() -> None:
    numbers = alike()
    bounds = [poly(t) for t in ("N - m", "N - m if m < N else 0", "max(N - m, 0)", "max(N - m, -3)")]
    assert len({numbers.trips(p) for p in bounds}) == 1
    assert len({numbers.form(p) for p in bounds}) == 3
    assert numbers.trips(poly("max(N - m, 1)")) != numbers.trips(bounds[0])


def test_values_that_works_make_are_not_known_to_be_integers() -> None:
    numbers = alike()
    made = Poly.atom("min", Poly.atom("%1"), Poly.atom("min", Poly.atom("%2"), Poly.atom("N")))
    numbers.form(Poly.atom("min", Poly.atom("%1"), Poly.atom("%2"), Poly.atom("N")))
    assert numbers.form(made) == made


# ---- against brute force -------------------------------------------------------------------------------------------


def numbers_of(conditions: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    leaves = st.one_of(st.sampled_from([Name(n) for n in NAMES]), st.builds(Const, st.integers(-3, 5)))
    divisors = st.builds(Const, st.integers(1, 4))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(Binary, st.sampled_from(("+", "-", "*")), inner, inner),
            st.builds(Binary, st.sampled_from(("//", "%")), inner, divisors),
            st.builds(lambda f, a, b: Call(f, (a, b)), st.sampled_from(("min", "max")), inner, inner),
            st.builds(IfElse, conditions, inner, inner),
        ),
        max_leaves=5,
    )


OPS = st.sampled_from(("<", "<=", ">", ">=", "==", "!="))
PLAIN = st.builds(
    lambda op, a, b: Compare((op,), (Name(a), b)),
    OPS,
    st.sampled_from(NAMES),
    st.one_of(st.builds(Const, st.integers(-2, 4)), st.sampled_from([Name(n) for n in NAMES])),
)
NUMBERS = numbers_of(PLAIN)
CONDITIONS = st.recursive(
    st.one_of(PLAIN, st.builds(lambda op, a, b: Compare((op,), (a, b)), OPS, NUMBERS, NUMBERS)),
    lambda inner: st.one_of(
        st.builds(lambda op, a, b: BoolOp(op, (a, b)), st.sampled_from(("and", "or")), inner, inner),
        st.builds(lambda a: Unary("not", a), inner),
        st.builds(IfElse, inner, inner, inner),
        st.builds(lambda op, a, b: Compare((op,), (a, b)), st.sampled_from(("==", "!=")), inner, inner),
    ),
    max_leaves=3,
)
POINTS = st.lists(st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(0, 12))), min_size=20, max_size=20)


@settings(max_examples=80, deadline=None)
@given(st.lists(NUMBERS, min_size=2, max_size=5), POINTS)
def test_the_form_of_equal_numbers_has_the_value(es: list[Expr], points: list[dict[str, int]]) -> None:
    numbers = alike()
    for e in es:
        p = canonical(e, {})
        form, trips = numbers.form(p), numbers.trips(p)
        for at in points:
            values = {Atom(n): v for n, v in at.items()}
            assert value_at(form, values) == evaluate(e, at)
            assert max(value_at(trips, values) or 0, 0) == max(evaluate(e, at), 0)  # type: ignore[type-var]


@settings(max_examples=80, deadline=None)
@given(NUMBERS)
def test_what_never_happens_does_not_happen(e: Expr) -> None:
    if never(canonical(e, {}), Known(LIMITS)):
        assert all(evaluate(e, dict(zip(NAMES, at, strict=True))) < 0 for at in product(range(9), repeat=3))  # type: ignore[operator]


ROWS = st.lists(st.tuples(st.tuples(*[st.integers(-4, 4)] * 3), st.integers(-6, 6)), min_size=1, max_size=6)


@given(ROWS)
def test_contradictions_have_no_solution(rows: list[tuple[tuple[int, ...], int]]) -> None:
    if contradictory((dict(enumerate(factors)), constant) for factors, constant in rows):
        for at in product(SMALL, repeat=3):
            assert not all(sum(c * x for c, x in zip(f, at, strict=True)) + k >= 0 for f, k in rows)


@settings(max_examples=150, deadline=None)
@given(CONDITIONS, POINTS)
def test_a_spelled_condition_holds_alike(e: Expr, points: list[dict[str, int]]) -> None:
    plain = spelled(e, {}, lambda p: p.integral)
    assert all(bool(evaluate(plain, at)) is bool(evaluate(e, at)) for at in points)


@settings(max_examples=60, deadline=None)
@given(st.lists(CONDITIONS, min_size=2, max_size=4), POINTS)
def test_the_first_condition_of_a_class_holds_alike(es: list[Expr], points: list[dict[str, int]]) -> None:
    classes = Classes(alike().form)
    for e in es:
        form, negated = form_of(e, {}, lambda p: p.integral)
        first, turned, said = classes.first(form, negated, e, {})
        assert all(bool(evaluate(said, at)) is bool(evaluate(e, at)) for at in points)
        assert (first, turned) == (form, negated) or form != first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("min(N, 3) == 3", "N >= 3"),
        ("max(N, m) == m", "N <= m"),
        ("N < min(M, 3)", "N < 3 and N < M"),
        ("min(64, N - M*64) < 64", "64*M + 64 > N"),
        ("N // 4 != (N - 1) // 4", "N % 4 == 0"),
        ("N // 4 == (N + 1) // 4", "N % 4 != 3"),
        ("(m + N) % 2 == 0", "m % 2 == N % 2"),
        ("(N + m) % 2 == 0", "(N + m % 2) % 2 == 0"),
        ("N % 64 > 0", "N % 64 != 0"),
        ("(N > 1) == (m > 1)", "N > 1 and m > 1 or N <= 1 and m <= 1"),
        ("N >= max(0, m - 2)", "N >= m - 2"),
    ],
)
def test_conditions_that_say_the_same_are_one_class(one: str, other: str) -> None:
    classes = Classes(alike().form)

    def first(text: str) -> tuple[object, bool]:
        e = spelled(parse(text), {}, lambda p: p.integral)
        return classes.first(*form_of(e, {}, lambda p: p.integral), e, {})[:2]

    form, negated = first(one)
    assert first(other) == (form, negated)
    assert first(f"not ({other})") == (form, not negated)
