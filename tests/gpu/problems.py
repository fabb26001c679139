"""GEMM problems for the GPU tests: fresh random data, a float32 reference in PyTorch, poisoned and fenced outputs."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.gpu.conftest import Built

torch = pytest.importorskip("torch")

GUARD = 4096  # elements before and behind the output
LIMIT = {torch.float16: 1e-3, torch.bfloat16: 8e-3}  # relative error against float32
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.nn.functional.relu,
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}


@dataclass
class Gemm:
    """act(a bᵀ + bias) for one shape. `fence` is the output with its guard zones, all NaN at first."""

    a: torch.Tensor
    b: torch.Tensor
    bias: torch.Tensor | None
    act: str
    fence: torch.Tensor

    @property
    def d(self) -> torch.Tensor:
        shape = (*self.a.shape[:-1], self.b.shape[-2])
        return self.fence[GUARD : len(self.fence) - GUARD].view(shape)

    def reference(self) -> torch.Tensor:
        product = torch.matmul(self.a.float(), self.b.float().transpose(-1, -2))
        return ACTIVATIONS[self.act](product if self.bias is None else product + self.bias.float())

    def fault(self) -> str | None:
        """What is wrong with the output, if anything."""
        want, got = self.reference(), self.d.float()
        if not bool(self.fence[:GUARD].isnan().all() & self.fence[len(self.fence) - GUARD :].isnan().all()):
            return "wrote outside the output"
        if bool(got.isnan().any()):
            return f"{int(got.isnan().sum())} elements are NaN"
        error = relative(got, want)
        return None if error < LIMIT[self.a.dtype] else f"relative error {error:.2e}"

    def error(self) -> tuple[float, float]:
        """Relative and maximal absolute error."""
        want, got = self.reference(), self.d.float()
        return relative(got, want), float((got - want).abs().max())


def relative(got: torch.Tensor, want: torch.Tensor) -> float:
    """The larger of the ratios of the 2-norms and of the maxima."""
    e = (got - want).abs()
    norm = torch.stack([e.norm() / want.norm(), e.max() / want.abs().max()]).max()
    return float(norm)


def gemm(built: Built, dtype: torch.dtype, m: int, n: int, k: int, batch: int | None = None) -> Gemm:
    """A problem for a build; `batch` None leaves the dimension out. b is scaled so that results are of size 1."""
    env = built.build.kernel().env
    lead = () if batch is None else (batch,)
    a = torch.randn(*lead, m, k, device="cuda").to(dtype)
    b = (torch.randn(*lead, n, k, device="cuda") * k**-0.5).to(dtype)
    bias = torch.randn(n, device="cuda").to(dtype) if env["has_bias"] else None
    fence = torch.full(((batch or 1) * m * n + 2 * GUARD,), float("nan"), dtype=dtype, device="cuda")
    return Gemm(a, b, bias, str(env["act"]), fence)


def call(built: Built, p: Gemm) -> None:
    """The module's own function, all arguments given."""
    built.host(p.a, p.b, bias=p.bias, d=p.d)
