"""`tsgen explain`: what a rule is about, why it matters, and how to mend what it found."""

from __future__ import annotations

import click

from tsgen.cli.console import write


@click.command()
@click.argument("code", metavar="CODE")
def command(code: str) -> None:
    """Explains a rule, given its CODE (TS301) or its name."""
    from tsgen.cli.catalogue import all_rules

    rules = all_rules()
    wanted = code.strip().lower()
    found = next((r for r in rules if wanted in (r.code.lower(), r.name)), None)
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(wanted, [x for r in rules for x in (r.code.lower(), r.name)], 1)
        hint = f" Did you mean {near[0].upper() if near[0].startswith('ts') else near[0]}?" if near else ""
        raise click.UsageError(f"no rule {code!r}.{hint} `tsgen rules` lists all.")
    write(f"{found.code} {found.name} ({found.severity})\n\n{found.doc}\n")
