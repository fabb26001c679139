"""`tsgen schema`: the JSON Schema of the spec language."""

from __future__ import annotations

import click

from tsgen.cli.console import write


@click.command()
def command() -> None:
    """Prints the JSON Schema (draft-07) of the spec language, for editors and other tools."""
    from tsgen.diagnostics.jsontext import dumps
    from tsgen.spec.schema import schema

    write(dumps(schema()))
