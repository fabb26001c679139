"""`tsgen run`: a kernel on the GPU here, against its `reference`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tsgen.model import kernel as model
from tsgen.model.expr import Placed
from tsgen.runtime.arrays import Array, Arrays, TorchArrays
from tsgen.runtime.buffers import Buffers, make_buffers
from tsgen.runtime.compare import Comparison, compare
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.functions import Value
from tsgen.runtime.launch import Kernel
from tsgen.runtime.problem import Problem, make_problem
from tsgen.runtime.reference import Evaluator
from tsgen.runtime.timing import milliseconds, watchdog

HANG_SECONDS = 60.0  # for one shape; the largest takes a few


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one shape gave. `faults` are in words: a write outside an output, a changed input, a CUDA error."""

    problem: Problem
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)  # by output
    faults: tuple[str, ...] = ()
    milliseconds: float | None = None

    @property
    def ok(self) -> bool:
        return not self.faults and all(c.ok for c in self.comparisons.values())

    def __str__(self) -> str:
        parts = [f"{name}: {c}" for name, c in self.comparisons.items()] + list(self.faults)
        time = "" if self.milliseconds is None else f", {self.milliseconds * 1e3:.1f} µs"
        return f"{'ok  ' if self.ok else 'FAIL'} {self.problem.label}: {'; '.join(parts)}{time}"


def run(
    kernel: model.Kernel,
    launch: Kernel,
    shapes: Iterable[Mapping[str, int]] | None = None,
    *,
    seed: int = 0,
    timed: bool = True,
    device: str = "cuda",
    report: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Runs the shapes (those of `reference` unless given) and reports each; stops at a CUDA error, which is final.

    Outputs are poisoned beforehand and fenced. Raises CannotRun where a shape cannot be run at all.
    """
    reference = reference_of(kernel)
    problems = [make_problem(kernel, s) for s in (reference.shapes if shapes is None else shapes)]
    outcomes = []
    for problem in problems:
        with watchdog(HANG_SECONDS, f"{kernel.name} {problem.label}"):
            outcome = run_problem(problem, launch, TorchArrays(seed, device), seed, timed)
        report(outcome)
        outcomes.append(outcome)
        if any(f.startswith("CUDA") for f in outcome.faults):
            break
    return outcomes


def reference_of(kernel: model.Kernel) -> model.Reference:
    """The kernel's reference. Raises CannotRun if it has none."""
    if kernel.reference is None:
        raise CannotRun(f"{kernel.name} has no `reference`: there is nothing to compare with")
    return kernel.reference


def run_problem(problem: Problem, launch: Kernel, xp: TorchArrays, seed: int, timed: bool) -> Outcome:
    """One shape: launch once, compare, look at the guard zones and the inputs, then time more launches."""
    buffers = make_buffers(problem, xp, seed)
    wanted = expected(problem, buffers.inputs, xp)
    if all(f.shape.size == 0 for f in buffers.outputs.values()):
        return Outcome(problem, {}, _faults(buffers, xp))
    try:
        launch(buffers.arguments)
        xp.synchronize()
    except (ValueError, TypeError) as e:  # the host function's refusals, TVM-FFI's checks
        raise CannotRun(f"{problem.label}: refused: {str(e).strip()}") from None
    except RuntimeError as e:
        return Outcome(problem, {}, (_cuda_fault(e),))
    reference = reference_of(problem.kernel)
    comparisons = {
        name: compare(
            xp, buffers.outputs[name].tensor, want, buffers.outputs[name].shape.dtype, reference.rtol, reference.atol
        )
        for name, want in wanted.items()
    }
    outcome = Outcome(problem, comparisons, _faults(buffers, xp))
    if not timed or not outcome.ok:
        return outcome
    return Outcome(problem, comparisons, (), milliseconds(lambda: launch(buffers.arguments), 3, 10))


def expected(problem: Problem, inputs: Mapping[str, Value], xp: Arrays) -> dict[str, Array]:
    """What the outputs named in `reference` must be, in float32 or int64."""
    evaluator = Evaluator(xp, {**problem.env, **inputs})
    return {name: _wanted(evaluator, name, e, problem) for name, e in reference_of(problem.kernel).values.items()}


def _wanted(evaluator: Evaluator, name: str, e: Placed, problem: Problem) -> Array:
    if name not in problem.tensors:
        raise CannotRun(f"`reference` gives a value for {name}, which is no tensor here")
    value = evaluator.evaluate(e.expr)
    if value is None or isinstance(value, str):
        raise CannotRun(f"`reference` gives {value!r} for {name}, a tensor is wanted")
    wanted = evaluator.xp.array(value)
    have, shape = tuple(wanted.shape), tuple(problem.tensors[name].shape)
    if len(have) > len(shape) or any(h not in (1, s) for h, s in zip(have[::-1], shape[::-1], strict=False)):
        raise CannotRun(f"`reference` gives {name} the shape {list(have)}, the tensor has {list(shape)}")
    return wanted


def _faults(buffers: Buffers, xp: TorchArrays) -> tuple[str, ...]:
    outside = [f"wrote outside {n}" for n, f in buffers.outputs.items() if not f.intact(xp)]
    return (*outside, *(f"changed the input {n}" for n in buffers.overwritten(xp)))


def _cuda_fault(e: RuntimeError) -> str:
    text = str(e).strip().split("\n")[0]
    return text if text.startswith("CUDA") else f"CUDA: {text}"
