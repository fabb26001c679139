"""Which names the lowered code mentions: what is not mentioned is not emitted."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tsgen.lower.program import Statement


def texts(value: object) -> Iterator[str]:
    """Every text in statements and their values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Statement):
        yield from texts(list(value.values.values()))
        yield from texts(list(value.body))
    elif isinstance(value, dict):
        yield from texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for x in value:
            yield from texts(x)


def mentions(statements: object, name: str) -> bool:
    """Whether some text in the statements has the name as a word."""
    pattern = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    return any(pattern.search(t) for t in texts(statements))
