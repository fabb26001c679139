"""Programmatic dependent launch: which tensors wait for the kernels before."""

from __future__ import annotations

from tsgen.model.kernel import Kernel


def behind_wait(kernel: Kernel) -> frozenset[str]:
    """Tensors in memory that the graph puts behind a `pdl` resource. Scalars come by value, with the launch."""
    waits = {r.name for r in kernel.resources.values() if r.kind == "pdl"}
    return frozenset(
        e.downstream
        for e in kernel.graph
        if e.upstream in waits and e.downstream in kernel.tensors and kernel.tensors[e.downstream].shape
    )
