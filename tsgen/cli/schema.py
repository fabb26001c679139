"""`tsgen schema`: the JSON Schema of the spec language."""

from __future__ import annotations

import click

from tsgen.cli.console import write


@click.command()
def command() -> None:
    """Prints the JSON Schema (draft-07) of the spec language, for editors and other tools."""
    import json

    from tsgen.spec.schema import schema

    write(json.dumps(schema(), indent=2) + "\n")
