"""What `tsgen check` found out about one file: the input of every output format."""

from __future__ import annotations

from tsgen.diagnostics.model import Diagnostic
from tsgen.frozen import frozen


@frozen
class ProofSummary:
    """What was proven for all variants of a file together. `seconds` is the time that the proof took."""

    complete: bool = False
    states: int = 0
    seconds: float = 0.0
    statement: str = ""  # the proof in words, where there is one


@frozen
class FileReport:
    """The findings of one file, in the order of their places. `text` is the source, empty where it is unreadable."""

    path: str
    text: str
    diagnostics: tuple[Diagnostic, ...]
    proof: ProofSummary = ProofSummary()
    readable: bool = True

    @property
    def errors(self) -> int:
        return sum(d.severity == "error" for d in self.diagnostics)

    @property
    def warnings(self) -> int:
        return len(self.diagnostics) - self.errors

    @property
    def ok(self) -> bool:
        """Whether the file has no error; warnings are allowed."""
        return self.readable and not self.errors
