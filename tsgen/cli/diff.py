"""`tsgen diff`: what changed in meaning between two specs."""

from __future__ import annotations

import sys

import click

from tsgen.cli import FINDINGS, OK, UNREADABLE
from tsgen.cli.console import note, use_color, write
from tsgen.cli.options import SPEC_PATH, Selection
from tsgen.diff import FORMATS


@click.command()
@click.argument("old", metavar="OLD", type=SPEC_PATH)
@click.argument("new", metavar="NEW", type=SPEC_PATH)
@click.option("--format", "format_", type=click.Choice(FORMATS), default="text", show_default=True)
def command(old: str, new: str, format_: str) -> int:
    """Compares two specs by what they mean: resources, pipelines, steps, memory, registers, proof.

    Comments, layout and names of params do not count. Exit status as of diff(1): 0 if nothing changed, 1 if
    something did, 2 if one of the two cannot be read or resolved.
    """
    from tsgen.cli.analysis import analyse
    from tsgen.diagnostics.formats.full import render_findings
    from tsgen.diff import Side, compare, render

    sides = []
    for path in (old, new):
        analysis = analyse(path, Selection({}))
        if not analysis.cases:
            note(render_findings(analysis.report, use_color(sys.stderr)).rstrip("\n"))
            return UNREADABLE
        sides.append(Side(analysis.report, {c.label: c.kernels for c in analysis.cases}))
    comparison = compare(*sides)
    write(render(comparison, format_, color=use_color(sys.stdout)))
    return OK if comparison.same else FINDINGS
