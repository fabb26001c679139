"""`tsgen rules`: the list of all rules."""

from __future__ import annotations

import click

from tsgen.cli.console import write
from tsgen.diagnostics.jsontext import dumps


@click.command()
@click.option("--format", "format_", type=click.Choice(["text", "markdown", "json"]), default="text", show_default=True)
def command(format_: str) -> None:
    """Lists every rule that `check` and `build` apply; `tsgen explain CODE` says more about one."""
    from tsgen.cli.catalogue import all_rules, rules_markdown

    rules = all_rules()
    if format_ == "json":
        write(dumps([{"code": r.code, "name": r.name, "severity": r.severity, "summary": r.summary} for r in rules]))
    elif format_ == "markdown":
        write(rules_markdown(rules))
    else:
        width = max(len(r.name) for r in rules)
        write("".join(f"{r.code}  {r.name:<{width}}  {r.severity:<7}  {r.summary}\n" for r in rules))
