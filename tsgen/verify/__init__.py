"""Proves that a kernel's schedule can neither deadlock nor race, or says why not: `verify(kernel, derived) -> Report`."""

from __future__ import annotations

from tsgen.derive.model import Derived
from tsgen.derive.uses import uses
from tsgen.model.kernel import Kernel
from tsgen.verify.model import Proof, Report
from tsgen.verify.prove import prove

__all__ = ["Proof", "Report", "verify"]


def verify(kernel: Kernel, derived: Derived) -> Report:
    """Checks everything that can be checked without running the kernel. Findings are sorted by place."""
    facts = uses(kernel)
    found, proof = prove(kernel, derived, facts)
    return Report(tuple(found), proof)
