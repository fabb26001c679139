"""Chains: what the kernels of one file must have in common."""

from __future__ import annotations

from tsgen.diagnostics import Diagnostic
from tsgen.model.expr import text
from tsgen.model.kernel import Kernel, Tensor
from tsgen.spec import rules_parts


def check_chain(kernels: list[Kernel]) -> list[Diagnostic]:
    """Findings about names, targets, shared tensors and the place of `reference`."""
    found: list[Diagnostic] = []
    names: dict[str, Kernel] = {}
    tensors: dict[str, tuple[Tensor, str]] = {}
    for kernel in kernels:
        if kernel.name in names:
            reason = f"two kernels of the chain are called `{kernel.name}`"
            found.append(rules_parts.chain(reason, kernel.span, names[kernel.name].span))
        names.setdefault(kernel.name, kernel)
        if kernel.target != kernels[0].target:
            reason = f"the chain is for `{kernels[0].target}`, this kernel for `{kernel.target}`"
            found.append(rules_parts.chain(reason, kernel.spans["target"], kernels[0].spans["target"]))
        if kernel.reference is not None and kernel is not kernels[-1]:
            reason = "`reference` of a chain stands in its last document"
            found.append(rules_parts.chain(reason, kernel.reference.span))
        for tensor in kernel.tensors.values():
            kind = f"{kernel.env.get(text(tensor.dtype), text(tensor.dtype))} of rank {len(tensor.shape)}"
            other, first = tensors.setdefault(tensor.name, (tensor, kind))
            if first != kind:
                reason = f"tensor `{tensor.name}` is {kind} here and {first} in an earlier kernel"
                found.append(rules_parts.chain(reason, tensor.span, other.span))
    return found
