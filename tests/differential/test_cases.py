"""The oracle's cases, through the same converter: the truth of each, and the rule that finds what is wrong with it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest

from tests.support.checking import check_text
from tests.support.process import ROOT
from tests.support.ts_json import convert
from tsgen.cli.catalogue import all_rules

ORACLE = ROOT / "tests" / "oracle"
CASES = sorted(p.stem for p in (ORACLE / "cases").glob("*.json"))
EXPECTED: dict[str, str] = tomllib.loads((ORACLE / "expected.toml").read_text(encoding="utf-8"))
CHECKS = (*range(1, 27), *range(30, 75), 80, 81, *range(85, 100), *range(110, 129), *range(130, 136), *range(140, 180))


def case(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ORACLE / "cases" / f"{name}.json").read_text(encoding="utf-8"))
    return document


def is_good(document: dict[str, Any]) -> bool:
    """The truth about a case; NVIDIA's verdict where that is not known to be wrong."""
    if "truth" in document:
        return bool(document["truth"] == "good")
    return bool(document["expect"]["verdict"] == "accept")


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_judged_by_its_truth(name: str) -> None:
    document = case(name)
    report = check_text(convert(document))
    errors = [d for d in report.diagnostics if d.severity == "error"]
    if is_good(document):
        assert errors == []
        assert report.proof.complete
    else:
        assert EXPECTED[name] in {d.code for d in errors}
        assert all(d.span.line > 0 for d in errors)


def test_every_bad_case_has_an_expected_rule() -> None:
    assert set(EXPECTED) == {name for name in CASES if not is_good(case(name))}


def test_the_converter_is_a_command() -> None:
    path = ORACLE / "cases" / "good_gemm.json"
    command = [sys.executable, "-m", "tests.support.ts_json", path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stdout == convert(case("good_gemm"))


@pytest.mark.dsl
@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl")
def test_nvidia_says_what_the_cases_expect() -> None:
    from tests.oracle import ts_oracle

    for name in CASES:
        document = case(name)
        found = ts_oracle.judge(document, 100_000)  # of those that need more, all verdicts come from other checks
        assert found["verdict"] == document["expect"]["verdict"], name
        assert document["expect"].get("check") in (None, found["check"]), name


def test_the_table_of_checks_names_rules_that_exist() -> None:
    text = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"TS\d{3}", text)) <= {rule.code for rule in all_rules()}


def test_the_table_of_checks_has_every_check_once() -> None:
    text = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if re.match(r"\| [CW]\d", line)]
    found = [int(n) for row in rows for n in re.findall(r"[CW](\d{3})(?!b)\b", row)]
    assert sorted(found) == list(CHECKS)
