"""RMSNorm: one rounding of the result, whatever the dtype, the scale of a row and the strides."""

from __future__ import annotations

import pytest

from tests.gpu.conftest import Built

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.builds("rmsnorm")

ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}  # half a unit in the last place, relative


@pytest.fixture(params=list(ROUNDING), ids=["bf16", "f16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


def columns(built: Built) -> int:
    env = built.build.kernel().env
    return int(env["parts"]) * int(env["cols"])


def reference(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight.double()


def check(built: Built, x: torch.Tensor, weight: torch.Tensor, eps: float, y: torch.Tensor) -> None:
    want = reference(x, weight, eps)
    error = (y.double() - want).abs()
    limit = want.abs() * (ROUNDING[x.dtype] * 1.01) + torch.finfo(x.dtype).tiny
    assert bool((error <= limit).all()), f"{(error / want.abs().clamp_min(1e-30)).max():.2e}"


def test_rounded_once(built: Built, dtype: torch.dtype) -> None:
    """Rows from 1e-3 to 1e3 in size, one row of zeros, the first and last columns far larger than the others."""
    for rows in (1, 5, 133, 1027):
        x = torch.randn(rows, columns(built), device="cuda") * torch.logspace(-3, 3, rows, device="cuda")[:, None]
        x[rows // 2] = 0
        x[:, 0], x[:, -1] = x[:, 0] * 50, x[:, -1] * 50
        x, weight = x.clamp(-6e4, 6e4).to(dtype), torch.randn(columns(built), device="cuda").to(dtype)
        check(built, x, weight, 1e-6, built.host(x, weight))
        check(built, x, weight, 0.5, built.host(x, weight, eps=0.5))


def test_every_column_counts_once(built: Built, dtype: torch.dtype) -> None:
    """One element of each row is not zero: its square must reach all CTAs of the cluster, its row alone."""
    n = columns(built)
    x = torch.zeros(64, n, device="cuda", dtype=dtype)
    at = torch.linspace(0, n - 1, 64, device="cuda").long()
    x[torch.arange(64, device="cuda"), at] = torch.arange(1, 65, device="cuda").to(dtype)
    weight = torch.ones(n, device="cuda", dtype=dtype)
    y = built.host(x, weight, eps=0.0)
    assert torch.equal(y.count_nonzero(dim=-1), torch.ones(64, device="cuda", dtype=torch.int64))  # type: ignore[attr-defined]
    check(built, x, weight, 0.0, y)  # type: ignore[arg-type]


def test_strided_rows(built: Built, dtype: torch.dtype) -> None:
    n = columns(built)
    base = torch.randn(40, n + 64, device="cuda").to(dtype)
    x, y = base[::2, 16 : n + 16], torch.full((20, n + 32), 7.0, device="cuda", dtype=dtype)
    weight = torch.randn(n, device="cuda").to(dtype)
    built.host(x, weight, y=y[:, 8 : n + 8])
    check(built, x, weight, 1e-6, y[:, 8 : n + 8])
    assert bool((y[:, :8] == 7).all() and (y[:, n + 8 :] == 7).all())


def test_no_rows(built: Built, dtype: torch.dtype) -> None:
    n = columns(built)
    y = built.host(torch.empty(0, n, device="cuda", dtype=dtype), torch.ones(n, device="cuda", dtype=dtype))
    assert y.shape == (0, n)  # type: ignore[attr-defined]


def test_refusals(built: Built, dtype: torch.dtype) -> None:
    n = columns(built)
    x, weight = torch.zeros(4, n, device="cuda", dtype=dtype), torch.ones(n, device="cuda", dtype=dtype)
    with pytest.raises(ValueError, match="x has shape"):
        built.host(x[:, : n // 2], weight)
    with pytest.raises(ValueError, match="weight is float32"):
        built.host(x, weight.float())
    with pytest.raises(ValueError, match="weight has shape"):
        built.host(x, weight[: n // 2])
