"""`json`: the contract for tools, whose keys are fixed. Lines and columns count from 1, ends are exclusive."""

from __future__ import annotations

from collections.abc import Sequence

from tsgen.diagnostics.jsontext import Json, dumps
from tsgen.diagnostics.model import Diagnostic
from tsgen.diagnostics.report import FileReport


def render(reports: Sequence[FileReport], color: bool) -> str:
    """One document with a record for each file."""
    del color
    return dumps({"files": [_file(r) for r in reports]})


def _file(r: FileReport) -> Json:
    return {
        "path": r.path,
        "ok": r.ok,
        "diagnostics": [_diagnostic(d) for d in r.diagnostics],
        "proof": {"complete": r.proof.complete, "states": r.proof.states, "seconds": round(r.proof.seconds, 6)},
    }


def _diagnostic(d: Diagnostic) -> Json:
    return {
        "code": d.code,
        "severity": d.severity,
        "message": d.message,
        "line": d.span.line,
        "column": d.span.column,
        "end_line": d.span.end_line,
        "end_column": d.span.end_column,
        "help": d.help,
        "related": [{"message": x.message, "line": x.span.line, "column": x.span.column} for x in d.related],
    }
