"""The forms that the JSON Schema is made of. Each `title` says in the words of messages what is expected."""

from __future__ import annotations

import keyword

Schema = dict[str, object]

RESERVED = (*sorted(keyword.kwlist), "inf")  # cannot be names: expressions are parsed as Python
NAME = rf"^(?!({'|'.join(RESERVED)})$)[A-Za-z_][A-Za-z0-9_]*$"


def mapping(
    properties: dict[str, Schema], required: tuple[str, ...] = (), title: str = "a mapping", doc: str | None = None
) -> Schema:
    found: Schema = {"type": "object", "title": title}
    if doc:
        found["description"] = doc
    found |= {"properties": properties, "additionalProperties": False}
    return {**found, "required": list(required)} if required else found


def map_of(value: Schema, doc: str, title: str, *, least: int = 0, most: int | None = None) -> Schema:
    """A mapping from names to values of one kind."""
    found: Schema = {"type": "object", "title": title, "description": doc, "additionalProperties": value}
    found["propertyNames"] = {"pattern": NAME}
    if least:
        found["minProperties"] = least
    return {**found, "maxProperties": most} if most else found


def list_of(items: Schema, title: str, doc: str, *, least: int = 0) -> Schema:
    found: Schema = {"type": "array", "title": title, "description": doc, "items": items}
    return {**found, "minItems": least} if least else found


def defined(name: str, doc: str) -> Schema:
    """A definition with a description of its own (in draft-07 `$ref` hides what stands beside it)."""
    return {"description": doc, "allOf": [{"$ref": f"#/definitions/{name}"}]}


def value(doc: str) -> Schema:
    return {"type": ["string", "integer", "number", "boolean"], "title": "an expression", "description": doc}


def integer(doc: str) -> Schema:
    return {"type": ["integer", "string"], "title": "an integer or an expression", "description": doc}


def condition(doc: str) -> Schema:
    return {"type": ["boolean", "string"], "title": "a condition: true, false or an expression", "description": doc}


def text(doc: str, title: str = "a text") -> Schema:
    return {"type": "string", "title": title, "description": doc}


def name(doc: str) -> Schema:
    return {"type": "string", "pattern": NAME, "title": "a name", "description": doc}


def names(doc: str, *, least: int = 0) -> Schema:
    return list_of(name("A name."), "a list of names", doc, least=least)


def word(words: tuple[str, ...], doc: str) -> Schema:
    short = len(words) <= 6
    title = (
        " or ".join([", ".join(f"`{w}`" for w in words[:-1]), f"`{words[-1]}`"]) if short and words[1:] else "a word"
    )
    return {"type": "string", "enum": list(words), "title": title, "description": doc}
