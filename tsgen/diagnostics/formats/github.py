"""`github`: workflow commands that GitHub Actions shows as annotations on the lines of a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from tsgen.diagnostics.model import Diagnostic
from tsgen.diagnostics.report import FileReport
from tsgen.diagnostics.rules import RULES


def render(reports: Sequence[FileReport], color: bool) -> str:
    """One `::error` or `::warning` command for each finding, nothing for a clean file."""
    del color
    return "".join(_command(r.path, d) for r in reports for d in r.diagnostics)


def _command(path: str, d: Diagnostic) -> str:
    s = d.span
    properties = {"title": f"{d.code} {RULES[d.code].name}", "file": path, "line": str(s.line)}
    if s.end_line == s.line:  # GitHub accepts columns only within one line
        properties |= {"col": str(s.column), "endColumn": str(s.end_column)}
    else:
        properties |= {"endLine": str(s.end_line)}
    related = (f"{path}:{x.span.line}:{x.span.column}: {x.message}" for x in d.related)
    text = "\n".join([d.message, *related, *([f"help: {d.help}"] if d.help else []), *d.notes])
    return f"::{d.severity} {','.join(f'{k}={_property(v)}' for k, v in properties.items())}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
