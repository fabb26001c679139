"""Proves that a kernel's schedule can neither deadlock nor race, or says why not: `verify(kernel, derived) -> Report`.

Checks of the text (roles, graph, counts, bytes, memory, warps) come first. The abstract machine then runs the schedule;
where a check of the text has found the cause of what the run would stumble over, or that no SM can hold the kernel (the
run of a thousand stages takes minutes and says nothing that helps), the run is left out.
"""

from __future__ import annotations

from tsgen.derive.model import Derived
from tsgen.derive.uses import uses
from tsgen.diagnostics import Diagnostic
from tsgen.model.kernel import Kernel
from tsgen.verify import (
    barriers,
    brackets,
    clusters,
    counts,
    divergence,
    graph,
    groups,
    instances,
    memory,
    nbytes,
    ranges,
    registers,
    roles,
    strides,
    tiles,
    warps,
)
from tsgen.verify.model import Proof, Report
from tsgen.verify.prove import prove
from tsgen.verify.same import Seen

__all__ = ["Proof", "Report", "Seen", "verify"]

_CAUSES = tuple(
    c
    for m in (roles, brackets, groups, counts, nbytes, barriers, clusters, memory, warps, divergence)
    for c in m.CAUSES
)
_OTHERS = tuple(
    c for m in (roles, graph, barriers, clusters, memory, warps, registers, tiles, strides) for c in m.CHECKS
)


def verify(kernel: Kernel, derived: Derived, seen: Seen | None = None) -> Report:
    """Checks everything that can be checked without running the kernel. Findings are sorted by place. `seen` remembers
    what was proven, so that variants whose machines are the same are run once."""
    facts = uses(kernel)
    unknown = instances.instances_known(kernel, derived, facts)
    if unknown:  # whatever else is said would be about other steps
        return Report(_sorted(unknown), Proof(False, 0, 0.0, "none", ""))
    causes = ranges.windows_inside(kernel, derived, facts)
    causes += [d for c in _CAUSES for d in c(kernel, derived, facts)]
    others = [d for c in _OTHERS for d in c(kernel, derived, facts)]
    if any(d.severity == "error" for d in causes):
        return Report(_sorted(causes + others), Proof(False, 0, 0.0, "none", ""))
    run, proof = prove(kernel, derived, facts, {} if seen is None else seen)
    return Report(_sorted(causes + others + run), proof)


def _sorted(found: list[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(found, key=lambda d: (d.span, d.code)))
