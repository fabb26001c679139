"""`tsgen check`: validates and proves specs."""

from __future__ import annotations

import sys

import click

from tsgen.cli import FINDINGS, OK, UNREADABLE
from tsgen.cli.console import use_color, write
from tsgen.cli.options import Selection, set_option, specs_argument, target_option, variants_option
from tsgen.diagnostics.formats import FORMATS, render


@click.command()
@specs_argument
@click.option("--format", "format_", type=click.Choice(FORMATS), default="full", show_default=True)
@set_option
@variants_option
@target_option
@click.option("--warn-only", is_flag=True, help="Report findings, but exit 0 unless a file cannot be read.")
def command(
    specs: tuple[str, ...],
    format_: str,
    sets: dict[str, str],
    variants: tuple[str, ...],
    target: str | None,
    warn_only: bool,
) -> int:
    """Validates specs and proves that their schedules can neither deadlock nor race.

    All variants and targets of each SPEC are checked. Warnings alone do not fail.
    """
    from tsgen.cli.analysis import analyse

    selection = Selection(sets, variants, target)
    reports = [analyse(path, selection).report for path in specs]
    write(render(format_, reports, color=use_color(sys.stdout)))
    if not all(r.readable for r in reports):
        return UNREADABLE
    return OK if warn_only or all(r.ok for r in reports) else FINDINGS
