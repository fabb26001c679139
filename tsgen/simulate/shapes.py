"""The shapes that are simulated unless some are given: those of `reference`, made small enough for a CPU."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.model.kernel import Kernel
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.problem import Problem, make_problem
from tsgen.runtime.run import reference_of

ELEMENTS = 2**20  # of all tensors together
STEP = 8  # halves are rounded up to multiples: TMA wants strides of 16 bytes


def small_shapes(kernel: Kernel) -> list[dict[str, int]]:
    """The shapes of `reference`, each with its largest dims halved until it is small. Raises CannotRun without any."""
    found: list[dict[str, int]] = []
    for shape in reference_of(kernel).shapes:
        small = _smaller(kernel, dict(shape))
        if small is not None and small not in found:
            found.append(small)
    if not found:
        raise CannotRun("no shape of `reference` can be made small enough to simulate", "give one: --shape M=…,N=…")
    return found


def _smaller(kernel: Kernel, dims: dict[str, int]) -> dict[str, int] | None:
    while True:
        problem = _problem(kernel, dims)
        if problem is not None and problem.size <= ELEMENTS:
            return dims
        largest = max(dims, key=lambda d: dims[d], default=None)
        if largest is None or dims[largest] <= STEP:
            return None
        half = -(-dims[largest] // 2)
        dims = {**dims, largest: half if half < STEP else -(-half // STEP) * STEP}


def _problem(kernel: Kernel, dims: Mapping[str, int]) -> Problem | None:
    try:
        return make_problem(kernel, dims)
    except CannotRun:
        return None
