"""The Makefile: what is asked for is built, whatever outdated it, and nothing else is touched."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import edit
from tests.support.process import ROOT

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two specs, and a venv as README's first command leaves it: tsgen, but nothing to develop with."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "specs").mkdir()
    shutil.copy(ROOT / "specs/copy_every.yaml", tmp_path / "specs")
    shutil.copy(ROOT / "specs/copy_toml.toml", tmp_path / "specs")
    command = tmp_path / ".venv/bin/tsgen"
    command.parent.mkdir(parents=True)
    code = "from tsgen.cli import main; main()"
    command.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -c '{code}' \"$@\"\n")
    command.chmod(0o755)
    return tmp_path


def make(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=project, capture_output=True, text=True)


def generated(project: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in (project / "generated").iterdir()}


def test_a_build_mends_what_was_deleted_or_edited(project: Path) -> None:
    assert make(project, "build").returncode == 0
    modules = generated(project)
    assert sorted(modules) == ["copy_every_sm90a.py", "copy_toml_sm90a.py"]
    (project / "generated/copy_every_sm90a.py").unlink()
    (project / "generated/copy_toml_sm90a.py").write_text("edited")
    assert make(project, "build").returncode == 0 and generated(project) == modules
    assert make(project, "check").returncode == 0


@pytest.mark.parametrize("target", ["target:\n  - sm_90a", 'target: "sm_90a"', "target: [\n  sm_90a]"])
def test_one_spec_however_its_target_is_written(project: Path, target: str) -> None:
    edit(project / "specs/copy_every.yaml", "target: sm_90a", target)
    done = make(project, "copy_every")
    assert done.returncode == 0, done.stderr
    assert list(generated(project)) == ["copy_every_sm90a.py"]


def test_a_spec_under_another_file_name_does_not_take_the_modules_of_its_twin(project: Path) -> None:
    assert make(project, "copy_every").returncode == 0
    before = generated(project)
    shutil.copy(project / "specs/copy_every.yaml", project / "specs/renamed.yaml")
    for target in ("renamed", "build", "check"):
        done = make(project, target)
        assert done.returncode != 0 and "both give" in done.stderr
    assert generated(project) == before


def test_check_finds_a_module_whose_spec_is_gone(project: Path) -> None:
    assert make(project, "build").returncode == 0
    (project / "specs/copy_every.yaml").unlink()
    done = make(project, "check")
    assert done.returncode != 0 and "copy_every.yaml is not in specs any more" in done.stdout


@pytest.mark.parametrize("target", ["test", "lint", "docs"])
def test_what_developing_needs_is_installed_first(project: Path, target: str) -> None:
    install = ".venv/bin/pip install -q -e '.[cu13,dev]'"
    assert install in make(project, "-n", target).stdout
    (project / ".venv/bin/ruff").touch()
    assert "pip install" not in make(project, "-n", target).stdout
    assert "pip install" not in make(project, "-n", "build").stdout
