"""`tsgen check` as its users meet it: exit statuses, formats, variants, unreadable input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import edit
from tests.support.process import COMMAND, ROOT, tsgen

SPECS = sorted(p.name for p in (ROOT / "specs").iterdir() if p.suffix in (".yaml", ".toml"))


@pytest.mark.parametrize("name", SPECS)
def test_every_spec_of_the_project_is_proven(name: str) -> None:
    done = tsgen("check", f"specs/{name}", "--format", "json")
    file = json.loads(done.stdout)["files"][0]
    assert done.returncode == 0, file["diagnostics"]
    assert file["ok"] and file["proof"]["complete"] and file["proof"]["states"] > 0


def test_a_dropped_release_is_found_in_every_format(gemm: Path) -> None:
    edit(gemm, "            - ab.release()  ", "            # ab.release()  ")
    done = tsgen("check", gemm, "--format", "json")
    findings = json.loads(done.stdout)["files"][0]["diagnostics"]
    assert done.returncode == 1 and findings
    line = next(d["line"] for d in findings if d["severity"] == "error")
    assert f"--> {gemm}:{line}:" in tsgen("check", gemm).stdout
    assert f"{gemm}:{line}:" in tsgen("check", gemm, "--format", "concise").stdout
    assert f"line={line}" in tsgen("check", gemm, "--format", "github").stdout
    results = json.loads(tsgen("check", gemm, "--format", "sarif").stdout)["runs"][0]["results"]
    assert line in [r["locations"][0]["physicalLocation"]["region"]["startLine"] for r in results]


def test_warn_only_reports_and_passes(copy: Path) -> None:
    edit(copy, "kernel: copy_tma", "kernel: copy_tma\nkernle: 1")
    assert tsgen("check", copy).returncode == 1
    done = tsgen("check", copy, "--warn-only")
    assert done.returncode == 0 and "kernle" in done.stdout
    assert tsgen("check", copy.with_name("gone.yaml"), "--warn-only").returncode == 2


def test_several_files_give_one_report_and_the_worst_status(copy: Path) -> None:
    done = tsgen("check", "specs/gemm.yaml", copy.with_name("gone.yaml"), copy, "--format", "json")
    assert [f["ok"] for f in json.loads(done.stdout)["files"]] == [True, False, True]
    assert done.returncode == 2


def test_a_finding_of_some_variants_names_them(gemm: Path) -> None:
    edit(gemm, "  narrow: {tile_n: 128, stages: 6, cluster_m: 1}", "  narrow: {tile_n: 128, stages: 60, cluster_m: 1}")
    done = tsgen("check", gemm, "--format", "concise")
    assert done.returncode == 1
    assert "(variant narrow)" in done.stdout and "bf16" not in done.stdout
    assert tsgen("check", gemm, "--variant", "f16").returncode == 0


def test_a_variant_is_checked_even_if_the_default_is_broken(gemm: Path) -> None:
    edit(gemm, "cluster_m: {value: 2,", "cluster_m: {value: 1,")
    edit(gemm, "  load: {warp_idx: 8,", "  load: {cta: 1, warp_idx: 8,")
    edit(gemm, "  narrow: {tile_n: 128, stages: 6, cluster_m: 1}", "  wide: {cluster_m: 2}")
    assert "TS243" in tsgen("check", gemm).stdout
    done = tsgen("check", gemm, "--variant", "wide")
    assert done.returncode == 1 and "TS243" not in done.stdout and "CTA 0" in done.stdout


def test_a_finding_of_all_variants_is_printed_once(gemm: Path) -> None:
    edit(gemm, "- ab.commit()", "- ab.comit()")
    lines = tsgen("check", gemm, "--format", "concise").stdout.splitlines()
    assert len(lines) == len(set(lines)) and "(variant" not in "".join(lines)
    assert any("comit" in line for line in lines)


def test_set_changes_a_param(gemm: Path) -> None:
    assert tsgen("check", gemm, "--set", "stages=60").returncode == 1
    assert tsgen("check", gemm, "--set", "stages=3").returncode == 0


def test_the_params_own_values_are_the_variant_default(gemm: Path) -> None:
    plain = tsgen("show", gemm, "memory")
    assert tsgen("show", gemm, "memory", "--variant", "default").stdout == plain.stdout != ""
    edit(gemm, "variants:\n", "variants:\n  default: {stages: 3}\n")  # a variant of that name is meant
    named = tsgen("show", gemm, "memory", "--variant", "default")
    assert named.returncode == 0 and named.stdout != plain.stdout
    edit(gemm, "  default: {stages: 3}\n", "")
    edit(gemm, "cluster_m: {value: 2,", "cluster_m: {value: 3.5,")  # no variant can be resolved
    assert "cluster_m" in tsgen("check", gemm, "--variant", "default").stdout


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("stages=abc", "--set stages=abc: unknown name `abc`"),
        ("stages=2.5", "--set stages=2.5: param `stages`"),
        ("stages=(", "--set stages=(: cannot parse `(`"),
        ("io=f32", "--set io=f32: param `io` is f32"),
        ("epi_stages=3", "does not hold for epi_n = 64, epi_stages = 3, tile_n = 256"),
    ],
)
def test_a_wrong_value_of_set_is_said_to_be_one(value: str, message: str) -> None:
    """Its place is that of the param, whose text is another."""
    done = tsgen("check", "specs/gemm.yaml", "--set", value)
    assert done.returncode == 1 and message in done.stdout and done.stdout.count("error[") == 1


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (
            "params: {io: f16, tile_m: 64, tile_n: 64,",
            'params: {io: f16, tile_m: "10**10**10", tile_n: tile_m,',
            "TS113",
        ),
        ("launch: {", 'launch: {let: {a: "foo + 1", b: a + 1}, cluster: {m: a}, ', "TS130"),
        ('launch: {tiles: {m: "ceil_div(M, tile_m)', 'launch: {let: {a: foo + 1}, tiles: {m: "ceil_div(M, a)', "TS130"),
    ],
)
def test_what_has_no_value_is_one_finding_whoever_uses_it(copy: Path, old: str, new: str, code: str) -> None:
    edit(copy, old, new)
    lines = tsgen("check", copy, "--format", "concise").stdout.splitlines()
    assert len(lines) == 1 and code in lines[0], lines


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "stagse=3"], "stagse"),
        (["--set", "stages"], "NAME=VALUE"),
        (["--variant", "wide"], "narrow"),
        (["--target", "sm_80"], "sm_90a"),
        (["--format", "xml"], "sarif"),
    ],
)
def test_options_that_make_no_sense_are_usage_errors(arguments: list[str], words: str) -> None:
    done = tsgen("check", "specs/gemm.yaml", *arguments)
    assert done.returncode == 2 and words in done.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.yaml", b""),
        ("comment.yaml", b"# nothing\n"),
        ("latin.yaml", "kernel: gemm\ndoc: é\n".encode("latin-1")),
        ("broken.yaml", b"a: [1, 2\nb: }\n"),
        ("tabs.yaml", b"a:\n\t- b\n"),
        ("bomb.yaml", b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
            b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(ord("b"), ord("m"))
        )),
        ("deep.yaml", b"a: " + b"[" * 5000 + b"]" * 5000),
        ("binary.yaml", bytes(range(256))),
        ("broken.toml", b"a = [1, \n b = "),
        ("text.txt", b"tsgen: 1\n"),
    ],
)  # fmt: skip
def test_unreadable_files_are_reported_with_a_place(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    done = tsgen("check", path, "--format", "json")
    file = json.loads(done.stdout)["files"][0]
    assert done.returncode in (1, 2) and not file["ok"]
    assert all(d["line"] >= 1 and d["column"] >= 1 and d["message"] for d in file["diagnostics"])


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A spec that nobody but root can read."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root reads every file, and needs setpriv not to")
    path = tmp_path / "locked.yaml"
    path.write_text("tsgen: 1\n")
    path.chmod(0)
    return path


@pytest.mark.parametrize("form", ["json", "sarif", "full"])
def test_a_spec_that_may_not_be_read_is_a_finding_among_others(locked: Path, form: str) -> None:
    done = tsgen("check", locked, "specs/copy.yaml", "--format", form, as_anybody=True)
    assert done.returncode == 2 and done.stderr == ""
    assert "TS102" in done.stdout and "permission denied" in done.stdout
    if form == "json":
        assert [f["ok"] for f in json.loads(done.stdout)["files"]] == [False, True]


@pytest.mark.parametrize(
    "command", [["build"], ["show"], ["simulate"], ["diff", "specs/copy.yaml"], ["new", "mine", "--from"]]
)
def test_no_verb_takes_a_spec_that_may_not_be_read_for_wrong_usage(locked: Path, command: list[str]) -> None:
    done = tsgen(*command, locked, as_anybody=True)
    assert done.returncode == 2 and "TS102" in done.stderr and "Usage" not in done.stderr


@pytest.mark.parametrize("command", [["check", "specs/copy.yaml"], ["rules"], ["--help"]])
def test_a_full_disk_under_the_output_is_no_fault_of_tsgen(command: list[str]) -> None:
    for redirected in ("> /dev/full", "> /dev/full 2>&1"):
        done = subprocess.run(
            ["sh", "-c", f'"$@" {redirected}', "sh", *COMMAND, *command], cwd=ROOT, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        said = "" if "2>" in redirected else "tsgen: writing the output: No space left on device\n"
        assert (done.returncode, done.stderr) == (2, said)


def test_a_directory_and_a_missing_file_are_status_2(tmp_path: Path) -> None:
    assert tsgen("check", tmp_path).returncode == 2
    assert tsgen("check", tmp_path / "gone.yaml").returncode == 2


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "1",
        "null",
        "tsgen: 1",
        "tsgen: 2",
        "tsgen: 1\nkernel: [x]",
        "a: 1\na: 2",
        "? {x: y}\n: z",
        "on: off",
        "a: !!python/object:os.system x",
    ],
)
def test_documents_that_are_no_spec_are_findings(tmp_path: Path, content: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(content)
    done = tsgen("check", path)
    assert done.returncode in (1, 2) and "error[TS1" in done.stdout


def test_no_colour_leaves_a_pipe() -> None:
    done = tsgen("check", "specs/gemm.yaml", env={"NO_COLOR": "", "TERM": "xterm-256color"})
    assert "\x1b" not in done.stdout
