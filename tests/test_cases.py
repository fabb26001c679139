"""The golden cases: tests/cases/NAME/ holds a spec, the findings it must have, and how they are printed.

A case shows one rule failing alone (or, with no findings, just passing). `expected.json` is a list of findings, each
with code, message, line and column; `full.txt` is the output of `tsgen check`, which
`python -m tests.support.regenerate` writes.
"""

from __future__ import annotations

import json

import pytest

from tests.support.cases import CASES, case_folders, full_text, spec_name
from tests.support.golden import timeless
from tests.support.process import tsgen

KEYS = ("code", "message", "line", "column")


@pytest.mark.parametrize("case", case_folders())
def test_a_case_has_the_findings_it_must_have(case: str) -> None:
    expected = json.loads((CASES / case / "expected.json").read_text(encoding="utf-8"))
    done = tsgen("check", spec_name(case), "--format", "json", cwd=CASES / case)
    found = json.loads(done.stdout)["files"][0]["diagnostics"]
    assert [{k: d[k] for k in KEYS} for d in found] == [{k: d[k] for k in KEYS} for d in expected]


@pytest.mark.parametrize("case", case_folders())
def test_a_case_is_printed_as_its_golden_says(case: str) -> None:
    golden = CASES / case / "full.txt"
    assert golden.is_file(), "run `python -m tests.support.regenerate`"
    assert timeless(full_text(case)) == timeless(golden.read_text(encoding="utf-8"))
