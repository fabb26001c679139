"""Kernels without a reference of their own: scalar arguments, outputs that give a dim, `where`; and host checks."""

from __future__ import annotations

import pytest

from tests.gpu.conftest import Built

torch = pytest.importorskip("torch")


@pytest.mark.builds("tests/kernels/ramp.yaml")
def test_scalars_by_value(built: Built) -> None:
    base = torch.tensor([100], dtype=torch.int32, device="cuda")
    for n in (1, 2, 63, 64, 65, 1000, 100_001):
        for stride in (1, 2, 7, 100_000):
            for scalars in ({}, {"first": -3}, {"by": 5}, {"first": 990_000, "by": 11}):
                fence = torch.full((n + 128,), -77, dtype=torch.int32, device="cuda")
                y = fence[64 : 64 + n]
                assert built.host(base, stride, y, **scalars) is not None
                i = torch.arange(n, device="cuda")
                value = 100 + scalars.get("first", 0) + scalars.get("by", 1) * i
                want = torch.where((i % stride == 0) & (value < 1_000_000), value, -77)
                assert torch.equal(y.long(), want), (n, stride, scalars)
                assert (fence[:64] == -77).all() and (fence[64 + n :] == -77).all()
    with pytest.raises(ValueError, match="stride >= 1 does not hold"):
        built.host(base, 0, y)
    with pytest.raises(TypeError):
        built.host(base, 1)


@pytest.mark.builds("tests/kernels/select.yaml")
def test_where_on_elements_and_tiles(built: Built) -> None:
    for m in (1, 15, 16, 17, 100):
        for n in (8, 56, 64, 72, 200):
            for limit in (0, 1, 16, 40, 1000):
                x = torch.randn(m, n, device="cuda").half()
                y = torch.full((m, n), float("nan"), device="cuda")
                top = torch.full((m,), float("nan"), device="cuda").half()
                built.host(x, limit, y=y, top=top, scale=0.25)
                below = torch.arange(m, device="cuda") < limit
                kept = torch.where(below[:, None], x, 0)
                assert torch.equal(top, kept[:, 0]), (m, n, limit)
                want = torch.where(kept > 0, kept.float() * 0.25, float("nan"))
                assert torch.equal(y.nan_to_num(7.0), want.nan_to_num(7.0)), (m, n, limit)


@pytest.mark.builds("specs/copy_varlen.yaml")
def test_the_table_must_be_given(built: Built) -> None:
    x = torch.randn(5, device="cuda")
    offsets = torch.tensor([0, 5], dtype=torch.int32, device="cuda")
    with pytest.raises(TypeError):
        built.host(x, offsets)
    with pytest.raises(ValueError, match=r"must be \[S \+ 1\]"):
        built.host(x, offsets[:0], torch.empty(0, 8, device="cuda"))


@pytest.mark.builds("tests/kernels/mirror.yaml")
def test_bodies_see_stages_windows_and_tokens(built: Built) -> None:
    for rows in (1, 2, 3, 33, 500):
        x = torch.randn(rows, 128, device="cuda")
        y = torch.full_like(x, float("nan"))
        built.host(x, y)
        total = 0.5 + x[:, 0] + x[:, 1] + x[:, 2] + x[:, 3]
        assert torch.allclose(y, x.flip(1) + total[:, None], rtol=1e-6, atol=1e-6), rows
