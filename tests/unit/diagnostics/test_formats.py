"""Each output format against its snapshot, and what tools rely on in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.diagnostics.findings import SOURCE, reports
from tsgen.diagnostics import Diagnostic, Related, Span
from tsgen.diagnostics.formats import FORMATS, render
from tsgen.diagnostics.formats.full import render_findings
from tsgen.diagnostics.report import FileReport

SNAPSHOTS = Path(__file__).with_name("snapshots")


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_prints_what_its_snapshot_says(name: str) -> None:
    """`python -m tests.support.regenerate` writes the snapshots; review what it changes."""
    assert render(name, reports()) == (SNAPSHOTS / f"{name}.txt").read_text(encoding="utf-8")


def test_colours_add_nothing_but_escape_sequences() -> None:
    import re

    coloured = render("full", reports(), color=True)
    assert "\x1b[1;31m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render("full", reports())


@pytest.mark.parametrize("name", [f for f in FORMATS if f != "json"])
def test_no_control_character_of_a_spec_reaches_the_terminal(name: str) -> None:
    text = render(name, reports())
    assert not any(ord(c) < 0x20 and c not in "\n\t" for c in text)


def _finding(span: Span, *related: Related) -> Diagnostic:
    return Diagnostic("TS990", "error", "message", span, related=related)


def _lines(text: str, span: Span, *related: Related) -> list[str]:
    return render_findings(FileReport("x", text, (_finding(span, *related),)), False).splitlines()


def test_carets_stand_below_their_text_behind_tabs_and_wide_characters() -> None:
    lines = _lines("a\t名前x\n", Span(1, 5, 1, 6))
    source, carets = lines[3], lines[4]
    assert source == "1 | a   名前x"
    assert carets == "  |         ^"  # a, tab to column 4, two characters of two columns


def test_a_span_past_the_end_of_the_file_is_still_shown() -> None:
    lines = _lines("a: 1", Span(7, 30, 7, 40))
    assert lines[4] == "  |     ^"


def test_an_empty_span_gets_one_caret() -> None:
    assert _lines("a: 1", Span(1, 2, 1, 2))[4] == "  |  ^"


def test_a_long_line_is_cut_around_the_mark() -> None:
    lines = _lines("x" * 5000 + "HERE" + "y" * 5000, Span(1, 5001, 1, 5005))
    column = lines[3].index("HERE")
    assert max(map(len, lines)) < 160
    assert lines[4].index("^^^^") == column


def test_distant_places_are_separated() -> None:
    text = "\n".join(f"line{n}: {n}" for n in range(1, 30))
    lines = _lines(text, Span(3, 1, 3, 6), Related("released here", Span(20, 1, 20, 7)))
    assert "..." in lines
    assert lines[-2].endswith("------ released here")


def test_json_has_exactly_the_keys_of_the_contract() -> None:
    files = json.loads(render("json", reports()))["files"]
    assert [set(f) for f in files] == [{"path", "ok", "diagnostics", "proof"}] * 3
    assert [f["ok"] for f in files] == [False, True, False]
    assert set(files[0]["proof"]) == {"complete", "states", "seconds"}
    finding = files[0]["diagnostics"][0]
    assert set(finding) == {
        "code", "severity", "message", "line", "column", "end_line", "end_column", "help", "related",
    }  # fmt: skip
    assert set(finding["related"][0]) == {"message", "line", "column"}


def test_github_commands_are_one_line_each_and_escaped() -> None:
    lines = render("github", reports()).splitlines()
    assert len(lines) == 4
    assert "::100%25 of this, and that: a name%0Aof two lines" in lines[1]
    assert "endLine=9" in lines[2] and "col=" not in lines[2]


def test_sarif_points_rules_and_artifacts_by_valid_indices() -> None:
    run = json.loads(render("sarif", reports()))["runs"][0]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        location = result["locations"][0]["physicalLocation"]["artifactLocation"]
        assert run["artifacts"][location["index"]]["location"]["uri"] == location["uri"]
    assert run["artifacts"][0]["location"]["uri"] == "specs/my%20copy.yaml"
    assert "\t" in SOURCE  # the snapshot covers tabs
