"""Solving shapes, and shapes that cannot run."""

from __future__ import annotations

import pytest

from tests.unit.runtime.handmade import gemm, kernel, tensor, tma_load
from tsgen.runtime.cost import rate
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.problem import make_problem, parse_shape


def test_shapes_and_strides_follow_from_the_dims() -> None:
    p = make_problem(gemm(), {"M": 5, "N": 8, "K": 16})
    assert p.dims == {"L": 1, "M": 5, "K": 16, "N": 8}  # L is optional
    assert p.tensors["a"].shape == (1, 5, 16) and p.tensors["a"].strides == (80, 16, 1)
    assert p.tensors["bias"].shape == (8,) and p.tensors["bias"].nbytes == 16
    assert p.label == "L=1, M=5, K=16, N=8"


def test_expressions_params_scalars_and_major_dimensions() -> None:
    k = kernel(
        [
            tensor("x", "f32", "R", "parts*cols", major=0),
            tensor("offsets", "i32", "S + 1"),
            tensor("eps", "f32", default="1 / sqrt(cols)"),
            tensor("gone", "f32", "R", present=False),
        ],
        params={"parts": 2, "cols": 4},
        dims="R S",
    )
    p = make_problem(k, {"R": 3, "S": 0})
    assert p.tensors["x"].shape == (3, 8) and p.tensors["x"].strides == (1, 3)
    assert p.tensors["offsets"].shape == (1,) and p.tensors["eps"].shape == ()
    assert "gone" not in p.tensors


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"M": 5, "N": 8}, "the shape gives no K\n  = help: write --shape K=…"),
        ({"M": 5, "N": 8, "K": 8, "Q": 1}, "kernel has no dim Q\n  = help: its dims are L, M, K, N"),
        ({"M": 5, "N": 8, "K": 0}, "L=1, M=5, K=0, N=8: the spec assumes K >= 1 (line 1)"),
        (
            {"M": 5, "N": 8, "K": 7},
            "a [1, 5, 7] cannot be addressed by TMA: a stride of 7 f16 is 14 bytes, no multiple of 16",
        ),
    ],
)
def test_what_cannot_run_says_why(dims: dict[str, int], message: str) -> None:
    with pytest.raises(CannotRun) as caught:
        make_problem(gemm(), dims)
    assert str(caught.value) == message


def test_one_row_of_any_length_suits_tma_and_so_does_a_tensor_that_tma_does_not_touch() -> None:
    assert make_problem(gemm(), {"M": 1, "N": 3, "K": 7}).dims["K"] == 7


def test_a_negative_extent_is_refused() -> None:
    with pytest.raises(CannotRun, match=r"x would have the shape \[-1\]"):
        make_problem(kernel([tensor("x", "f32", "N - 2")], dims="N"), {"N": 1})


def test_shapes_as_written() -> None:
    assert parse_shape(" M=4096, N = 8,") == {"M": 4096, "N": 8}
    for bad, message in [("M", "not of the form"), ("M=-1", "not of the form"), ("M=1,M=2", "given twice")]:
        with pytest.raises(CannotRun, match=message):
            parse_shape(bad)


def test_rates() -> None:
    assert rate(make_problem(gemm(), {"L": 2, "M": 5, "N": 8, "K": 16})).of(1.0) == pytest.approx(
        2 * 2 * 5 * 8 * 16 / 1e9
    )
    copy = kernel([tensor("x", "f32", "N"), tensor("y", "f32", "N", output=True)], {"y": "x"}, dims="N")
    measured = rate(make_problem(copy, {"N": 1000}))
    assert measured.unit == "TB/s" and measured.of(1.0) == pytest.approx(8000 / 1e9)


def test_attention_counts_half_if_causal() -> None:
    qkv = [tensor(n, "bf16", "B", "S", "H", "64") for n in "qkv"]
    k = kernel([*qkv, tensor("o", "bf16", "B", "S", "H", "64", output=True)], {"o": "attention(q, k, v, 1, causal)"},
               params={"causal": True}, dims="B S H")  # fmt: skip
    assert rate(make_problem(k, {"B": 1, "S": 128, "H": 2})).of(1.0) == pytest.approx(4 * 128 * 64 * 2 * 64 / 1e9)


def test_tma_tensors_are_found_in_copies() -> None:
    k = kernel([tensor("x", "f32", "M", "N", works={"load": tma_load("x[0:+1, 0:+1]")})], dims="M N")
    with pytest.raises(CannotRun, match="a stride of 3 f32 is 12 bytes"):
        make_problem(k, {"M": 2, "N": 3})
