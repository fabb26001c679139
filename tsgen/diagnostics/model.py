"""What a finding is: a code, a message and a place in the spec."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from tsgen.frozen import frozen, ordered

Severity = Literal["error", "warning"]


@ordered
class Span:
    """A stretch of the spec's text. Lines and columns count from 1; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    @staticmethod
    def start() -> Span:
        """The first character of a file: the place of findings about the whole document."""
        return Span(1, 1, 1, 2)


@frozen
class Related:
    """A second place that belongs to a finding, with what is to be seen there."""

    message: str
    span: Span


@frozen
class Finding:
    """What a rule's function returns; the registry adds the rule's code and severity."""

    message: str
    span: Span
    help: str | None = None
    related: tuple[Related, ...] = ()
    notes: tuple[str, ...] = field(default=())  # lines below the snippet: a timeline, arithmetic; "" parts two


@frozen
class Diagnostic:
    """A finding of a rule, ready for any output format."""

    code: str
    severity: Severity
    message: str
    span: Span
    help: str | None = None
    related: tuple[Related, ...] = ()
    notes: tuple[str, ...] = ()
