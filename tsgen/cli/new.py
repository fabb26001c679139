"""`tsgen new`: a spec to start from."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tsgen.cli import OK, UNREADABLE
from tsgen.cli.console import note, use_color, write
from tsgen.cli.options import SPEC_PATH

if TYPE_CHECKING:
    from tsgen.diagnostics import Span

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@click.command()
@click.argument("name", metavar="NAME")
@click.option("--from", "source", metavar="SPEC", type=SPEC_PATH, required=True)
def command(name: str, source: str) -> int:
    """Copies SPEC to a kernel of another NAME, as a file of that name beside it.

    Comments and layout stay. An existing file is never overwritten. In a chain of several kernels, which is named
    after its file, the kernels keep their names.
    """
    if not _NAME.fullmatch(name):
        raise click.UsageError(f"{name!r} is no kernel name: letters, digits and _ only, no digit first.")
    from tsgen.diagnostics.formats.full import render_findings
    from tsgen.diagnostics.report import FileReport
    from tsgen.spec import load_document
    from tsgen.spec.node import ScalarNode

    document = load_document(Path(source))
    if not document.readable:
        report = FileReport(source, document.text, document.diagnostics, readable=False)
        note(render_findings(report, use_color(sys.stderr)).rstrip("\n"))
        return UNREADABLE
    text = document.text
    kernel = document.roots[0].get("kernel") if len(document.roots) == 1 else None
    if isinstance(kernel, ScalarNode):
        text = _replaced(text, kernel.span, name)
    target = Path(source).with_name(name + Path(source).suffix)
    try:
        with open(target, "x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"{target} exists already; nothing was written.") from None
    except OSError as e:
        raise click.FileError(str(target), e.strerror or str(e)) from None
    write(f"{target}: written\n")
    return OK


def _replaced(text: str, span: Span, new: str) -> str:
    """The text with what stands at a span (within one line) replaced."""
    from tsgen.diagnostics.formats.snippet import line_starts

    start = line_starts(text)[span.line - 1]
    return text[: start + span.column - 1] + new + text[start + span.end_column - 1 :]
