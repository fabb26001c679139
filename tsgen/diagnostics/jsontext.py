"""JSON documents: their type, and how all commands print them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"


def dumps(document: Json) -> str:
    """The document, indented, with a newline at its end; ASCII, so that any terminal encoding carries it."""
    return json.dumps(document, indent=2) + "\n"
