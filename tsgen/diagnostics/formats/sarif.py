"""`sarif`: SARIF 2.1.0, for code scanning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from urllib.parse import quote

from tsgen import __version__
from tsgen.diagnostics.jsontext import Json, dumps
from tsgen.diagnostics.model import Diagnostic, Span
from tsgen.diagnostics.report import FileReport
from tsgen.diagnostics.rules import RULES

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(reports: Sequence[FileReport], color: bool) -> str:
    """One run; its rules are those that found something."""
    del color
    codes = sorted({d.code for r in reports for d in r.diagnostics})
    driver: Json = {"name": "tsgen", "version": __version__, "rules": [_rule(c) for c in codes]}
    run: Json = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "artifacts": [{"location": {"uri": _uri(r.path)}} for r in reports],
        "results": [_result(codes, i, r.path, d) for i, r in enumerate(reports) for d in r.diagnostics],
    }
    return dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(code: str) -> Json:
    rule = RULES[code]
    return {
        "id": code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.doc},
        "help": {"text": rule.doc},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(codes: Sequence[str], artifact: int, path: str, d: Diagnostic) -> Json:
    text = "\n".join([d.message, *([f"help: {d.help}"] if d.help else []), *d.notes])
    result: dict[str, Json] = {
        "ruleId": d.code,
        "ruleIndex": codes.index(d.code),
        "level": d.severity,
        "message": {"text": text},
        "locations": [_location(artifact, path, d.span)],
    }
    if d.related:
        result["relatedLocations"] = [
            {"id": i, **_location(artifact, path, x.span), "message": {"text": x.message}}
            for i, x in enumerate(d.related, 1)
        ]
    return result


def _location(artifact: int, path: str, s: Span) -> dict[str, Json]:
    region: Json = {
        "startLine": s.line,
        "startColumn": s.column,
        "endLine": s.end_line,
        "endColumn": s.end_column,
    }
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path), "index": artifact}, "region": region}}


def _uri(path: str) -> str:
    """The path as a URI reference, relative where the path is."""
    p = PurePath(path)
    return p.as_uri() if p.is_absolute() else quote(p.as_posix())
