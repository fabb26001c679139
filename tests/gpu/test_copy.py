"""Copies, bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from tests.gpu.conftest import Built
from tsgen.runtime.run import run

torch = pytest.importorskip("torch")
SHAPES = {
    "copy": [{"N": n} for n in (1, 2, 31, 32, 33, 127, 128, 129, 511, 1000, 4096, 65537, 1048576, 10_000_019)],
    "copy_tma": [
        {"M": m, "N": n} for m, n in product((1, 7, 63, 64, 65, 128, 1000), (8, 56, 64, 72, 128, 136, 1000, 1992, 4096))
    ],
}


@pytest.mark.builds("specs/copy.yaml", "specs/copy_tma.yaml")
def test_reference(built: Built, report: Callable[[str], None]) -> None:
    shapes = SHAPES[built.build.name]
    outcomes = run(built.build.kernel(), lambda t: built.host(**t), shapes, timed=False)
    bad = [str(o) for o in outcomes if not o.ok]
    assert not bad, "\n".join(bad[:5])
    report(f"{built.build.name}: {len(outcomes)} shapes equal, guard zones intact")


@pytest.mark.builds("specs/copy.yaml", "specs/copy_tma.yaml")
def test_every_bit_pattern(built: Built) -> None:
    """NaN payloads, infinities, denormals and signed zeros pass through."""
    kernel = built.build.kernel()
    dims = (1 << 20,) if len(kernel.tensors["x"].shape) == 1 else (1 << 10, 1 << 10)
    dtype = torch.float32 if kernel.env["io"] == "f32" else torch.float16
    bits = torch.randint(0, 256, (*dims[:-1], dims[-1] * dtype.itemsize), dtype=torch.uint8, device="cuda")
    x = bits.view(dtype)
    y = built.host(x)
    assert torch.equal(y.view(torch.uint8), bits)


@pytest.mark.builds("specs/copy.yaml", "specs/copy_tma.yaml")
def test_empty(built: Built) -> None:
    dims = (0,) if len(built.build.kernel().tensors["x"].shape) == 1 else (0, 64)
    dtype = torch.float32 if built.build.kernel().env["io"] == "f32" else torch.float16
    assert built.host(torch.empty(dims, dtype=dtype, device="cuda")).shape == dims  # type: ignore[attr-defined]
    torch.cuda.synchronize()


@pytest.mark.builds("copy_tma")
def test_rows_that_tma_cannot_address_are_refused(built: Built) -> None:
    x, y = (
        torch.zeros(16, 63, dtype=torch.float16, device="cuda"),
        torch.ones(16, 63, dtype=torch.float16, device="cuda"),
    )
    with pytest.raises(ValueError, match="x"):
        built.host(x, y)
    torch.cuda.synchronize()
    assert (y == 1).all()


@pytest.mark.builds("copy_tma")
def test_strided_views(built: Built) -> None:
    base = torch.randn(300, 512, device="cuda").half()
    x, y = base[::2, 64:164], torch.full((150, 256), 7.0, device="cuda").half()
    built.host(x, y[:, 8:108])
    assert torch.equal(y[:, 8:108], x) and (y[:, :8] == 7).all() and (y[:, 108:] == 7).all()
