"""Validation of a document against the JSON Schema, with places and in the words of the language.

It reads the same schema that `tsgen schema` prints, the subset of draft-07 that it uses. Tests compare its verdicts
with those of the `jsonschema` package, whose import alone would take a third of the time that `check` may take.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import cast

from tsgen.diagnostics import Diagnostic, Span
from tsgen.spec import rules_file, rules_schema
from tsgen.spec.node import ListNode, MapNode, Node, ScalarNode
from tsgen.spec.schema import schema
from tsgen.spec.schema_forms import NAME, Schema

_NAME = re.compile(NAME)
_EXPONENT = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+")


def validate(root: MapNode) -> list[Diagnostic]:
    """The findings about one document."""
    validator = _Validator(schema())
    validator.check(root, schema(), None, root.span)
    return validator.found


class _Validator:
    def __init__(self, root: Schema) -> None:
        self.definitions = cast("dict[str, Schema]", root["definitions"])
        self.found: list[Diagnostic] = []

    def check(self, node: Node, s: Schema, key: str | None, key_span: Span) -> None:
        s = self.resolved(s)
        if "oneOf" in s:
            branch = self.branch(node, s, key, key_span)
            if branch is not None:
                self.check(node, branch, key, key_span)
            return
        if "const" in s:
            self.const(node, s, key)
            return
        if not self.type_fits(node, s):
            self.found.append(self.wrong_type(node, s, key, key_span))
            return
        match node:
            case MapNode():
                self.mapping(node, s, key, key_span)
            case ListNode():
                self.listing(node, s, key, key_span)
            case ScalarNode():
                self.scalar(node, s, key)

    def resolved(self, s: Schema) -> Schema:
        """Follows `$ref`, also the one within `allOf` that stands beside a description."""
        while True:
            if "allOf" in s:
                s = cast("list[Schema]", s["allOf"])[0]
            elif "$ref" in s:
                s = self.definitions[cast(str, s["$ref"]).rsplit("/", 1)[1]]
            else:
                return s

    # -- kinds ---------------------------------------------------------------------------------------------------

    def type_fits(self, node: Node, s: Schema) -> bool:
        types = s.get("type")
        if types is None:
            return True
        return bool(_types(node) & set(types if isinstance(types, list) else [cast(str, types)]))

    def wrong_type(self, node: Node, s: Schema, key: str | None, key_span: Span) -> Diagnostic:
        expected = cast(str, s.get("title", "something else"))
        if isinstance(node, ScalarNode):
            if isinstance(node.value, bool) and "string" in _listed(s) and not node.quoted:
                return rules_file.yaml_boolean(node.source, expected, node.span)
            if (
                isinstance(node.value, str)
                and not node.quoted
                and _EXPONENT.fullmatch(node.value)
                and "number" in _listed(s)
            ):
                return rules_file.yaml_number_text(node.value, _dotted(node.value), node.span)
        empty = isinstance(node, ScalarNode) and node.value is None
        span = key_span if empty or not isinstance(node, ScalarNode) else node.span
        help = "write {} for no options" if empty and "object" in _listed(s) else None
        return rules_schema.wrong_type(key, expected, describe(node), span, help)

    # -- unions --------------------------------------------------------------------------------------------------

    def branch(self, node: Node, s: Schema, key: str | None, key_span: Span) -> Schema | None:
        """The branch of a union that the node is meant to be, or None after a finding."""
        branches = [self.resolved(b) for b in cast("list[Schema]", s["oneOf"])]
        fitting = [b for b in branches if self.type_fits(node, b)]
        if not fitting:
            self.found.append(self.wrong_type(node, {**s, "type": _union(branches)}, key, key_span))
            return None
        if len(fitting) == 1 or not isinstance(node, MapNode):
            return fitting[0]
        if s.get("x-discriminator") == "$key":
            return self.by_key(node, s, fitting, key_span)
        return self.by_value(node, cast(str, s["x-discriminator"]), s, fitting, key_span)

    def by_key(self, node: MapNode, s: Schema, branches: list[Schema], key_span: Span) -> Schema | None:
        """Blocks and fields: the branch whose first required key is there."""
        names = {_required(b)[0]: b for b in branches}
        for name, branch in names.items():
            if name in node.entries:
                first = next(iter(node.entries))
                if first != name and "steps" in _required(branch):
                    self.found.append(rules_schema.block_first(name, first, node.key_span(name)))
                    return None
                return branch
        if "dtype" in names:  # a field without any of its keys
            return names["dtype"]
        what = cast(str, s["title"])
        if not node.entries:
            self.found.append(rules_schema.wrong_type(None, what, "an empty mapping", node.span))
        else:
            key = next(iter(node.entries))
            self.found.append(rules_schema.unknown_key(key, what, _near(key, names), tuple(names), node.key_span(key)))
        return None

    def by_value(
        self, node: MapNode, discriminator: str, s: Schema, branches: list[Schema], key_span: Span
    ) -> Schema | None:
        """Resources by `kind`; works by `op`, else by `body`, `call` or nothing but a role."""
        chosen = node.get(discriminator)
        consts = {
            cast(str, cast("dict[str, Schema]", b["properties"])[discriminator]["const"]): b
            for b in branches
            if discriminator in cast("dict[str, Schema]", b["properties"])
        }
        others = [b for b in branches if b not in list(consts.values())]
        what = cast(str, s["title"])
        if chosen is None:
            if not others:
                keys = cast("dict[str, Schema]", branches[0]["properties"])
                near = next((k for k in node.entries if k not in keys and _near(k, (discriminator,))), None)
                if near is not None:
                    known = tuple(keys)
                    self.found.append(rules_schema.unknown_key(near, what, discriminator, known, node.key_span(near)))
                else:
                    doc = f"{', '.join(consts)}"
                    self.found.append(rules_schema.missing_key(discriminator, what, doc, key_span))
                return None
            return next((b for b in others if _required(b)[0] in node.entries), others[-1])
        if others:
            for other in (_required(b)[0] for b in others):
                if other != "role" and other in node.entries:
                    span = node.key_span(other)
                    self.found.append(rules_schema.several_ways(discriminator, other, span))
                    return None
        if not isinstance(chosen, ScalarNode) or not isinstance(chosen.value, str):
            wanted: Schema = {"type": "string", "title": "a word"}
            self.found.append(self.wrong_type(chosen, wanted, discriminator, node.key_span(discriminator)))
            return None
        branch = consts.get(chosen.value)
        if branch is None:
            near = _near(chosen.value, consts)
            known = tuple(consts)
            self.found.append(rules_schema.unknown_word(discriminator, chosen.value, known, near, chosen.span))
        return branch

    # -- values --------------------------------------------------------------------------------------------------

    def const(self, node: Node, s: Schema, key: str | None) -> None:
        if isinstance(node, ScalarNode) and node.value == s["const"] and not isinstance(node.value, bool):
            return
        if key == "tsgen":
            self.found.append(rules_schema.language_version(describe(node), node.span))
        else:
            self.found.append(rules_schema.wrong_type(key, cast(str, s["title"]), describe(node), node.span))

    def scalar(self, node: ScalarNode, s: Schema, key: str | None) -> None:
        if "enum" in s and node.value not in cast("list[str]", s["enum"]):
            words = tuple(cast("list[str]", s["enum"]))
            word = str(node.value)
            self.found.append(rules_schema.unknown_word(key, word, words, _near(word, words), node.span))
        elif "pattern" in s and not re.fullmatch(cast(str, s["pattern"]), str(node.value)):
            if s["title"] == "a name":
                self.found.append(rules_schema.bad_name(str(node.value), node.span))
            else:
                self.found.append(rules_schema.wrong_type(key, cast(str, s["title"]), describe(node), node.span))
        elif "minimum" in s and isinstance(node.value, int | float) and node.value < cast(int, s["minimum"]):
            self.found.append(rules_schema.below_minimum(key, node.value, cast(int, s["minimum"]), node.span))

    def listing(self, node: ListNode, s: Schema, key: str | None, key_span: Span) -> None:
        least = cast(int, s.get("minItems", 0))
        if len(node.items) < least:
            self.found.append(rules_schema.wrong_count(_quoted(key), f"at least {least}", len(node.items), key_span))
        items = cast(Schema, s["items"])
        for item in node.items:
            self.check(item, items, None, item.span)

    def mapping(self, node: MapNode, s: Schema, key: str | None, key_span: Span) -> None:
        properties = cast("dict[str, Schema]", s.get("properties", {}))
        extra = s.get("additionalProperties")
        title = cast(str, s["title"])
        what = _quoted(key) if key is not None and title.startswith("a mapping") else title
        for name in _required(s):
            if name not in node.entries:
                doc = self.doc(properties[name])
                self.found.append(rules_schema.missing_key(name, what, doc, key_span))
        least, most = cast(int, s.get("minProperties", 0)), cast("int | None", s.get("maxProperties"))
        count = len(node.entries)
        if count < least or (most is not None and count > most):
            expected = f"{least}" if least == most else f"at least {least}"
            self.found.append(rules_schema.wrong_count(_quoted(key) if key else title, expected, count, key_span))
        for name, span, value in node.items():
            if name in properties:
                self.check(value, properties[name], name, span)
            elif isinstance(extra, dict):
                if not _NAME.match(name):
                    self.found.append(rules_schema.bad_name(name, span))
                self.check(value, extra, name, span)
            else:
                near = _near(name, properties)
                self.found.append(rules_schema.unknown_key(name, what, near, tuple(properties), span))

    def doc(self, s: Schema) -> str | None:
        return cast("str | None", s.get("description") or self.resolved(s).get("description"))


def describe(node: Node) -> str:
    """A value in the words of a message."""
    match node:
        case MapNode():
            return "a mapping"
        case ListNode():
            return "a list"
        case ScalarNode(value=None):
            return "empty"
        case ScalarNode(value=bool()):
            return f"the boolean {node.source}"
        case ScalarNode(value=str()):
            short = node.source if len(node.source) <= 40 else node.source[:37] + "..."
            return f"the text `{short}`".replace("\n", " ")
        case _:
            return f"the number {node.source}"


def _types(node: Node) -> set[str]:
    """The draft-07 types that a value has."""
    match node:
        case MapNode():
            return {"object"}
        case ListNode():
            return {"array"}
        case ScalarNode(value=bool()):
            return {"boolean"}
        case ScalarNode(value=int()):
            return {"integer", "number"}
        case ScalarNode(value=float() as v):
            return {"number", "integer"} if v.is_integer() else {"number"}
        case ScalarNode(value=str()):
            return {"string"}
    return {"null"}


def _listed(s: Schema) -> list[str]:
    types = s.get("type", [])
    return types if isinstance(types, list) else [cast(str, types)]


def _union(branches: Iterable[Schema]) -> list[str]:
    return [t for b in branches for t in _listed(b)]


def _required(s: Schema) -> list[str]:
    return cast("list[str]", s.get("required", []))


def _near(name: str, among: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(name, list(among), 1, 0.6)
    return found[0] if found else None


def _quoted(key: str | None) -> str:
    return f"`{key}`" if key is not None else "this list"


def _dotted(source: str) -> str:
    """`1e-3` as YAML 1.1 wants it: `1.0e-3`."""
    head, exponent = re.split("[eE]", source)
    sign = "" if exponent[0] in "+-" else "+"
    return f"{head if '.' in head else head + '.0'}e{sign}{exponent}"
