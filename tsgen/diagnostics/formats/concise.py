"""`concise`: one line for each finding, for editors and grep."""

from __future__ import annotations

from collections.abc import Sequence

from tsgen.diagnostics.formats.style import Painter, printable
from tsgen.diagnostics.report import FileReport


def render(reports: Sequence[FileReport], color: bool) -> str:
    """`path:line:column: severity[code] message`, nothing for a clean file."""
    paint = Painter(color)
    return "".join(
        f"{paint('strong', f'{printable(r.path)}:{d.span.line}:{d.span.column}:')} "
        f"{paint(d.severity, f'{d.severity}[{d.code}]')} {' '.join(printable(d.message).split())}\n"
        for r in reports
        for d in r.diagnostics
    )
