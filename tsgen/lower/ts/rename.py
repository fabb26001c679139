"""Names in lowered code: replaced, and collected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar, cast

from tsgen.lower.mentions import texts
from tsgen.lower.program import Statement

T = TypeVar("T")
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\s*=(?!=))\b")  # not an attribute, not the name of an argument


def renamed(value: T, names: Mapping[str, str]) -> T:
    """A value of statements, in which each of the names is replaced."""
    return cast(T, _renamed(value, names)) if names else value


def _renamed(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return _WORD.sub(lambda m: names.get(m.group(), m.group()), value)
    if isinstance(value, Statement):
        values = {k: _renamed(v, names) for k, v in value.values.items()}
        return Statement(
            value.template, values, value.note, tuple(cast(Statement, _renamed(s, names)) for s in value.body)
        )
    if isinstance(value, dict):
        return {k: _renamed(v, names) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_renamed(v, names) for v in value)
    return value


def words(value: object) -> set[str]:
    """Every name that statements mention."""
    return {m.group() for t in texts(value) for m in _WORD.finditer(t)}


def given(statements: Iterable[Statement]) -> Iterator[str]:
    """Names that stand alone in the statements' values: those they assign, and those they take over whole."""
    for s in statements:
        later = "staged" if s.values.get("whole") else None  # of stmatrix: made by the store itself
        for text in texts([v for k, v in s.values.items() if k != later]):
            for part in text.split(","):
                if part.strip().isidentifier():
                    yield part.strip()
