"""What a problem costs at least: floating point operations of its products, bytes of its tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tsgen.model.algebra import NotConstant, NoValue, evaluate, prune
from tsgen.model.expr import Call, Expr, Name, Ref, walk
from tsgen.runtime.problem import Problem


@dataclass(frozen=True, slots=True)
class Rate:
    """How fast a time is: TFLOP/s for kernels whose reference has a product, else TB/s of tensors read and written."""

    unit: str
    work: float  # per second of one unit: operations or bytes, times 1e-12

    def of(self, milliseconds: float) -> float:
        return self.work / milliseconds * 1e3


def rate(problem: Problem) -> Rate:
    """The unit and amount of work of a problem."""
    operations = sum(_operations(problem))
    if operations:
        return Rate("TFLOP/s", operations * 1e-12)
    return Rate("TB/s", sum(t.nbytes for t in problem.tensors.values()) * 1e-12)


def products(problem: Problem) -> Iterator[Call]:
    """The calls of matmul and attention in the reference."""
    reference = problem.kernel.reference
    for value in reference.values.values() if reference is not None else ():
        for e in walk(prune(value.expr, problem.env)):
            if isinstance(e, Call) and e.function in ("matmul", "attention"):
                yield e


def _operations(problem: Problem) -> Iterator[int]:
    for call in products(problem):
        a, b = (shape_of(x, problem) for x in call.args[:2])
        if a is None or b is None:
            continue
        if call.function == "matmul":
            batch = 1
            for n in a[:-2]:
                batch *= n
            yield 2 * batch * a[-2] * a[-1] * b[-1]
        else:  # q kᵀ and p v, half of both if causal
            pairs = a[1] * b[1] // (2 if is_causal(call, problem) else 1)
            yield 4 * a[0] * pairs * a[2] * a[3]


def is_causal(call: Call, problem: Problem) -> bool:
    """The fifth argument of `attention`."""
    try:
        return len(call.args) > 4 and bool(evaluate(call.args[4], problem.env))
    except (NotConstant, NoValue):
        return False


def shape_of(e: Expr, problem: Problem) -> tuple[int, ...] | None:
    """The shape of a tensor, a transposed tensor, or None for anything else."""
    match e:
        case Name() if e.id in problem.tensors:
            return problem.tensors[e.id].shape
        case Ref(resource=None, window=None) if e.name in problem.tensors:
            shape = problem.tensors[e.name].shape
            return (*shape[:-2], shape[-1], shape[-2]) if e.transposed else shape
        case Call(function="transpose"):
            inner = shape_of(e.args[0], problem)
            return None if inner is None else (*inner[:-2], inner[-1], inner[-2])
        case Call(function="scaled"):
            return shape_of(e.args[0], problem)
    return None
