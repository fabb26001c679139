"""The JSON Schema: it is committed, describes every property, and says the same as our validator."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsgen.diagnostics import Span
from tsgen.diagnostics.jsontext import dumps
from tsgen.model.blocks import BLOCKS
from tsgen.model.ops import OPS
from tsgen.model.pipelines import PIPELINES
from tsgen.spec import load_document
from tsgen.spec.node import Entry, ListNode, MapNode, Node, ScalarNode, plain
from tsgen.spec.schema import schema
from tsgen.spec.validate import validate

ROOT = Path(__file__).parents[3]
SPECS = sorted((ROOT / "tests" / "language").glob("*.yaml"))
VALIDATOR = jsonschema.Draft7Validator(schema())
ROOTS = [plain(root) for path in SPECS for root in load_document(path).roots]


def test_the_committed_schema_is_the_generated_one() -> None:
    committed = (ROOT / "tsgen" / "schema" / "kernel.schema.json").read_text(encoding="utf-8")
    assert committed == dumps(schema()), "run `tsgen schema > tsgen/schema/kernel.schema.json`"


def test_it_is_a_draft_07_schema() -> None:
    jsonschema.Draft7Validator.check_schema(schema())


def properties(s: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(s, dict):
        for name, value in s.get("properties", {}).items():
            if isinstance(value, dict):
                yield name, value
        for value in s.values():
            yield from properties(value)
    elif isinstance(s, list):
        for value in s:
            yield from properties(value)


def test_every_property_has_a_description() -> None:
    found = list(properties(schema()))
    assert len(found) > 150
    assert [name for name, value in found if not value.get("description")] == []


def test_the_registries_are_in_it() -> None:
    shown = dumps(schema())
    for name in (*OPS, *PIPELINES, *BLOCKS):
        assert f'"{name}"' in shown


def node(value: Any) -> Node:
    """Plain data as the tree that a file would give."""
    place = Span.start()
    if isinstance(value, dict):
        return MapNode({k: Entry(place, node(v)) for k, v in value.items()}, place)
    if isinstance(value, list):
        return ListNode(tuple(node(v) for v in value), place)
    return ScalarNode(value, place, str(value), quoted=True)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in a document."""
    yield at
    if isinstance(value, dict):
        for k, v in value.items():
            yield from places(v, (*at, k))
    elif isinstance(value, list):
        for i, v in enumerate(value):
            yield from places(v, (*at, i))


VALUES = st.sampled_from([None, True, 0, -1, 1.5, "", "x", "tma_async", "in", "a-b", [], ["x"], {}, {"x": 1}, [[]]])
KEYS = st.sampled_from(["op", "kind", "steps", "if", "each", "x", "view", "body", "role", "a-b", "class", "", "doc"])


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A sketch with one entry replaced, removed, renamed or added."""
    root = copy.deepcopy(draw(st.sampled_from(ROOTS)))
    paths = [p for p in places(root) if p]
    path = draw(st.sampled_from(paths))
    parent = root
    for step in path[:-1]:
        parent = parent[step]
    how = draw(st.sampled_from(["replace", "remove", "rename", "add"]))
    if how == "replace":
        parent[path[-1]] = draw(VALUES)
    elif how == "remove":
        del parent[path[-1]]
    elif isinstance(parent, dict):
        key = draw(KEYS)
        value = parent.pop(path[-1]) if how == "rename" else draw(VALUES)
        parent[key] = value
    assert isinstance(root, dict)
    return root


@settings(max_examples=60, deadline=None, derandomize=True)
@given(damaged())
def test_the_validator_agrees_with_jsonschema(document: dict[str, Any]) -> None:
    root = node(document)
    assert isinstance(root, MapNode)
    found = [d for d in validate(root) if d.code != "TS127"]  # the order of keys is beyond JSON Schema
    assert bool(found) != VALIDATOR.is_valid(document), [d.message for d in found]


@pytest.mark.parametrize(
    ("spec", "old", "new", "message", "help"),
    [
        ("copy_tma", "kind: smem", "knd: smem", "unknown key `knd` in a resource", "did you mean `kind`?"),
        (
            "copy_tma",
            "op: tma_load,",
            "op: tma_lode,",
            "`op` is `tma_lode`, expected `load`, `store`",
            "did you mean `tma_load`?",
        ),
        (
            "copy_tma",
            "- domain_loop:",
            "- domain_lop:",
            "unknown key `domain_lop` in a step or a block",
            "did you mean `domain_loop`?",
        ),
        (
            "ping_pong",
            "- first_iter: {}",
            "- first_iter:",
            "`first_iter` is empty, expected the options of `first_iter`",
            "write {} for no options",
        ),
        (
            "copy_tma",
            "graph: {ring: [x], y: [ring]}",
            "graph: [x]",
            "`graph` is a list, expected a mapping of lists of names",
            None,
        ),
        (
            "copy_tma",
            "num_stages: stages",
            "num_stages: true",
            "`true` is a boolean in YAML, expected an integer or an expression",
            'write "true" in quotes',
        ),
        (
            "copy_tma",
            "num_stages: stages",
            "num_stages: 1.5",
            "`num_stages` is the number 1.5, expected an integer or an expression",
            None,
        ),
        ("copy_tma", "returns: [v]", "returns: v", "`returns` is the text `v`, expected a list of names", None),
        (
            "copy",
            "op: load, takes",
            "role: consumer, copy: 1, takes",
            "unknown key `copy` in a work that is only a role yet",
            None,
        ),
    ],
)
def test_messages_are_in_the_words_of_the_language(
    spec: str, old: str, new: str, message: str, help: str | None, tmp_path: Path
) -> None:
    source = (ROOT / "tests" / "language" / f"{spec}.yaml").read_text(encoding="utf-8")
    assert old in source
    path = tmp_path / "spec.yaml"
    path.write_text(source.replace(old, new, 1), encoding="utf-8")
    found = load_document(path).diagnostics
    assert found[0].message.startswith(message), [d.message for d in found]
    if help is not None:
        assert found[0].help == help


def test_several_faults_are_found_in_one_run(tmp_path: Path) -> None:
    source = (ROOT / "tests" / "language" / "copy_tma.yaml").read_text(encoding="utf-8")
    path = tmp_path / "spec.yaml"
    path.write_text(
        source.replace("kind: smem", "kind: smen").replace("num_warps: 4", "warps: 4").replace("tsgen: 1", "tsgen: 3")
    )
    codes = [d.code for d in load_document(path).diagnostics]
    assert sorted(codes) == ["TS120", "TS121", "TS123", "TS124"]


def test_the_schema_is_json() -> None:
    assert json.loads(dumps(schema())) == json.loads(json.dumps(schema()))
