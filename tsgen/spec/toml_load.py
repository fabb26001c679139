"""TOML text -> a document with places: `tomllib` reads the values, a scanner finds where each key and value stands."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass, field

from tsgen.diagnostics import Diagnostic, Span
from tsgen.spec import rules_file as rules
from tsgen.spec.errors import SpecError
from tsgen.spec.node import Entry, ListNode, MapNode, Node, ScalarNode

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SKIP = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(slots=True)
class _Table:
    start: int
    declared: int | None = None  # where it has a header of its own
    keys: dict[str, tuple[int, int, _Place]] = field(default_factory=dict)  # start and end of the key, its value


@dataclass(slots=True)
class _Array:
    start: int
    items: list[_Place] = field(default_factory=list)


@dataclass(slots=True)
class _Value:
    start: int
    end: int


_Place = _Table | _Array | _Value


class _Twice(Exception):
    """A key is given twice: its name, start and end, and where the first stands."""

    def __init__(self, name: str, start: int, end: int, first: int) -> None:
        super().__init__(name)
        self.name, self.start, self.end, self.first = name, start, end, first


def read_toml(text: str) -> tuple[list[Node], list[Diagnostic]]:
    """The one document of a TOML text, and findings that do not stop the reading. Raises SpecError on syntax errors."""
    text = text.replace("\r\n", "\n")
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise SpecError(_twice(text, str(e)) or _syntax(text, str(e))) from None
    except RecursionError:
        raise SpecError(rules.too_large("levels", 100, Span.start())) from None
    except ValueError as e:  # an integer with more digits than Python converts
        raise SpecError(rules.toml_syntax(str(e), Span.start())) from None
    builder = _Builder(text)
    return [builder.node(values, _Scanner(text).document())], builder.diagnostics


def _twice(text: str, message: str) -> Diagnostic | None:
    """The key that is given twice, if that is tomllib's complaint: it names neither key nor first place.

    Up to its complaint the text is valid. A scanner that has seen no second key by then goes on into what may be none.
    """
    if not message.startswith(("Cannot overwrite a value", "Cannot declare", "Duplicate inline table key")):
        return None
    try:
        _Scanner(text).document()
    except _Twice as e:
        span = _Builder(text).span
        return rules.duplicate_key(e.name, span(e.start, e.end), span(e.first, e.first + len(e.name)))
    except (AssertionError, IndexError, ValueError, RecursionError):
        return None
    return None


def _syntax(text: str, message: str) -> Diagnostic:
    place = _PLACE.search(message)
    problem = _PLACE.sub("", message).strip()
    problem = problem[:1].lower() + problem[1:]
    if place is None:
        line = text.count("\n") + 1
        return rules.toml_syntax(
            problem.replace("(at end of document)", "at the end of the file"), Span(line, 1, line, 2)
        )
    line, column = int(place.group(1)), int(place.group(2))
    return rules.toml_syntax(problem, Span(line, column, line, column + 1))


class _Scanner:
    """Finds places in a text that is known to be valid TOML. In any other it stops: by _Twice or as Python does."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def skip(self) -> None:
        match = _SKIP.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def document(self) -> _Table:
        root = table = _Table(0)
        self.skip()
        while self.at < len(self.text):
            if self.text.startswith("[", self.at):
                array = self.text.startswith("[[", self.at)
                self.at += 2 if array else 1
                table = self.header(root, self.path(), array)
                self.at += 2 if array else 1
            else:
                self.pair(table)
            self.skip()
        return root

    def path(self) -> list[tuple[str, int, int]]:
        """A dotted key: (name, start, end) of each part."""
        parts = []
        while True:
            self.skip()
            start = self.at
            quote = self.text[start]
            if quote in "\"'":
                self.string()
                name = tomllib.loads(f"k = {self.text[start : self.at]}")["k"]
            else:
                match = _BARE.match(self.text, start)
                assert match is not None
                self.at, name = match.end(), match.group()
            parts.append((name, start, self.at))
            self.skip()
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def header(self, table: _Table, path: list[tuple[str, int, int]], array: bool) -> _Table:
        table = self.descend(table, path[:-1])
        name, start, end = path[-1]
        if not array:
            made = self.descend(table, path[-1:])
            if made.declared is not None:
                raise _Twice(name, start, end, made.declared)
            made.declared = start
            return made
        place = table.keys.setdefault(name, (start, end, _Array(start)))[2]
        assert isinstance(place, _Array)
        new = _Table(start)
        place.items.append(new)
        return new

    def descend(self, table: _Table, path: list[tuple[str, int, int]]) -> _Table:
        for name, start, end in path:
            place = table.keys.setdefault(name, (start, end, _Table(start)))[2]
            if isinstance(place, _Array):
                place = place.items[-1]
            if isinstance(place, _Value):
                raise _Twice(name, start, end, table.keys[name][0])
            assert isinstance(place, _Table)
            table = place
        return table

    def pair(self, table: _Table) -> None:
        path = self.path()
        self.at += 1  # =
        self.skip()
        table = self.descend(table, path[:-1])
        name, start, end = path[-1]
        if name in table.keys:
            raise _Twice(name, start, end, table.keys[name][0])
        table.keys[name] = (start, end, self.value())

    def value(self) -> _Place:
        start = self.at
        char = self.text[start]
        if char == "[":
            return self.array()
        if char == "{":
            return self.inline_table()
        if char in "\"'":
            self.string()
            long = self.text.startswith(char * 3, start) and self.at - start >= 6
            return _Value(start, self.at) if long else _Value(start + 1, self.at - 1)
        while self.at < len(self.text) and self.text[self.at] not in ",]}#\n":
            self.at += 1
        assert self.at > start
        return _Value(start, start + len(self.text[start : self.at].rstrip()))

    def array(self) -> _Array:
        place = _Array(self.at)
        self.at += 1
        self.skip()
        while self.text[self.at] != "]":
            place.items.append(self.value())
            self.comma()
        self.at += 1
        return place

    def inline_table(self) -> _Table:
        place = _Table(self.at)
        self.at += 1
        self.skip()
        while self.text[self.at] != "}":
            self.pair(place)
            self.comma()
        self.at += 1
        return place

    def comma(self) -> None:
        self.skip()
        if self.text[self.at] == ",":
            self.at += 1
            self.skip()

    def string(self) -> None:
        quote = self.text[self.at]
        end = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(end)
        while not self.text.startswith(end, self.at):
            assert self.at < len(self.text)
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(end)
        if len(end) == 3:  # up to two more quotes belong to the text
            while self.text.startswith(quote, self.at):
                self.at += 1


