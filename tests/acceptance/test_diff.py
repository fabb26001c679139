"""`tsgen diff`: what counts as a change, and how it is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import edit
from tests.support.process import tsgen

OLD = "specs/gemm.yaml"


def changes(new: Path) -> list[tuple[str, str, str, str | None, str | None]]:
    done = tsgen("diff", OLD, new, "--format", "json")
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["same"] else 1)
    return [(c["section"], c["subject"], c["attribute"], c["old"], c["new"]) for c in found["changes"]]


def steps(new: Path) -> list[tuple[str, str, str]]:
    found = json.loads(tsgen("diff", OLD, new, "--format", "json").stdout)
    return [(t["task"], c["kind"], c["step"]) for t in found["steps"] for c in t["changes"]]


def test_the_same_spec_has_not_changed(gemm: Path) -> None:
    done = tsgen("diff", OLD, gemm)
    assert done.returncode == 0 and "no change in meaning" in done.stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  tile_k: 64\n", "  tile_k: 64   # a comment\n"),
        ("tsgen: 1\nkernel: gemm\n", "kernel: gemm\ntsgen: 1\n"),
        ("tile_m // 2", "tile_m//2"),
        ("epi: {", "epi: {"),
        ("doc: |\n", "doc: |\n  Another text.\n"),
    ],
)
def test_how_it_is_written_does_not_count(gemm: Path, old: str, new: str) -> None:
    text = gemm.read_text()
    gemm.write_text(text.replace(old, new, 1))
    assert tsgen("diff", OLD, gemm).returncode == 0


def test_stages_change_pipeline_memory_and_proof(gemm: Path) -> None:
    edit(gemm, "stages: {value: 4,", "stages: {value: 3,")
    found = changes(gemm)
    assert ("pipelines", "ab", "stages", "4", "3") in found
    assert ("memory", "shared memory", "bytes", "229440", "180272") in found
    text = tsgen("diff", OLD, gemm).stdout
    assert "(-49168)" in text and "before: complete" in text and "after:  complete" in text


def test_a_step_that_moved_has_moved(gemm: Path) -> None:
    edit(gemm, "    - pdl.launch_griddep()\n", "")
    edit(gemm, "    - pdl.wait_griddep()", "    - pdl.launch_griddep()\n    - pdl.wait_griddep()")
    assert [(t, k) for t, k, _ in steps(gemm)] == [("load", "moved")]


def test_added_and_removed_steps(gemm: Path) -> None:
    edit(gemm, "            - ab.acquire()\n", "            - ab.try_acquire()\n            - ab.acquire()\n")
    edit(gemm, "    - pdl.launch_griddep()\n", "")
    assert sorted(steps(gemm)) == [
        ("load", "added", "ab.try_acquire()"),
        ("load", "removed", "pdl.launch_griddep()"),
    ]


def test_a_change_that_only_a_variant_sees_names_it(gemm: Path) -> None:
    edit(gemm, "(bias if has_bias else 0)", "(bias if has_bias else 0)")
    edit(
        gemm,
        "c = c + bias[n*tile_n + cols(c)] if has_bias else c",
        "c = c - bias[n*tile_n + cols(c)] if has_bias else c",
    )
    found = json.loads(tsgen("diff", OLD, gemm, "--format", "json").stdout)["changes"]
    assert [c["variants"] for c in found] == [["bf16_bias_gelu"]]


def test_a_proof_that_breaks_is_a_change(gemm: Path) -> None:
    edit(gemm, "            - ab.release()  ", "            # ab.release()  ")
    done = tsgen("diff", OLD, gemm)
    assert done.returncode == 1 and "after:  fails" in done.stdout


def test_markdown_is_a_comment_for_a_pull_request(gemm: Path) -> None:
    edit(gemm, "stages: {value: 4,", "stages: {value: 3,")
    edit(gemm, "    - pdl.launch_griddep()\n", "")
    text = tsgen("diff", OLD, gemm, "--format", "markdown").stdout
    assert text.startswith("### `specs/gemm.yaml` → ")
    assert "| `ab` stages [variant f16, bf16_bias_gelu] | 4 | 3 (-1) |" in text
    assert "```diff\n- pdl.launch_griddep()" in text and "| before | complete" in text


def test_unreadable_sides_are_status_2(gemm: Path, tmp_path: Path) -> None:
    assert tsgen("diff", OLD, tmp_path / "gone.yaml").returncode == 2
    (tmp_path / "broken.yaml").write_text("a: [")
    done = tsgen("diff", tmp_path / "broken.yaml", gemm)
    assert done.returncode == 2 and "error[TS1" in done.stderr


def test_a_side_may_be_a_pipe(gemm: Path) -> None:
    """As in `tsgen diff <(git show HEAD:specs/gemm.yaml) specs/gemm.yaml`."""
    toml = Path("specs/copy_toml.toml")
    for spec in (gemm, toml):
        done = tsgen("diff", "/dev/stdin", spec, stdin=spec.read_text())
        assert done.returncode == 0 and "no change in meaning" in done.stdout
