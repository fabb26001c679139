"""YAML text -> documents with places. Built on libyaml's events: nothing is constructed, aliases are counted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise

import yaml

from tsgen.diagnostics import Diagnostic, Span
from tsgen.spec import rules_file as rules
from tsgen.spec.errors import SpecError
from tsgen.spec.node import Entry, ListNode, MapNode, Node, Plain, ScalarNode

MAX_NODES = 50_000  # of a document, aliases expanded; the largest spec has some 2,000
MAX_DEPTH = 60

_BOOL = re.compile(r"(?i:yes|no|true|false|on|off)")
_NULL = re.compile(r"~|null|Null|NULL|")
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]*([eE][-+][0-9]+)?|[-+]?\.[0-9]+([eE][-+][0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONE_KEY = re.compile(r"(- )*[\w.-]+")
_MISPLACED = ("did not find expected key", "did not find expected '-'", "did not find expected <document start>")
_ODD = re.compile(r"[-+]?(0b[01_]+|0[0-7_]+|[1-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9]+_[0-9_]*(\.[0-9_]*)?)")


def read_yaml(text: str) -> tuple[list[Node], list[Diagnostic]]:
    """The documents of a YAML text, and findings that do not stop the reading. Raises SpecError on syntax errors."""
    reader = _Reader(text)
    try:
        return list(reader.documents()), reader.diagnostics
    except yaml.reader.ReaderError as e:
        raise SpecError(rules.yaml_syntax(e.reason, None, _at(text, e.position), None)) from None
    except yaml.MarkedYAMLError as e:
        raise SpecError(_syntax(text, e)) from None


class _Reader:
    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CSafeLoader)
        self.diagnostics: list[Diagnostic] = []
        self.anchors: dict[str, tuple[Node, int]] = {}  # with the number of nodes in it
        self.open: set[str] = set()
        self.count = 0

    def documents(self) -> Iterator[Node]:
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                self.anchors, self.count = {}, 0
                yield self.node(next(self.events), 0)

    def counted(self, n: int, span: Span) -> None:
        self.count += n
        if self.count > MAX_NODES:
            raise SpecError(rules.too_large("entries", MAX_NODES, span))

    def node(self, event: yaml.Event, depth: int) -> Node:
        span = _span(event)
        if depth > MAX_DEPTH:
            raise SpecError(rules.too_large("levels", MAX_DEPTH, span))
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event.anchor or "", span)
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        self.counted(1, span)
        before, anchor = self.count, event.anchor
        if anchor is not None:
            self.open.add(anchor)
        if event.tag is not None and (event.tag != "!" or isinstance(event, yaml.CollectionStartEvent)):
            self.diagnostics.append(rules.yaml_tag(event.tag, span))
        if isinstance(event, yaml.ScalarEvent):
            node: Node = self.scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = self.sequence(event, depth)
        else:
            node = self.mapping(event, depth)
        if anchor is not None:
            self.open.discard(anchor)
            self.anchors[anchor] = (node, self.count - before + 1)
        return node

    def alias(self, name: str, span: Span) -> Node:
        if name in self.open or name not in self.anchors:
            raise SpecError(rules.yaml_alias(name, name in self.open, span))
        node, size = self.anchors[name]
        self.counted(size, span)
        return node

    def sequence(self, event: yaml.CollectionStartEvent, depth: int) -> ListNode:
        items: list[Node] = []
        while not isinstance(e := next(self.events), yaml.SequenceEndEvent):
            items.append(self.node(e, depth + 1))
        if event.flow_style:
            self.cut_item(items)
        return ListNode(tuple(items), _collection_span(event, e, items[0].span if items else None))

    def mapping(self, event: yaml.CollectionStartEvent, depth: int) -> MapNode:
        entries: dict[str, Entry] = {}
        merged: list[MapNode] = []
        first: Span | None = None
        while not isinstance(e := next(self.events), yaml.MappingEndEvent):
            key_span = _span(e)
            first = first or key_span
            key = self.key(e, depth)
            value = self.node(next(self.events), depth + 1)
            if key is None:
                continue
            if key == "<<" and isinstance(value, MapNode | ListNode):
                sources = value.items if isinstance(value, ListNode) else (value,)
                merged += [m for m in sources if isinstance(m, MapNode)]
            elif key in entries:
                self.diagnostics.append(rules.duplicate_key(key, key_span, entries[key].key_span))
            elif not self.cut(key, key_span, value, entries):
                entries[key] = Entry(key_span, value)
        for m in merged:
            for key, entry in m.entries.items():
                entries.setdefault(key, entry)
        return MapNode(entries, _collection_span(event, e, first))

    def key(self, event: yaml.Event, depth: int) -> str | None:
        node = self.node(event, depth + 1)
        if not isinstance(node, ScalarNode):
            found = "a list" if isinstance(node, ListNode) else "a mapping"
            self.diagnostics.append(rules.key_not_text(found, node.span))
            return None
        if isinstance(node.value, bool):
            self.diagnostics.append(rules.yaml_boolean(node.source, "a name as key", node.span))
            return None
        if not isinstance(node.value, str):
            found = "empty" if node.value is None else f"the number {node.source}"
            self.diagnostics.append(rules.key_not_text(found, node.span))
            return None
        return node.value

    def cut(self, key: str, span: Span, value: Node, before: dict[str, Entry]) -> bool:
        """Whether a comma has cut the value before: `{end: max(a, b)}` has the keys `end: max(a` and `b)`."""
        last = next(reversed(before.values())).node if before else None
        empty = isinstance(value, ScalarNode) and value.value is None
        if not empty or not isinstance(last, ScalarNode) or not _opens(last):
            return False
        self.diagnostics.append(_comma(last.source, key, span))
        return True

    def cut_item(self, items: list[Node]) -> None:
        """The same in a list: `[max(a, b)]` has the items `max(a` and `b)`."""
        for one, two in pairwise(items):
            if isinstance(one, ScalarNode) and isinstance(two, ScalarNode) and _opens(one) and not two.quoted:
                self.diagnostics.append(_comma(one.source, two.source, two.span))

    def scalar(self, event: yaml.ScalarEvent) -> ScalarNode:
        span = _span(event)
        style = event.style
        if style in ("'", '"'):
            if span.line == span.end_line:
                span = Span(span.line, span.column + 1, span.end_line, span.end_column - 1)
            return ScalarNode(event.value, span, event.value, True)
        if style in ("|", ">"):
            line = span.line  # the text begins on the line after this one; lines here count from 0
            head = next((x for x in self.lines[line : span.end_line] if x.strip()), "")
            place = Span(span.line, span.column, span.line, span.column + 1)
            return ScalarNode(event.value, place, event.value, True, line + 1, len(head) - len(head.lstrip(" ")))
        if not event.implicit[0] and event.tag is not None:
            return ScalarNode(event.value, span, event.value, True)
        return ScalarNode(self.plain(event.value, span), span, event.value)

    def plain(self, source: str, span: Span) -> Plain:
        if _NULL.fullmatch(source):
            return None
        if source[0].isalpha():
            return source.lower() in ("yes", "true", "on") if _BOOL.fullmatch(source) else source
        if _INT.fullmatch(source):
            number = int(source, 0) if len(source) < 40 else 2**64
            if not -(2**63) <= number < 2**63:
                self.diagnostics.append(rules.number_range(source, span))
                return 0
            return number
        if _FLOAT.fullmatch(source) or _SPECIAL.fullmatch(source):
            value = float(source) if _FLOAT.fullmatch(source) else math.inf
            if not math.isfinite(value):
                self.diagnostics.append(rules.number_range(source, span))
                return 0.0
            return value
        if _ODD.fullmatch(source):
            self.diagnostics.append(rules.number_form(source, str(yaml.safe_load(source)), span))
            return 0
        return source


def _comma(start: str, rest: str, span: Span) -> Diagnostic:
    return rules.yaml_quotes(f"a comma ends the value `{start}`", span, f'quote it: "{start}, {rest}"')


def _opens(node: ScalarNode) -> bool:
    """Whether a text without quotes has a parenthesis that it does not close."""
    return not node.quoted and isinstance(node.value, str) and node.value.count("(") > node.value.count(")")


def _span(event: yaml.Event) -> Span:
    start, end = event.start_mark, event.end_mark
    assert start is not None and end is not None
    if (end.line, end.column) == (start.line, start.column):
        return Span(start.line + 1, start.column + 1, start.line + 1, start.column + 2)
    return Span(start.line + 1, start.column + 1, end.line + 1, end.column + 1)


def _collection_span(start: yaml.CollectionStartEvent, end: yaml.Event, first: Span | None) -> Span:
    """Of `{...}` and `[...]` on one line all of it; of others the first entry: a caret wants a word to point at."""
    opening, closing = _span(start), _span(end)
    if start.flow_style and opening.line == closing.end_line:
        return Span(opening.line, opening.column, closing.end_line, closing.end_column)
    return first or Span(opening.line, opening.column, opening.line, opening.column + 1)


def _at(text: str, position: int) -> Span:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return Span(line, column, line, column + 1)


def _mark(mark: yaml.Mark | None) -> Span | None:
    return None if mark is None else Span(mark.line + 1, mark.column + 1, mark.line + 1, mark.column + 2)


def _syntax(text: str, e: yaml.MarkedYAMLError) -> Diagnostic:
    """The YAML reader's complaint; where one of the well-known traps caused it, that trap in words."""
    span = _mark(e.problem_mark) or Span.start()
    lines = text.split("\n")
    line = lines[span.line - 1] if span.line <= len(lines) else ""
    char = line[span.column - 1 : span.column]
    problem = e.problem or "unreadable"
    if "expected ',' or" in problem and char in ("[", "{") and line[span.column - 2 : span.column - 1].strip():
        reason = f"`{char}` ends the text before it, within the `{{}}` or `[]` of YAML"
        return rules.yaml_quotes(reason, span, _quoted(line, span))
    before = line[: span.column - 1].strip()
    if "mapping values are not allowed" in problem and _LONE_KEY.fullmatch(before):
        reason = "the line is indented deeper than the one above it, which has its value already"
        return rules.yaml_syntax(reason, None, span, None)
    if "mapping values are not allowed" in problem:
        return rules.yaml_quotes("`: ` within a value starts another mapping", span, "quote the value")
    if "tab character" in problem:
        return rules.yaml_syntax("a tab indents the line; YAML wants spaces", None, span, None)
    if "cannot start any token" in problem and char:
        if char == "\t":
            return rules.yaml_syntax("a tab indents the line; YAML wants spaces", None, span, None)
        return rules.yaml_quotes(f"a text cannot start with `{char}`", span, "quote the value")
    if "block sequence entries are not allowed" in problem:
        help = "quote the value, or write -x without a blank"
        return rules.yaml_quotes("`- ` within a value starts a list", span, help)
    if "did not find expected alphabetic or numeric character" in problem:
        return rules.yaml_quotes(f"a text cannot start with `{char or '*'}`", span, "quote the value")
    if problem.startswith(_MISPLACED):
        return _misplaced(problem, span, _mark(e.context_mark), bool(before))
    return rules.yaml_syntax(problem, e.context, span, _mark(e.context_mark))


def _misplaced(problem: str, span: Span, block: Span | None, within_line: bool) -> Diagnostic:
    """A line that belongs to none of the open blocks, mostly by its indentation."""
    if within_line:
        return rules.yaml_syntax("a value ends before this text", None, span, None)
    if block is None or block.column != span.column:
        return rules.yaml_syntax("the indentation of this line fits nothing above it", "of this, for one", span, block)
    wanted = "a key" if "key" in problem else "an item `- …`"
    return rules.yaml_syntax(f"{wanted} is expected here, as on the lines above", "they start here", span, block)


def _quoted(line: str, span: Span) -> str:
    """`write "x[i]"` for the text around the place."""
    start = max(line.rfind(c, 0, span.column - 1) for c in ("{", ",", ": ")) + 1
    head = line[start : span.column - 1].strip()
    depth, end = 0, span.column - 1
    while end < len(line):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(line[end], 0)
        end += 1
        if depth <= 0:
            break
    return f'quote it: "{head}{line[span.column - 1 : end]}"'