class _Builder:
    def __init__(self, text: str) -> None:
        self.text = text
        self.diagnostics: list[Diagnostic] = []
        self.starts = [0]
        for i, c in enumerate(text):
            if c == "\n":
                self.starts.append(i + 1)

    def span(self, start: int, end: int) -> Span:
        from bisect import bisect_right

        first = bisect_right(self.starts, start)
        column = start - self.starts[first - 1] + 1
        newline = self.text.find("\n", start, end)
        if newline >= 0 or end <= start:
            return Span(first, column, first, column + 1)
        return Span(first, column, first, column + end - start)

    def node(self, value: object, place: _Place) -> Node:
        if isinstance(value, dict) and isinstance(place, _Table):
            entries = {
                k: Entry(self.span(*place.keys[k][:2]), self.node(v, place.keys[k][2])) for k, v in value.items()
            }
            return MapNode(entries, self.span(place.start, place.start + 1))
        if isinstance(value, list) and isinstance(place, _Array):
            items = tuple(self.node(v, p) for v, p in zip(value, place.items, strict=True))
            return ListNode(items, self.span(place.start, place.start + 1))
        assert isinstance(place, _Value)
        return self.scalar(value, place)

    def scalar(self, value: object, place: _Value) -> ScalarNode:
        span = self.span(place.start, place.end)
        source = self.text[place.start : place.end]
        if isinstance(value, str):
            if source.startswith(('"""', "'''")):
                skipped = source[3:4] == "\n"
                return ScalarNode(value, span, value, True, span.line + (1 if skipped else 0))
            return ScalarNode(value, span, value, True)
        if isinstance(value, bool):
            return ScalarNode(value, span, source)
        if isinstance(value, int | float):
            if not (math.isfinite(value) and (isinstance(value, float) or -(2**63) <= value < 2**63)):
                self.diagnostics.append(rules.number_range(source, span))
                value = 0
            return ScalarNode(value, span, source)
        self.diagnostics.append(rules.value_kind(f"the date or time {source}", span))
        return ScalarNode(source, span, source)
