"""`reference` evaluated by tsgen against the same mathematics written out in NumPy."""

from __future__ import annotations

import importlib.util
import math
import re
from random import Random

import numpy as np
import pytest

from tests.unit.runtime.handmade import AT
from tsgen.runtime.arrays import Arrays, NumpyArrays, TorchArrays
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.functions import FUNCTIONS, RANDOM, Value
from tsgen.runtime.reference import Evaluator
from tsgen.spec import parse
from tsgen.spec.parse import parse_expr

TORCH = pytest.param(
    lambda: TorchArrays(0, "cpu"),
    id="torch",
    marks=pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch"),
)


@pytest.fixture(params=[pytest.param(NumpyArrays, id="numpy"), TORCH])
def xp(request: pytest.FixtureRequest) -> Arrays:
    made: Arrays = request.param()
    return made


def evaluate(xp: Arrays, text: str, random: Random | None = None, **names: object) -> np.ndarray:
    """The value as a NumPy array; NumPy arguments are handed over in the library's own arrays."""
    values: dict[str, Value] = {
        k: xp.xp.asarray(v) if isinstance(v, np.ndarray) else v  # type: ignore[misc]
        for k, v in names.items()
    }
    return np.asarray(Evaluator(xp, values, random).evaluate(parse_expr(text, AT, reference=True)))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


X = normal(4, 6)
GELU = [v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in X.ravel()]

CASES = [
    ("x + 2", X + 2),
    ("2**steps * x + (2**steps - 1)", 32 * X + 31),
    ("-x", -X),
    ("x if flag else 0", X),
    ("where(0 < x < 1, x, 0)", np.where((X > 0) & (X < 1), X, 0)),
    ("where(x < 0 or x > 1, 1.0, 0.0)", ((X < 0) | (X > 1)).astype(np.float32)),
    ("where(not (x < 0), x, 0)", np.maximum(X, 0)),
    ("relu(x)", np.maximum(X, 0)),
    ("gelu(x)", np.reshape(GELU, X.shape)),
    ("activation(act, x)", np.reshape(GELU, X.shape)),
    ("activation(none, x)", X),
    ("activation(silu, x)", X / (1 + np.exp(-X))),
    ("silu(x)", X / (1 + np.exp(-X))),
    ("sigmoid(x)", 1 / (1 + np.exp(-X))),
    ("gelu_tanh(x)", X / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (X + 0.044715 * X**3)))),
    ("exp2(x) + exp(x) + log(abs(x)) + log2(abs(x))", 2**X + np.exp(X) + np.log(abs(X)) + np.log2(abs(X))),
    ("sqrt(abs(x)) + rsqrt(abs(x)) + tanh(x)", np.sqrt(abs(X)) + 1 / np.sqrt(abs(X)) + np.tanh(X)),
    ("erf(x)", np.reshape([math.erf(v) for v in X.ravel()], X.shape)),
    ("min(x, 0.5)", np.minimum(X, 0.5)),
    ("max(x, y, 0)", np.maximum(np.maximum(X, X * X), 0)),
    ("max(x)", X.max()),
    ("min(x)", X.min()),
    ("min(3, 4) + ceil_div(7, 2)", 7),
    ("rowsum(x)", X.sum(-1, keepdims=True)),
    ("x - rowmax(x)", X - X.max(-1, keepdims=True)),
    ("rows(x) * 10 + cols(x)", np.arange(4)[:, None] * 10 + np.arange(6)),
    ("transpose(x)", X.T),
    ("x.T", X.T),
    ("x[1, :]", X[1]),
    ("x[1:+2, :]", X[1:3]),
    ("reshape(x, 2, 12)", X.reshape(2, 12)),
    ("reshape(x[ids], 2, 2*6)", X[[3, 0, 0, 1]].reshape(2, 12)),
    ("repeat(ids & 1, 2)[:, None] != 0", np.array([1, 1, 0, 0, 0, 0, 1, 1], bool)[:, None]),
    ("(ids & 2) // 2 | 4", np.array([5, 4, 4, 4])),
    ("max(diff(offsets))", 4),
    ("pad_segments(reshape(x, 24), offsets, 5)[:, 0]", [X.ravel()[0], 0, X.ravel()[3]]),
    ("rmsnorm(x, w, 0.5)", X / np.sqrt((X * X).mean(-1, keepdims=True) + 0.5) * X[0]),
]


@pytest.mark.parametrize(("text", "want"), CASES, ids=[c[0] for c in CASES])
def test_expressions(xp: Arrays, text: str, want: object) -> None:
    ids, offsets = np.array([3, 0, 0, 1], np.int32), np.array([0, 3, 3, 7], np.int32)
    got = evaluate(xp, text, x=X, y=X * X, w=X[0], ids=ids, offsets=offsets, steps=5, flag=True, act="gelu")
    assert got.dtype != np.float64 or got.ndim == 0
    np.testing.assert_allclose(got, np.asarray(want), rtol=2e-6, atol=2e-6)
    assert got.shape == np.shape(want)


