"""No text whatsoever makes the front end raise: whatever is damaged, the answer is a program or findings."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tsgen.spec import load_document, resolve, variants_of
from tsgen.spec.node import plain

LANGUAGE = Path(__file__).parents[2] / "language"
SOURCES = [p.read_text(encoding="utf-8") for p in sorted(LANGUAGE.glob("*.yaml"))]
DOCUMENTS: list[Any] = [[plain(r) for r in load_document(p).roots] for p in sorted(LANGUAGE.glob("*.yaml"))]
_YAML = (
    "",
    " ",
    "\n",
    "[",
    "]",
    "{",
    "}",
    ":",
    ",",
    "'",
    '"',
    "*",
    "&",
    "-",
    "1e-3",
    "true",
    "~",
    "|",
    "\t",
    "\0",
    "é",
)
_WORDS = (
    "0",
    "-1",
    "9" * 30,
    "x",
    "w",
    "None",
    "inf",
    "acc.c",
    "ring",
    "[i]",
    "(",
    ")",
    " if ",
    "T",
    ".T",
    "//0",
    "**9",
)
PIECES = st.sampled_from((*_YAML, *_WORDS))


def survives(text: str, suffix: str = ".yaml") -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"spec{suffix}"
        path.write_text(text, encoding="utf-8")
        document = load_document(path)
        for variant in variants_of(document):
            result = resolve(document, variant=variant)
            assert (result.program is None) == any(d.severity == "error" for d in result.diagnostics)
            lines = text.split("\n")
            for d in result.diagnostics:
                assert 1 <= d.span.line <= len(lines) + 1 and d.span.column >= 1, d


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A sketch with a few words replaced by others or by pieces that mean something to YAML or to expressions."""
    text = draw(st.sampled_from(SOURCES))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 1, 1, 2, 4, 8, 20]))
        text = text[:start] + draw(PIECES) + text[start + length :]
    return text


def scalars(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The path and value of each text or number in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for k, v in items:
        if isinstance(v, dict | list):
            yield from scalars(v, (*at, k))
        else:
            yield (*at, k), v


@st.composite
def altered(draw: st.DrawFn) -> str:
    """A sketch in which a few texts and numbers are replaced by others of the same sketch, or by small expressions."""
    documents = copy.deepcopy(draw(st.sampled_from(DOCUMENTS)))
    for _ in range(draw(st.integers(1, 3))):
        places = list(scalars(documents))
        path, _ = draw(st.sampled_from(places))
        parent = documents
        for step in path[:-1]:
            parent = parent[step]
        other = draw(st.sampled_from(places))[1]
        parent[path[-1]] = draw(
            st.sampled_from([other, "0", "-1", 10**18, 0.5, "x[0]", "m", "thread", "io", f"{other} + 1"])
        )
    return "".join(f"--- {json.dumps(d)}\n" for d in documents)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(altered())
def test_altered_values(text: str) -> None:
    survives(text)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(damaged())
def test_damaged_yaml(text: str) -> None:
    survives(text)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=60), st.sampled_from([".yaml", ".toml"]))
def test_any_text(text: str, suffix: str) -> None:
    survives(text, suffix)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 900), st.sampled_from([0, 1, 3, 9]), PIECES)
def test_damaged_toml(start: int, length: int, piece: str) -> None:
    source = (Path(__file__).parents[3] / "specs" / "copy_toml.toml").read_text(encoding="utf-8")
    survives(source[:start] + piece + source[start + length :], ".toml")


def test_deep_expressions_are_refused(tmp_path: Path) -> None:
    base = (LANGUAGE / "copy_tma.yaml").read_text(encoding="utf-8")
    for deep in ("+".join(["1"] * 400), "f(" * 70 + "1" + ")" * 70, "not " * 400 + "1", "-" * 900 + "1", "[" * 300):
        path = tmp_path / "spec.yaml"
        path.write_text(base.replace("stages: 4}", f'stages: "{deep}"}}'))
        document = load_document(path)
        assert resolve(document).program is None
