"""`full`: each finding with its source lines, both ends of a conflict, the help and the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tsgen.diagnostics.formats.snippet import Mark, gutter_width, snippet, split_lines
from tsgen.diagnostics.formats.style import Painter, printable
from tsgen.diagnostics.model import Diagnostic
from tsgen.diagnostics.report import FileReport


def render(reports: Sequence[FileReport], color: bool) -> str:
    """All findings, and one closing line for each file."""
    paint = Painter(color)
    out: list[str] = []
    for r in reports:
        lines = split_lines(r.text)
        for d in r.diagnostics:
            out += [*_finding(d, r, lines, paint), ""]
        out.append(_closing(r, paint))
    return "\n".join(out) + "\n" if out else ""


def render_findings(report: FileReport, color: bool) -> str:
    """The findings alone, for commands that go on to do something else."""
    paint = Painter(color)
    lines = split_lines(report.text)
    return "".join(f"{line}\n" for d in report.diagnostics for line in [*_finding(d, report, lines, paint), ""])


def _finding(d: Diagnostic, r: FileReport, lines: list[str], paint: Painter) -> Iterator[str]:
    message, *more = printable(d.message).split("\n")
    yield f"{paint(d.severity, f'{d.severity}[{d.code}]')}{paint('strong', f': {message}')}"
    yield from more
    marks = [Mark(d.span, "", True), *(Mark(x.span, x.message, False) for x in d.related)]
    gutter = gutter_width(lines, marks)
    yield f"{'':{gutter}}{paint('frame', '-->')} {printable(r.path)}:{d.span.line}:{d.span.column}"
    if r.text:
        yield from snippet(lines, marks, paint, d.severity)
    tail = [("help", d.help)] if d.help else []
    tail += [
        ("note", text) for text in "\n".join(d.notes).strip("\n").split("\n\n") if text
    ]  # an empty line parts two notes
    if tail and r.text:
        yield f"{'':{gutter}} {paint('frame', '|')}"
    for kind, text in tail:
        first, *rest = printable(text).split("\n")
        yield f"{'':{gutter}} {paint('frame', '=')} {paint('strong', kind)}: {first}"
        yield from (f"{'':{gutter}}   {'':{len(kind)}}  {line}".rstrip() for line in rest)


def _closing(r: FileReport, paint: Painter) -> str:
    path = printable(r.path)
    if r.diagnostics:
        counts = [counted(n, word) for n, word in ((r.errors, "error"), (r.warnings, "warning")) if n]
        verdict = paint("error" if r.errors else "warning", " and ".join(counts))
        explain = "" if not r.errors else f"; `tsgen explain {_first_error(r)}` says more"
        return f"{path}: {verdict}{explain}"
    return f"{path}: {paint('note', 'ok')}, {proof_line(r)}"


def proof_line(r: FileReport) -> str:
    """The proof of a file in one line."""
    p = r.proof
    kind = "proven" if p.complete else "not proven completely"
    cost = f"{counted(p.states, 'state')} in {p.seconds * 1000:.0f} ms"
    return f"{kind} ({cost})" + (f": {p.statement}" if p.statement else "")


def _first_error(r: FileReport) -> str:
    return next(d.code for d in r.diagnostics if d.severity == "error")


def counted(n: int, word: str) -> str:
    """`1 error`, `2 errors`."""
    return f"{n} {word}" + ("s" if n != 1 else "")
