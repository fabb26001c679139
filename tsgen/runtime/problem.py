"""One shape of a kernel: dims, checked against what the spec assumes and what TMA can address."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tsgen.model.algebra import NotConstant, NoValue, evaluate, integer
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Placed, Ref, Scalar, text
from tsgen.model.kernel import CopyArg, Kernel, Tensor, Work
from tsgen.runtime.errors import CannotRun

MAX_DIM = 2**31 - 1
TMA_ALIGN = 16  # bytes: of every stride of a TMA tensor but the contiguous one


@dataclass(frozen=True, slots=True)
class TensorShape:
    """A tensor argument of one problem. `strides` in elements, the `major` dimension contiguous."""

    tensor: Tensor
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * DTYPES[self.dtype].bits // 8


@dataclass(frozen=True, slots=True)
class Problem:
    """A kernel with its dims. `tensors` holds the present ones, in the spec's order."""

    kernel: Kernel
    dims: Mapping[str, int]
    tensors: Mapping[str, TensorShape]

    @property
    def label(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in self.dims.items())

    @property
    def size(self) -> int:
        """Elements of all tensors."""
        return sum(t.size for t in self.tensors.values())

    @property
    def env(self) -> dict[str, Scalar]:
        return {**self.kernel.env, **self.dims}


def parse_shape(written: str) -> dict[str, int]:
    """`M=4096,N=4096` as dims. Raises CannotRun."""
    dims: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in written.split(","))):
        name, equals, value = (s.strip() for s in part.partition("="))
        if not equals or not name.isidentifier() or not value.isascii() or not value.isdigit():
            raise CannotRun(f"--shape: `{part}` is not of the form DIM=SIZE", "write --shape M=4096,N=4096")
        if name in dims:
            raise CannotRun(f"--shape: {name} is given twice")
        dims[name] = int(value)
    return dims


def make_problem(kernel: Kernel, given: Mapping[str, int]) -> Problem:
    """The problem of these dims; `launch.optional` ones left out are 1. Raises CannotRun for one that cannot run."""
    unknown = [d for d in given if d not in kernel.dims]
    if unknown:
        raise CannotRun(f"{kernel.name} has no dim {', '.join(unknown)}", f"its dims are {', '.join(kernel.dims)}")
    missing = [d for d in kernel.dims if d not in given and d not in kernel.launch.optional]
    if missing:
        raise CannotRun(
            f"the shape gives no {', '.join(missing)}", f"write --shape {','.join(f'{d}=…' for d in missing)}"
        )
    dims = {d: given.get(d, 1) for d in kernel.dims}
    if long := [d for d, n in dims.items() if n > MAX_DIM]:
        raise CannotRun(f"{', '.join(long)}: a dim is a 32-bit integer, at most {MAX_DIM}")
    env: dict[str, Scalar] = {**kernel.env, **dims}
    tensors = {t.name: _shape(t, env) for t in kernel.tensors.values() if t.present}
    problem = Problem(kernel, dims, tensors)
    _check_assumptions(problem)
    for name in sorted(_tma_tensors(kernel)):
        if name in tensors:
            _check_tma(tensors[name])
    return problem


def _shape(t: Tensor, env: Mapping[str, Scalar]) -> TensorShape:
    try:
        shape = tuple(integer(e, env) for e in t.shape)
        dtype = str(evaluate(t.dtype, env))
    except (NotConstant, NoValue) as e:
        raise CannotRun(f"the shape of {t.name} has no value: {e}") from None
    if any(n < 0 for n in shape):
        raise CannotRun(f"{t.name} would have the shape {list(shape)}")
    strides, step = [0] * len(shape), 1
    major = t.major % len(shape) if shape else 0
    for i in [major, *(i for i in reversed(range(len(shape))) if i != major)][: len(shape)]:
        strides[i], step = step, step * max(shape[i], 1)
    return TensorShape(t, dtype, shape, tuple(strides))


def _check_assumptions(p: Problem) -> None:
    for assumption in p.kernel.launch.assume:
        try:
            holds = evaluate(assumption.expr, p.env)
        except (NotConstant, NoValue):  # over values that only the device knows
            continue
        if not holds:
            raise CannotRun(f"{p.label}: the spec assumes {text(assumption.expr)} (line {assumption.span.line})")


def _check_tma(t: TensorShape) -> None:
    for size, stride in zip(t.shape, t.strides, strict=True):
        nbytes = stride * DTYPES[t.dtype].bits // 8
        if stride != 1 and size > 1 and nbytes % TMA_ALIGN:
            raise CannotRun(
                f"{t.tensor.name} {list(t.shape)} cannot be addressed by TMA: a stride of {stride} {t.dtype} is "
                f"{nbytes} bytes, no multiple of {TMA_ALIGN}"
            )


def _tma_tensors(kernel: Kernel) -> set[str]:
    """The tensors that TMA reads or writes."""
    found = set()
    works = [*(r.works for r in kernel.resources.values()), *(t.works for t in kernel.tensors.values())]
    for work in (w for named in works for w in named.values() if w.op in ("tma_load", "tma_store")):
        found |= {r.name for r in _refs(work) if r.resource is None}
    return found


def _refs(work: Work) -> Iterator[Ref]:
    for arg in work.args.values():
        if isinstance(arg, tuple):
            yield from (c.source for c in arg if isinstance(c, CopyArg))
        elif isinstance(arg, Placed) and isinstance(arg.expr, Ref):
            yield arg.expr
