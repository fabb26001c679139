"""The GEMM: numbers on fresh data over all edges of tiles, and what a caller may rely on."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import product

import pytest

from tests.gpu.builds import GEMM
from tests.gpu.conftest import Built
from tests.gpu.problems import Gemm, call, gemm, relative
from tsgen.runtime.timing import watchdog

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.builds(GEMM)

M = (1, 7, 64, 127, 128, 129, 1000, 4096)
NK = (8, 64, 120, 128, 136, 1000, 4096)
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}


@pytest.fixture(params=list(DTYPES))
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return DTYPES[request.param]


@pytest.fixture(autouse=True)
def seed() -> int:
    """Fresh data each time; a failure shows the seed."""
    value = int.from_bytes(os.urandom(4))
    torch.manual_seed(value)
    print("seed", value)
    return value


def test_every_shape(built: Built, dtype: torch.dtype, report: Callable[[str], None]) -> None:
    """All combinations, the smallest first: one K tile and less, ragged edges, batch 1 and 3."""
    shapes = sorted(product(M, NK, NK, (1, 3)), key=lambda s: s[0] * s[1] * s[2] * s[3])
    bad, worst, at = [], 0.0, shapes[0]
    for m, n, k, batch in shapes:
        label = f"M={m} N={n} K={k} L={batch}"
        p = gemm(built, dtype, m, n, k, batch)
        with watchdog(20.0, f"{built.build.name} {dtype} {label}"):
            call(built, p)
            fault = p.fault()
        if fault is not None:
            bad.append(f"{label}: {fault}")
        elif (error := p.error()[0]) > worst:
            worst, at = error, (m, n, k, batch)
    name = f"{built.build.name} {str(dtype).removeprefix('torch.')}"
    assert not bad, f"{name}: {len(bad)} of {len(shapes)} shapes wrong, e.g.\n" + "\n".join(bad[:8])
    report(f"{name}: {len(shapes)} shapes, worst relative error {worst:.2e} at M, N, K, L = {at}")


def test_large(built: Built, dtype: torch.dtype, report: Callable[[str], None]) -> None:
    """More tiles than multiprocessors, in both directions of the band, and a last band that is narrower."""
    for m, n, k in [(8192, 8192, 512), (512, 16384, 1024), (16384, 520, 1024), (3000, 5000, 7000)]:
        p = gemm(built, dtype, m, n, k)
        call(built, p)
        assert p.fault() is None, (m, n, k, p.fault())


def test_the_output_may_be_left_out_and_the_batch_too(built: Built, dtype: torch.dtype) -> None:
    for batch in (None, 1, 3):
        p = gemm(built, dtype, 200, 328, 72, batch)
        d = built.host(p.a, p.b, **({} if p.bias is None else {"bias": p.bias}))
        assert d.shape == p.d.shape and d.dtype == dtype and d.is_cuda  # type: ignore[attr-defined]
        p.d.copy_(d)
        assert p.fault() is None
        assert built.host(p.a, p.b, bias=p.bias, d=p.d) is not None


def test_strided_views_and_a_permuted_batch(built: Built, dtype: torch.dtype) -> None:
    whole = torch.full((300, 512), 7.0, device="cuda", dtype=dtype)
    p = gemm(built, dtype, 150, 152, 100)
    a = torch.randn(300, 512, device="cuda").to(dtype)[::2, 64:164]
    b = torch.randn(200, 256, device="cuda").to(dtype)[:152, :100]
    d = whole[:150, 8:160]
    built.host(a, b, bias=p.bias, d=d)
    assert relative(d.float(), Gemm(a, b, p.bias, p.act, p.fence).reference()) < 1e-2
    assert (whole[:, :8] == 7).all() and (whole[:, 160:] == 7).all() and (whole[150:] == 7).all()
    a = torch.randn(2, 5, 64, device="cuda").to(dtype).transpose(0, 1)
    b = torch.randn(5, 16, 64, device="cuda").to(dtype)
    d = torch.empty(5, 2, 24, device="cuda", dtype=dtype)[..., :16]
    bias = None if p.bias is None else p.bias[:16]
    built.host(a, b, bias=bias, d=d)
    assert relative(d.float(), Gemm(a, b, bias, p.act, p.fence).reference()) < 1e-2


def test_nothing_to_do(built: Built, dtype: torch.dtype) -> None:
    p = gemm(built, dtype, 8, 8, 64)
    for lead, m in (((), 0), ((0,), 8), ((3,), 0)):
        d = built.host(p.a.new_empty(*lead, m, 64), p.a.new_empty(*lead, 8, 64), bias=p.bias)
        assert d.shape == (*lead, m, 8)  # type: ignore[attr-defined]
    torch.cuda.synchronize()


def test_repeated_launches_give_equal_bits(built: Built, dtype: torch.dtype) -> None:
    p = gemm(built, dtype, 1000, 4096, 1000)
    call(built, p)
    first = p.d.clone()
    for _ in range(30):
        p.d.fill_(float("nan"))
        call(built, p)
        assert torch.equal(p.d, first)


def test_back_to_back_launches_see_each_others_results(built: Built, dtype: torch.dtype) -> None:
    """Programmatic launches overlap their prologues: the second reads what the first writes."""
    first = gemm(built, dtype, 1024, 2048, 512)
    chain = [gemm(built, dtype, 1024, 2048, 2048) for _ in range(6)]
    torch.cuda.synchronize()
    call(built, first)
    before = first
    for p in chain:
        p.a = before.d
        call(built, p)
        before = p
    assert first.fault() is None
    assert all(p.fault() is None for p in chain)


def test_the_current_stream(built: Built, dtype: torch.dtype) -> None:
    p = gemm(built, dtype, 256, 256, 256)
    late, stream = torch.randn_like(p.a), torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        p.a.copy_(late)
        call(built, p)
    stream.synchronize()
    assert p.fault() is None


class Dlpack:
    """Something that is no torch tensor."""

    def __init__(self, t: torch.Tensor) -> None:
        self.t = t

    def __dlpack__(self, **options: object) -> object:
        return self.t.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.t.__dlpack_device__()


def test_anything_with_dlpack(built: Built, dtype: torch.dtype) -> None:
    p = gemm(built, dtype, 40, 72, 136)
    bias = None if p.bias is None else Dlpack(p.bias)
    built.host(Dlpack(p.a), Dlpack(p.b), bias=bias, d=Dlpack(p.d))
    torch.cuda.synchronize()
    assert p.fault() is None


def test_refusals(built: Built, dtype: torch.dtype, report: Callable[[str], None]) -> None:
    """Each says what is wrong, before anything is launched: the output stays as it is."""
    has_bias = bool(built.build.kernel().env["has_bias"])

    def r(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda").to(dtype)

    bias = r(8) if has_bias else None
    other = torch.float16 if dtype == torch.bfloat16 else torch.bfloat16
    cases: dict[str, tuple[object, ...]] = {
        "float32": (r(8, 8).float(), r(8, 8).float(), bias),
        "another dtype for b": (r(8, 8), r(8, 8).to(other), bias),
        "on the CPU": (r(8, 8).cpu(), r(8, 8), bias),
        "b on the CPU": (r(8, 8), r(8, 8).cpu(), bias),
        "no tensor": ([[1.0]], r(8, 8), bias),
        "K differs": (r(8, 8), r(8, 16), bias),
        "rank differs": (r(8, 8), r(3, 8, 8), bias),
        "rank 1": (r(8), r(8), bias),
        "rank 4": (r(1, 1, 8, 8), r(1, 1, 8, 8), bias),
        "batch differs": (r(2, 8, 8), r(3, 8, 8), bias),
        "bias where there is none, or none where there is": (r(8, 8), r(8, 8), None if has_bias else r(8)),
        "rows of 14 bytes": (r(8, 7), r(8, 7), bias),
        "N = 7": (r(8, 8), r(7, 8), r(7) if has_bias else None),
        "wrong shape of d": (r(8, 8), r(8, 8), bias, r(8, 16)),
        "wrong dtype of d": (r(8, 8), r(8, 8), bias, r(8, 8).float()),
        "base not aligned": (r(8, 24)[:, 1:9], r(8, 8), bias),
        "stride not a multiple of 8": (r(8 * 12).as_strided((8, 8), (12, 1)), r(8, 8), bias),
        "transposed a": (r(8, 16).t(), r(8, 8), bias),
        "d not contiguous in its last dimension": (r(8, 8), r(8, 8), bias, r(8, 8).t()),
        "K = 0": (r(8, 0), r(8, 0), bias),
    }
    accepted, messages = [], []
    for name, arguments in cases.items():
        d = arguments[3] if len(arguments) > 3 else torch.full((8, 8), 7.0, device="cuda", dtype=dtype)
        if name == "N = 7":
            d = torch.full((8, 7), 7.0, device="cuda", dtype=dtype)
        kept = d.clone()  # type: ignore[attr-defined]
        try:
            built.host(*arguments[:2], bias=arguments[2], d=d)
            accepted.append(name)
        except (ValueError, TypeError) as e:
            messages.append(f"    {name}: {e}")
        torch.cuda.synchronize()
        if not torch.equal(kept, d):
            accepted.append(f"{name} (written)")
    assert not accepted, f"not refused: {accepted}"
    if dtype == torch.float16 and built.build.name == "gemm_f16":
        report("refusals:\n" + "\n".join(messages))
