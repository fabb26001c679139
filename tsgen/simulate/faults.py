"""What goes wrong in a simulated run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

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


class Site(Protocol):
    """Who does something, for messages: a step of a warp, or the host. The text names the step and its line."""

    @property
    def span(self) -> Span: ...

    @property
    def warp(self) -> Warp | None: ...


class Fault(Exception):
    """A run that a GPU may not survive. `places` are steps with what is to be seen there."""

    def __init__(self, kind: FaultKind, message: str, *places: tuple[str, Site]) -> None:
        super().__init__(message)
        self.kind: FaultKind = kind
        self.message = message
        self.places = places

    @property
    def warps(self) -> list[Warp]:
        """The warps that it is about."""
        return [who.warp for _, who in self.places if who.warp is not None]
