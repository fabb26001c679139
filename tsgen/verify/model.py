"""What verification answers."""

from __future__ import annotations

from tsgen.diagnostics import Diagnostic
from tsgen.frozen import frozen


@frozen
class Proof:
    """How much was proven. `states`: of the machine between two choices of the environment. `method` is "closure" (all
    states that can be reached were visited), "sweep" (trip counts up to a bound: not complete) or "none"."""

    complete: bool
    states: int
    seconds: float
    method: str
    statement: str  # the proof in words


@frozen
class Report:
    diagnostics: tuple[Diagnostic, ...]
    proof: Proof
