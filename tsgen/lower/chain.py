"""A chain: what its kernels share in one module, and the launcher and function for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tsgen.lower import host
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.interface import Host
from tsgen.lower.program import ChainLaunch, KernelCode, Statement
from tsgen.model.chain import intermediates, whole
from tsgen.model.kernel import Program


def chain_host(program: Program, builders: Sequence[Builder], kernels: Sequence[KernelCode]) -> Host:
    """The function for all kernels: the tensors of all, intermediates allocated."""
    kernel = whole(program)
    if kernel.name in {k.name for k in kernels}:
        refuse(f"a chain and a kernel that are both called `{kernel.name}`", kernel.span, "give the file another name")
    b = Builder(kernel, builders[-1].derived, builders[-1].source)
    b.constants.update({p.name: b.names.new(p.name) for p in kernel.params.values() if p.decided_by_caller})
    b.name_globals()
    for other in builders:
        b.views.update(other.views)
        for tensor, vector in other.vectors.items():
            b.vectors[tensor] = max(b.vectors.get(tensor, 1), vector)
    made = host.interface(b, _empty(kernels), intermediates(program.kernels))
    title = ", then ".join(k.name for k in kernels)
    return replace(made, title=title, summary=f"{title[0].upper()}{title[1:]}, in one call.")


def _empty(kernels: Sequence[KernelCode]) -> str | None:
    """When no kernel has anything to do, if that is one condition."""
    conditions = {k.host.empty for k in kernels}
    return conditions.pop() if len(conditions) == 1 else None


def launches(kernels: Sequence[KernelCode]) -> tuple[ChainLaunch, ...]:
    """The launches in order; those that may be empty alone are skipped then."""
    together = _empty(kernels) is not None
    return tuple(ChainLaunch(k.name, tuple(k.host.pass_args), None if together else k.host.empty) for k in kernels)


def share_functions(kernels: Sequence[KernelCode]) -> tuple[KernelCode, ...]:
    """The kernels with functions that are the same for all only in the first that calls them."""
    seen: dict[object, Statement] = {}
    for k in kernels:
        for f in k.functions:
            key = (f.template, f.values.get("name"))
            if f.note is None and (key not in seen or any(f.values.values())):
                seen[key] = f
    out = []
    for k in kernels:
        functions = [seen.pop((f.template, f.values.get("name")), None) if f.note is None else f for f in k.functions]
        out.append(replace(k, functions=tuple(f for f in functions if f is not None)))
    return tuple(out)
