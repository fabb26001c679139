"""Specs to try the command line with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.process import ROOT


@pytest.fixture
def gemm(tmp_path: Path) -> Path:
    """A copy of the GEMM's spec that a test may change."""
    return Path(shutil.copy(ROOT / "specs/gemm.yaml", tmp_path))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the smallest spec with a pipeline."""
    return Path(shutil.copy(ROOT / "specs/copy_tma.yaml", tmp_path))


def edit(path: Path, old: str, new: str) -> Path:
    """Replaces a text that must occur in the file."""
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{old!r} is not in {path.name}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path
