"""A chain of kernels as its callers see it: one kernel with the tensors of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tsgen.model.algebra import evaluate, prune, substitute
from tsgen.model.expr import Const, Expr, Name, Placed, names
from tsgen.model.kernel import Kernel, Launch, Memory, Program, Tensor


def intermediates(kernels: Iterable[Kernel]) -> frozenset[str]:
    """Tensors that one kernel of a chain writes and a later one reads."""
    written: set[str] = set()
    found: set[str] = set()
    for kernel in kernels:
        present = [t for t in kernel.tensors.values() if t.present]
        found |= {t.name for t in present if not t.output} & written
        written |= {t.name for t in present if t.output}
    return frozenset(found)


def whole(program: Program) -> Kernel:
    """The program's one kernel, or a chain as a kernel without schedules: tensors, dims and assumptions of all.

    A tensor that a kernel writes is an output, unless an earlier one reads it. Params of one name may differ from
    kernel to kernel: in tensors and assumptions their values stand in their place, but for dtypes that the caller
    decides.
    """
    if len(program.kernels) == 1:
        return program.kernels[0]
    last = program.kernels[-1]
    tensors: dict[str, Tensor] = {}
    for kernel in program.kernels:
        for t in kernel.tensors.values():
            own = _tensor(kernel, t)
            have = tensors.get(t.name, own)
            tensors[t.name] = replace(have, align=max(have.align, own.align), present=have.present or own.present)
    launches = [k.launch for k in program.kernels]
    launch = Launch(
        axes=(),
        optional=tuple(dict.fromkeys(d for x in launches for d in x.optional)),
        lets=(),
        assume=tuple(
            Placed(_valued(k, p.expr), p.span)
            for k in program.kernels
            for p in k.launch.assume
            if not _names_of_tiles(k, p.expr)
        ),
        pdl=False,
        min_blocks=1,
        span=last.launch.span,
    )
    return replace(
        last,
        name=program.name,
        doc="\n".join(f"{k.name}: {k.doc.strip()}" for k in program.kernels),
        variant=program.kernels[0].variant,
        params={n: p for k in program.kernels for n, p in k.params.items()},
        tensors=tensors,
        dims=tuple(dict.fromkeys(d for k in program.kernels for d in k.dims)),
        launch=launch,
        resources={f"{k.name}.{n}": r for k in program.kernels for n, r in k.resources.items()},
        groups={},
        graph=(),
        schedules={},
        tasks=(),
        memory=Memory(),
        symbols={n: s for k in program.kernels for n, s in k.symbols.items() if s.kind in ("dim", "scalar", "tensor")},
    )


def _tensor(kernel: Kernel, t: Tensor) -> Tensor:
    decided = isinstance(t.dtype, Name) and kernel.params[t.dtype.id].decided_by_caller
    dtype = t.dtype if decided else Const(evaluate(t.dtype, kernel.env))
    default = None if t.default is None else Placed(_valued(kernel, t.default.expr), t.default.span)
    return replace(t, dtype=dtype, shape=tuple(_valued(kernel, e) for e in t.shape), default=default)


def _valued(kernel: Kernel, e: Expr) -> Expr:
    return prune(substitute(e, {n: Const(v) for n, v in kernel.env.items()}), kernel.env)


def _names_of_tiles(kernel: Kernel, e: Expr) -> bool:
    """Whether an assumption speaks of values that only the kernel knows."""
    return any(kernel.symbols[n].kind in ("axis", "let") for n in names(e) if n in kernel.symbols)
