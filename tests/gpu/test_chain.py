"""Chains with programmatic dependent launch: results, intermediates, and launches that overlap."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from tests.gpu.conftest import Built
from tsgen.runtime.run import run
from tsgen.runtime.timing import watchdog

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.builds("pdl_chain")

N = (1, 2, 31, 127, 128, 129, 2047, 2048, 2049, 100_000, 1_048_576, 10_000_019)


def test_reference(built: Built, report: Callable[[str], None]) -> None:
    outcomes = run(built.build.kernel(), lambda t: built.host(**t), [{"N": n} for n in N], timed=False)
    bad = [str(o) for o in outcomes if not o.ok]
    assert not bad, "\n".join(bad[:5])
    report(f"{built.build.name}: {len(outcomes)} shapes right, guard zones intact")


def test_the_intermediate_is_allocated_or_given(built: Built) -> None:
    x, bias = torch.randn(5000, device="cuda"), torch.randn(1, device="cuda")
    t, y = torch.full_like(x, float("nan")), torch.full_like(x, float("nan"))
    assert torch.allclose(built.host(x, bias), x * x + bias)
    assert built.host(x, bias, t, y) is y
    assert torch.equal(t, x * x) and torch.allclose(y, t + bias)
    assert built.host(x[:0], bias).shape == (0,)  # type: ignore[attr-defined]


def test_a_kernel_that_starts_early_waits_for_what_it_reads(built: Built) -> None:
    """Each call overwrites the intermediate of the one before and reads its result: all four hazards, many times."""
    bias = torch.rand(1, device="cuda") * -0.1  # then x*x + bias stays within -0.1 and 1
    x = torch.rand(3_000_001, device="cuda")
    t, a, b = (torch.empty_like(x) for _ in range(3))
    want = x.clone()
    built.host(x, bias, t, a)
    for _ in range(30):
        built.host(a, bias, t, b)
        built.host(b, bias, t, a)
    for _ in range(61):
        want = want * want + bias
    assert torch.allclose(a, want, rtol=1e-4, atol=1e-5)


def test_a_thousand_launches(built: Built) -> None:
    random = Random(0)
    bias = torch.randn(1, device="cuda")
    with watchdog(60.0, built.build.name):
        for i in range(1000):
            x = torch.randn(random.choice((1, 4096, random.randrange(1, 200_000))), device="cuda")
            y = built.host(x, bias)
            if i % 50 == 0:
                assert torch.allclose(y, x * x + bias)
        torch.cuda.synchronize()
