"""`tsgen explain`: what a rule is about, why it matters, and how to mend what it found."""

from __future__ import annotations

import click

from tsgen.cli.console import write
from tsgen.diagnostics import Severity

_CONSEQUENCES: dict[Severity, str] = {
    "error": "An error: `tsgen check` exits with 1, and `tsgen build` writes no module of such a spec.",
    "warning": "A warning: the spec may be right. `tsgen check` exits with 0 and `tsgen build` goes on.",
}


@click.command()
@click.argument("code", metavar="CODE")
def command(code: str) -> None:
    """Explains a rule, given its CODE (TS301) or its name."""
    from tsgen.cli.catalogue import FAMILIES, all_rules

    rules = all_rules()
    wanted = code.strip().lower()
    found = next((r for r in rules if wanted in (r.code.lower(), r.name)), None)
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(wanted, [x for r in rules for x in (r.code.lower(), r.name)], 1)
        hint = f" Did you mean {near[0].upper() if near[0].startswith('ts') else near[0]}?" if near else ""
        raise click.UsageError(f"no rule {code!r}.{hint} `tsgen rules` lists all.")
    family = FAMILIES.get(found.code[:3], "")
    write(f"{found.code} {found.name}: {family}\n\n{found.doc}\n\n{_CONSEQUENCES[found.severity]}\n")