def test_matmul_is_float32_whatever_the_inputs(xp: Arrays) -> None:
    a, b = normal(3, 5, 64).astype(np.float16), normal(3, 7, 64).astype(np.float16)
    got = evaluate(xp, "matmul(a, transpose(b))", a=a, b=b)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, a.astype(np.float64) @ b.astype(np.float64).swapaxes(1, 2), rtol=1e-5, atol=1e-5)


def plain_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    """[S, D] for one head, in float64."""
    s = scale * q.astype(np.float64) @ k.astype(np.float64).T
    if causal:
        s[np.arange(len(k))[None, :] > np.arange(len(q))[:, None] + len(k) - len(q)] = -np.inf
    with np.errstate(all="ignore"):
        p = np.exp(s - s.max(-1, keepdims=True))
        return np.nan_to_num(p / p.sum(-1, keepdims=True)) @ v


@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_grouped_heads(xp: Arrays, causal: bool) -> None:
    q, k, v = normal(2, 9, 4, 8), normal(2, 6, 2, 8) + 1, normal(2, 6, 2, 8)
    got = evaluate(xp, "attention(q, k, v, scale, causal, None, None)", q=q, k=k, v=v, scale=0.3, causal=causal)
    for b in range(2):
        for h in range(4):
            want = plain_attention(q[b, :, h], k[b, :, h // 2], v[b, :, h // 2], 0.3, causal)
            np.testing.assert_allclose(got[b, :, h], want, rtol=1e-4, atol=1e-5)
    assert not causal or not got[:, :3].any()  # three more queries than keys: they see nothing


def test_attention_of_packed_sequences(xp: Arrays) -> None:
    q, k, v = normal(1, 10, 2, 8), normal(1, 12, 2, 8) + 1, normal(1, 12, 2, 8)
    cu_q, cu_k = np.array([0, 4, 4, 10], np.int32), np.array([0, 5, 7, 12], np.int32)
    got = evaluate(
        xp, "attention(q, k, v, 0.3, True, a, b)".replace("True", "c"), q=q, k=k, v=v, a=cu_q, b=cu_k, c=True
    )
    for i, (q0, q1, k0, k1) in enumerate(zip(cu_q, cu_q[1:], cu_k, cu_k[1:], strict=False)):
        for h in range(2):
            want = plain_attention(q[0, q0:q1, h], k[0, k0:k1, h], v[0, k0:k1, h], 0.3, True)
            np.testing.assert_allclose(got[0, q0:q1, h], want, rtol=1e-4, atol=1e-5, err_msg=f"sequence {i}")


def test_scaled_reads_blocks_of_128_by_4(xp: Arrays) -> None:
    rows, cols, vec = 160, 96, 16
    x, factors = normal(2, rows, cols), np.abs(normal(2, rows, cols // vec)) + 1
    packed = np.zeros((2, 2, 2, 512), np.float32)
    for r in range(rows):
        for c in range(cols // vec):
            packed[:, r // 128, c // 4, r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = factors[:, r, c]
    got = evaluate(xp, "scaled(x, sf, vec)", x=x, sf=packed, vec=vec)
    np.testing.assert_allclose(got, x * np.repeat(factors, vec, axis=2), rtol=1e-6)


def test_random_inputs(xp: Arrays) -> None:
    drawn = evaluate(xp, "randint(0, 4, n, 50)", Random(0), n=20)
    assert drawn.shape == (20, 50) and set(drawn.ravel()) == {0, 1, 2, 3}
    for n, total in [(1, 7), (300, 3000), (4, 0), (5, 13)]:
        offsets = evaluate(xp, "segments(n, total)", Random(3), n=n, total=total)
        lengths = np.diff(offsets)
        assert offsets[0] == 0 and offsets[-1] == total and len(lengths) == n
        assert (lengths >= 0).all() and (lengths <= 2 * math.ceil(total / n)).all()
        assert (np.diff(evaluate(xp, "segments(n, total)", Random(3), n=n, total=total)) == lengths).all()


def test_every_function_of_the_language_has_a_meaning() -> None:
    without = {"extent", "warp_rowsum", "partial_rowsum"}  # of tiles and of threads: no meaning for whole tensors
    known = set(parse.ALL_FUNCTIONS) | set(parse.REFERENCE_FUNCTIONS)
    assert set(FUNCTIONS) | set(RANDOM) == known - without


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("z + 1", "`z` in `reference` is no tensor, param or dim"),
        ("matmul(x, x)", "`matmul(x, x)` in `reference` cannot be evaluated"),
        ("x[9, :]", "cannot be evaluated"),
        ("partial_rowsum(x)", "`partial_rowsum` has no meaning in `reference`"),
        ("activation(mish, x)", "activation `mish` is unknown"),
        ("randint(0, 4, 3)", "`randint` may stand in `inputs` only"),
        ("ring.t", "only tensors can be read"),
    ],
)
def test_faults_are_words(text: str, message: str) -> None:
    with pytest.raises(CannotRun, match=re.escape(message)):
        evaluate(NumpyArrays(), text, x=X)
