"""`tsgen build` as its users meet it: what is written, when, and what is refused."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import edit
from tests.support.process import COMMAND, ROOT, tsgen

GEMM = ["gemm_bf16_bias_gelu_sm90a.py", "gemm_narrow_sm90a.py", "gemm_sm90a.py"]


def modules(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_every_variant_gives_a_module_of_python(tmp_path: Path) -> None:
    done = tsgen("build", "specs/gemm.yaml", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    assert modules(tmp_path) == GEMM
    for name in GEMM:
        tree = ast.parse((tmp_path / name).read_text())
        imported = {a.name.split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        imported |= {(n.module or "").split(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
        assert "tsgen" not in imported and "cutlass" in imported


def test_generated_modules_are_those_of_the_specs() -> None:
    """The drift check of the project itself."""
    done = tsgen("build", "--check", "specs")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_module_does_not_depend_on_where_the_build_ran(tmp_path: Path) -> None:
    tsgen("build", "specs/copy.yaml", "-o", tmp_path / "a")
    tsgen("build", ROOT / "specs/copy.yaml", "-o", "b", cwd=tmp_path)
    tsgen("build", "copy.yaml", "-o", tmp_path / "c", cwd=ROOT / "specs")
    texts = {(tmp_path / d / "copy_sm90a.py").read_text() for d in "abc"}
    assert len(texts) == 1


def test_one_variant_alone(tmp_path: Path) -> None:
    tsgen("build", "specs/gemm.yaml", "-o", tmp_path, "--variant", "narrow")
    assert modules(tmp_path) == ["gemm_narrow_sm90a.py"]


def test_an_unchanged_module_is_left_alone(tmp_path: Path, copy: Path) -> None:
    out = tmp_path / "out"
    assert "written" in tsgen("build", copy, "-o", out).stdout
    module = out / "copy_tma_sm90a.py"
    os.utime(module, (1, 1))
    assert "unchanged" in tsgen("build", copy, "-o", out).stdout
    assert module.stat().st_mtime == 1


def test_a_spec_with_errors_is_not_built(tmp_path: Path, copy: Path) -> None:
    out = tmp_path / "out"
    tsgen("build", copy, "-o", out)
    before = (out / "copy_tma_sm90a.py").read_bytes()
    edit(copy, ".release()", ".relaese()")
    done = tsgen("build", copy, "-o", out)
    assert done.returncode == 1 and "error[TS" in done.stderr
    assert (out / "copy_tma_sm90a.py").read_bytes() == before


def test_check_prints_the_drift_and_writes_nothing(tmp_path: Path) -> None:
    tsgen("build", "specs/gemm.yaml", "-o", tmp_path)
    module = tmp_path / "gemm_sm90a.py"
    assert tsgen("build", "specs/gemm.yaml", "-o", tmp_path, "--check").returncode == 0
    changed = module.read_text() + "\nx = 1\n"
    module.write_text(changed)
    (tmp_path / "gemm_narrow_sm90a.py").unlink()
    done = tsgen("build", "specs/gemm.yaml", "-o", tmp_path, "--check")
    assert done.returncode == 1 and "drift" in done.stderr
    assert "-x = 1" in done.stdout and "--- /dev/null" in done.stdout
    assert module.read_text() == changed and not (tmp_path / "gemm_narrow_sm90a.py").exists()


def test_check_names_a_module_whose_variant_is_gone(tmp_path: Path, gemm: Path) -> None:
    out = tmp_path / "out"
    tsgen("build", gemm, "-o", out)
    edit(gemm, "  narrow: {tile_n: 128, stages: 6, cluster_m: 1}\n", "")
    done = tsgen("build", gemm, "-o", out, "--check")
    assert done.returncode == 1 and "gemm_narrow_sm90a.py: no variant" in done.stdout


def test_check_names_modules_whose_spec_or_kernel_is_gone(tmp_path: Path, gemm: Path, copy: Path) -> None:
    out = tmp_path / "out"
    tsgen("build", gemm, copy, "-o", out)
    gemm.unlink()
    edit(copy, "target: [sm_90a, sm_100a, sm_120a]", "target: sm_90a")
    edit(copy, "kernel: copy_tma", "kernel: copied")
    (out / "by_hand.py").write_text("x = 1\n")
    for specs in (tmp_path, copy):
        done = tsgen("build", specs, "-o", out, "--check")
        assert done.returncode == 1
        lines = [line for line in done.stdout.splitlines() if line.startswith(str(out))]
        gone = [f"{out / name}: its spec gemm.yaml is not in {tmp_path} any more" for name in GEMM]
        old = [f"{out}/copy_tma_{sm}.py: no variant or target of {copy}" for sm in ("sm100a", "sm120a", "sm90a")]
        assert len(lines) == 6 and all(a.startswith(b) for a, b in zip(lines, old + gone, strict=True))
        assert "drift: 1 of 1 module outdated" in done.stderr and "drift: 6 left over" in done.stderr


def test_modules_of_specs_from_elsewhere_are_no_leftovers(tmp_path: Path, gemm: Path, copy: Path) -> None:
    other = tmp_path / "other/copy_tma.yaml"
    other.parent.mkdir()
    copy.rename(other)
    out = tmp_path / "out"
    tsgen("build", gemm, "-o", out)
    assert "left over" not in tsgen("build", other, "-o", out, "--check").stderr


def test_two_specs_of_one_kernel_do_not_overwrite_each_other(tmp_path: Path, copy: Path) -> None:
    out = tmp_path / "out"
    twin = copy.with_name("twin.yaml")
    twin.write_text(copy.read_text())
    done = tsgen("build", tmp_path, "-o", out)
    assert done.returncode == 2 and "both give" in done.stderr and not out.exists()
    assert tsgen("build", copy, "-o", out).returncode == 0
    for check in ([], ["--check"]):
        done = tsgen("build", twin, "-o", out, *check)
        assert done.returncode == 2 and f"{copy} and {twin} both give" in done.stderr
    copy.unlink()  # it was renamed to the twin
    assert tsgen("build", twin, "-o", out).returncode == 0
    twin.rename(copy)
    edit(copy, "kernel: copy_tma", "kernel: copied")
    twin.write_text(copy.read_text().replace("kernel: copied", "kernel: copy_tma"))
    assert tsgen("build", tmp_path, "-o", out).returncode == 0  # the old name is another spec's now


def test_a_folder_stands_for_the_specs_in_it(tmp_path: Path, copy: Path) -> None:
    (tmp_path / "notes.md").write_text("no spec")
    (tmp_path / "copy_toml.toml").write_bytes((ROOT / "specs/copy_toml.toml").read_bytes())
    done = tsgen("build", tmp_path, tmp_path / "copy_tma.yaml", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert len(modules(tmp_path / "out")) == 4


def test_set_does_not_change_the_modules_of_the_default_folder(tmp_path: Path, copy: Path) -> None:
    for check in ([], ["--check"]):
        done = tsgen("build", copy, "--set", "stages=2", *check, cwd=tmp_path)
        assert done.returncode == 2 and "-o DIR" in done.stderr and not (tmp_path / "generated").exists()
    assert tsgen("build", copy, "--set", "stages=2", "-o", "generated", cwd=tmp_path).returncode == 0


def test_the_depfile_names_spec_tool_and_templates(tmp_path: Path) -> None:
    tsgen("build", "specs/copy.yaml", "-o", tmp_path, "--depfile")
    rule = (tmp_path / "copy_sm90a.d").read_text().split("\n\n")[0]
    sources = rule.replace("\\\n", " ").split(":", 1)[1].split()
    assert "specs/copy.yaml" in sources and "templates/module.py.j2" in sources
    assert "templates/ops/wgmma.py.j2" not in sources  # a copy multiplies nothing
    assert "tsgen/emit/render.py" in sources and all((ROOT / s).exists() for s in sources)


def test_a_role_without_code_can_be_checked_but_not_built(tmp_path: Path, copy: Path) -> None:
    done = tsgen("build", copy, "-o", tmp_path / "x", "--check", "--compile", "ptx")
    assert done.returncode == 2 and "--check" in done.stderr


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.2, 0.25, 0.3, 0.35, 0.4])
def test_an_interrupted_build_leaves_whole_modules(tmp_path: Path, delay: float) -> None:
    """Killed at any moment: every module is the old one or the new one, and no process ends in a traceback."""
    old = {name: f"# old {name}\n" for name in GEMM}
    for name, text in old.items():
        (tmp_path / name).write_text(text)
    command = [*COMMAND, "build", "specs/gemm.yaml", "-o", str(tmp_path)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for name, text in old.items():
        now = (tmp_path / name).read_text()
        assert now == text or (now.endswith("\n") and ast.parse(now).body)


def test_an_output_folder_that_cannot_be_written_is_a_message(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    done = tsgen("build", "specs/copy.yaml", "-o", tmp_path / "out")
    assert done.returncode == 2 and "out" in done.stderr


def test_what_cannot_be_written_is_named_as_the_user_knows_it(tmp_path: Path, copy: Path) -> None:
    (tmp_path / "out/copy_tma_sm90a.py").mkdir(parents=True)
    done = tsgen("build", copy, "-o", tmp_path / "out")
    assert done.returncode == 2 and f"'{tmp_path}/out/copy_tma_sm90a.py': Is a directory" in done.stderr
    done = tsgen("build", copy, "-o", "/dev/full")
    assert done.returncode == 2 and "'/dev/full': it is no folder" in done.stderr


def test_the_ts_form_lies_beside_the_other(tmp_path: Path) -> None:
    """Both may share a folder: the check of one does not take the other's modules for leftovers."""
    assert tsgen("build", "specs/copy_cond.yaml", "-o", tmp_path).returncode == 0
    assert tsgen("build", "specs/copy_cond.yaml", "-o", tmp_path, "--emit", "ts").returncode == 0
    assert modules(tmp_path) == ["copy_cond_sm90a.py", "copy_cond_sm90a_ts.py"]
    for form in ("cute", "ts"):
        done = tsgen("build", "specs/copy_cond.yaml", "-o", tmp_path, "--emit", form, "--check")
        assert (done.returncode, done.stdout) == (0, "")


def test_what_ts_cannot_say_is_refused(tmp_path: Path) -> None:
    done = tsgen("build", "specs/gemm_pingpong.yaml", "-o", tmp_path, "--emit", "ts")
    assert done.returncode == 1 and "TS801" in done.stderr and "in TS" in done.stderr
    assert modules(tmp_path) == []
