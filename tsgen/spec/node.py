"""The tree that a YAML or TOML file is read into: plain values, each with its place in the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tsgen.diagnostics import Span
from tsgen.frozen import frozen

Plain = str | int | float | bool | None


@frozen
class ScalarNode:
    """A text, number, boolean or null.

    `span` is the content without quotes, so that a column within a one-line text is `span.column` plus its offset.
    `source` is the text as written. Of a YAML block text (`|`), `first_line` is the line of its first line and
    `indent` the number of columns before it; else they are 0.
    """

    value: Plain
    span: Span
    source: str
    quoted: bool = False
    first_line: int = 0
    indent: int = 0


@frozen
class Entry:
    """A key's place and its value."""

    key_span: Span
    node: Node


@frozen
class MapNode:
    entries: Mapping[str, Entry]
    span: Span

    def get(self, key: str) -> Node | None:
        """The value of `key`, or None."""
        entry = self.entries.get(key)
        return None if entry is None else entry.node

    def key_span(self, key: str) -> Span:
        """The place of `key`; of the mapping where it is not written."""
        entry = self.entries.get(key)
        return self.span if entry is None else entry.key_span

    def items(self) -> Iterator[tuple[str, Span, Node]]:
        """(key, place of the key, value) in the order of the text."""
        for key, entry in self.entries.items():
            yield key, entry.key_span, entry.node


@frozen
class ListNode:
    items: tuple[Node, ...]
    span: Span


Node = ScalarNode | MapNode | ListNode


def plain(node: Node) -> object:
    """The value without places, as `json.loads` would give it."""
    match node:
        case ScalarNode():
            return node.value
        case ListNode():
            return [plain(i) for i in node.items]
        case MapNode():
            return {k: plain(n) for k, _, n in node.items()}
