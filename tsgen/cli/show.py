"""`tsgen show`: views of one kernel."""

from __future__ import annotations

import sys

import click

from tsgen.cli import FINDINGS, OK, UNREADABLE
from tsgen.cli.console import note, use_color, write
from tsgen.cli.options import one, set_option, spec_argument, target_option, variant_option
from tsgen.show import VIEWS

_FORMATS = tuple(dict.fromkeys(f for view in VIEWS.values() for f in view.formats))


@click.command()
@spec_argument
@click.argument("view", type=click.Choice(tuple(VIEWS)), default="schedule")
@click.option("--format", "format_", type=click.Choice(_FORMATS), default="text", show_default=True)
@click.option("--kernel", "name", metavar="NAME", help="Only this kernel of a chain.")
@set_option
@variant_option
@target_option
def command(
    spec: str,
    view: str,
    format_: str,
    name: str | None,
    sets: dict[str, str],
    variant: str | None,
    target: str | None,
) -> int:
    """Shows a kernel: its schedule, resource graph, memory map, register budget or a run of its schedule.

    The default variant is shown unless --variant names another. As text, all kernels of a chain are shown.
    """
    if format_ not in VIEWS[view].formats:
        raise click.UsageError(f"{view} cannot be shown as {format_}; it can as {', '.join(VIEWS[view].formats)}.")
    from tsgen.cli.analysis import analyse
    from tsgen.diagnostics.formats.full import render_findings

    analysis = analyse(spec, one(sets, variant, target), prove=False)
    report = analysis.report
    if report.diagnostics:
        note(render_findings(report, use_color(sys.stderr)).rstrip("\n"))
    if not analysis.cases:
        return FINDINGS if report.readable else UNREADABLE
    kernels = [(k, d) for k, d in analysis.cases[0].kernels if name in (None, k.name)]
    known = ", ".join(k.name for k, _ in analysis.cases[0].kernels)
    if not kernels:
        raise click.UsageError(f"--kernel: {spec} has no kernel {name!r}; it has {known}.")
    if format_ != "text" and len(kernels) > 1:
        raise click.UsageError(f"{spec} is a chain: choose one of its kernels for {format_} with --kernel ({known}).")
    write("\n".join(VIEWS[view].render(kernel, derived, format_) for kernel, derived in kernels))
    return OK
