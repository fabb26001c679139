"""All rules, whatever module they live in, and the page of the documentation that lists them."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Sequence
from importlib import import_module

import tsgen
from tsgen.diagnostics import RULES, Rule

FAMILIES = {
    "TS1": "File, schema and expressions",
    "TS2": "Structure and roles",
    "TS3": "Pipelines, counts and bytes",
    "TS4": "Deadlock and phases",
    "TS5": "Races and aliasing",
    "TS6": "Memory and registers",
    "TS7": "Clusters and programmatic launch",
    "TS8": "Emission and compilation",
}


def all_rules() -> list[Rule]:
    """Every rule, by code: a rule registers itself when its module is imported, so all of them are imported."""
    for module in pkgutil.walk_packages(tsgen.__path__, "tsgen."):
        if "rules" in module.name.rsplit(".", 1)[-1] or module.name.startswith("tsgen.verify."):
            import_module(module.name)
    return [RULES[code] for code in sorted(RULES)]


def rules_markdown(rules: Sequence[Rule]) -> str:
    """docs/rules.md."""
    head = (
        "# Rules\n\nWritten by `tsgen rules --format markdown` from the rules themselves: change their docstrings, "
        "not this page.\n"
    )
    return head + "".join(line + "\n" for line in _families(rules))


def _families(rules: Sequence[Rule]) -> Iterator[str]:
    for prefix, title in FAMILIES.items():
        members = [r for r in rules if r.code.startswith(prefix)]
        if members:
            yield f"\n## {prefix}xx: {title}"
        for r in members:
            yield f"\n### {r.code} {r.name} ({r.severity})\n\n{r.doc}"
