"""The exception that carries a diagnostic out of a parser."""

from __future__ import annotations

from tsgen.diagnostics import Diagnostic


class SpecError(Exception):
    """Reading a part of a spec stopped at this finding."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic
