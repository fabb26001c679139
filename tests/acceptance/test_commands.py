"""The smaller verbs, the help, the hooks, and what happens when tsgen itself fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.process import COMMAND, ROOT, tsgen
from tsgen.cli.app import VERBS


@pytest.mark.parametrize("verb", [[], *([v] for v in VERBS)])
def test_every_verb_has_help(verb: list[str]) -> None:
    done = tsgen(*verb, "--help")
    assert done.returncode == 0 and done.stdout.startswith("Usage: tsgen")


def test_the_documentation_lists_every_verb() -> None:
    text = (ROOT / "docs/cli.md").read_text()
    assert [v for v in VERBS if f"tsgen {v}" not in text] == []


def test_an_unknown_verb_gets_a_hint() -> None:
    done = tsgen("chek", "specs/gemm.yaml")
    assert done.returncode == 2 and "Did you mean 'check'?" in done.stderr


def test_explain_takes_code_and_name() -> None:
    by_code = tsgen("explain", "ts107")
    assert by_code.returncode == 0 and len(by_code.stdout) > 200
    assert tsgen("explain", "duplicate-key").stdout == by_code.stdout
    done = tsgen("explain", "TS1077")
    assert done.returncode == 2 and "TS107" in done.stderr


def test_every_rule_is_explained() -> None:
    rules = json.loads(tsgen("rules", "--format", "json").stdout)
    assert len(rules) > 50 and len({r["name"] for r in rules}) == len(rules)
    for r in rules:
        assert r["summary"].endswith((".", "?", ":")) or "…" in r["summary"], r
        assert r["code"][:3] in {f"TS{n}" for n in range(1, 9)} and r["name"] == r["name"].lower()


def test_the_page_of_rules_is_that_of_the_registry() -> None:
    """`make docs` writes it anew."""
    assert (ROOT / "docs/rules.md").read_text() == tsgen("rules", "--format", "markdown").stdout


def test_the_bundled_schema_is_that_of_the_code() -> None:
    """The file that the modelines of the specs name; `make docs` writes it anew."""
    assert (ROOT / "tsgen/schema/kernel.schema.json").read_text() == tsgen("schema").stdout


def test_the_schema_is_draft_07_and_accepts_the_specs() -> None:
    from jsonschema import Draft7Validator

    schema = json.loads(tsgen("schema").stdout)
    Draft7Validator.check_schema(schema)
    for path in (ROOT / "specs").glob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            assert not list(Draft7Validator(schema).iter_errors(document)), path.name


def test_new_copies_a_spec_under_another_name_once(copy: Path) -> None:
    done = tsgen("new", "mine", "--from", copy)
    made = copy.with_name("mine.yaml")
    assert done.returncode == 0 and tsgen("check", made).returncode == 0
    old, new = copy.read_text().splitlines(), made.read_text().splitlines()
    assert [(a, b) for a, b in zip(old, new, strict=True) if a != b] == [("kernel: copy_tma", "kernel: mine")]
    again = tsgen("new", "mine", "--from", copy)
    assert again.returncode == 2 and "exists" in again.stderr


def test_new_takes_toml_too(tmp_path: Path) -> None:
    spec = tmp_path / "copy_toml.toml"
    spec.write_bytes((ROOT / "specs/copy_toml.toml").read_bytes())
    assert tsgen("new", "mine", "--from", spec).returncode == 0
    assert tsgen("check", tmp_path / "mine.toml").returncode == 0


@pytest.mark.parametrize("name", ["1st", "a-b", "", "a b", "../x"])
def test_new_wants_a_kernel_name(copy: Path, name: str) -> None:
    assert tsgen("new", name, "--from", copy).returncode == 2


def test_the_hooks_call_verbs_that_exist() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [h["entry"] for h in hooks] == ["tsgen check", "tsgen build --check"]
    for hook in hooks:
        verb, *options = [*hook["entry"].split()[1:], *hook.get("args", [])]
        assert tsgen(verb, *options, *(["specs/copy.yaml"] if hook.get("pass_filenames", True) else [])).returncode == 0


def test_the_drift_hook_sees_edits_by_hand_and_specs_that_are_gone() -> None:
    """Neither is in the list of staged specs: it must run always, on the whole folder."""
    _, drift = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert drift["always_run"] and not drift["pass_filenames"] and drift["args"] == ["specs"]


def test_a_closed_pipe_is_no_traceback() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([*COMMAND, "rules"], cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.wait()


def test_an_error_of_tsgen_itself_is_one_line() -> None:
    script = (
        "import tsgen.cli, tsgen.cli.check as c, sys\n"
        "c.render = lambda *a, **k: 1 / 0\n"
        "sys.exit(tsgen.cli.run(['check', 'specs/copy.yaml']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "internal error: ZeroDivisionError" in done.stderr and "report" in done.stderr
