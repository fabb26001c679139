"""What goes wrong in a simulated run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tsgen.diagnostics import Span
    from tsgen.simulate.warp import Warp

FaultKind = Literal["hang", "race", "unwritten", "phase", "arrivals", "bytes", "outside", "order"]

MEANING: dict[FaultKind, str] = {
    "hang": "nothing can move any more",
    "race": "two accesses overlap in time",
    "unwritten": "memory is read that holds nothing",
    "phase": "a barrier's one phase bit misleads who waits",
    "arrivals": "a barrier counts an arrival that is not its phase's",
    "bytes": "bytes arrive that the phase does not count",
    "outside": "an access lies outside its field",
    "order": "memory is touched before the grid before this one is complete",
}


class Fault(Exception):
    """A run that a GPU may not survive. `places` are steps of the spec with what is to be seen there."""

    def __init__(self, kind: FaultKind, message: str, *places: tuple[str, Span]) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.places = places
        self.warps: tuple[Warp, ...] = ()  # that it is about, for the timeline
