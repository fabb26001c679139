"""Each rule of the front end fails alone on one edit of a sketch, at the right place, and just passes on another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.spec.edit import Edit
from tests.unit.spec.edits_parts import PARTS
from tests.unit.spec.edits_works import WORKS
from tests.unit.spec.test_files import FILE_CODES
from tests.unit.spec.test_selection import SELECTION_CODES
from tsgen.diagnostics import RULES, Diagnostic
from tsgen.spec import load_document, resolve

EDITS = (*PARTS, *WORKS)
LANGUAGE = Path(__file__).parents[2] / "language"


def findings(text: str, folder: Path) -> tuple[Diagnostic, ...]:
    path = folder / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    return resolve(load_document(path)).diagnostics


def name(edit: Edit) -> str:
    return f"{edit.code}-{RULES[edit.code].name}"


@pytest.mark.parametrize("edit", EDITS, ids=name)
def test_a_rule_fails_alone_and_at_its_place(edit: Edit, tmp_path: Path) -> None:
    text = edit.apply((LANGUAGE / f"{edit.spec}.yaml").read_text(encoding="utf-8"), edit.new)
    found = findings(text, tmp_path)
    assert [d.code for d in found] == [edit.code], [f"{d.code}: {d.message}" for d in found]
    assert edit.message in found[0].message
    assert (found[0].span.line, found[0].span.column) == edit.place(text)


@pytest.mark.parametrize("edit", EDITS, ids=name)
def test_a_rule_just_passes(edit: Edit, tmp_path: Path) -> None:
    text = edit.apply((LANGUAGE / f"{edit.spec}.yaml").read_text(encoding="utf-8"), edit.passes)
    assert findings(text, tmp_path) == ()


def test_every_rule_of_the_front_end_is_covered() -> None:
    own = {c for c in RULES if "TS100" <= c < "TS260"}
    assert own == {e.code for e in EDITS} | FILE_CODES | SELECTION_CODES


@pytest.mark.parametrize("code", sorted(c for c in RULES if "TS100" <= c < "TS260"))
def test_a_rule_explains_what_and_why(code: str) -> None:
    paragraphs = RULES[code].doc.split("\n\n", 1)
    assert len(paragraphs) == 2, "a first line, a blank line, then why it matters and how to mend it"
    assert paragraphs[0].endswith(".") and len(paragraphs[0]) <= 120
