"""What the simulator computes is what the GPU computes: the same inputs through both, element by element."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.gpu.conftest import Built
from tests.support.small_shapes import SMALL_SHAPES
from tsgen.derive import derive
from tsgen.model.chain import whole
from tsgen.runtime.arrays import NumpyArrays, TorchArrays
from tsgen.runtime.problem import make_problem, parse_shape
from tsgen.simulate.run import inputs, simulate

torch = pytest.importorskip("torch")


def test_the_simulator_agrees(built: Built, report: Callable[[str], None]) -> None:
    program = built.build.program()
    kernel = whole(program)
    if kernel.reference is None or program.name not in SMALL_SHAPES:
        pytest.skip("a kernel without a reference")
    xp = TorchArrays()
    kernels = tuple((k, derive(k)) for k in program.kernels)
    worst = 0.0
    for seed, shape in enumerate(SMALL_SHAPES[program.name]):
        problem = make_problem(kernel, parse_shape(shape))
        outcome = simulate(program, kernels, problem.dims, seed)
        assert outcome.ok, str(outcome)
        given: dict[str, object] = {}
        for name, value in inputs(problem, NumpyArrays(seed), seed).items():
            t = problem.tensors.get(name)
            if t is None or not t.shape:
                given[name] = value
            else:
                given[name] = torch.empty(t.shape, dtype=xp.dtype(t.dtype), device="cuda").copy_(torch.tensor(value))
        for name in outcome.outputs:
            t = problem.tensors[name]
            given[name] = torch.full(t.shape, -77, dtype=xp.dtype(t.dtype), device="cuda")
        built.host(**{name: given[name] for name in kernel.tensors})
        torch.cuda.synchronize()
        for name in kernel.reference.values:
            simulated = torch.tensor(outcome.outputs[name])
            got = given[name].cpu().to(simulated.dtype)
            allowed = (kernel.reference.atol or 0) + (kernel.reference.rtol or 0) * simulated.abs()
            off = (got - simulated).abs()
            assert bool(((off <= allowed) | (got.isnan() & simulated.isnan())).all()), (name, shape)
            worst = max(worst, float(off.max()))
    report(f"{built.build.name}: simulator and GPU differ by at most {worst:.3g}")
