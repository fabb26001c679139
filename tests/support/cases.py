"""The case folders: tests/cases/NAME/ with spec.yaml (or spec.toml), expected.json and full.txt."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.process import tsgen

CASES = Path(__file__).parents[1] / "cases"


def case_folders() -> list[str]:
    """Names of all cases."""
    return sorted(p.parent.name for p in CASES.glob("*/expected.json"))


def spec_name(case: str) -> str:
    """The spec's file name within the case's folder."""
    return next(name for name in ("spec.yaml", "spec.toml") if os.path.exists(CASES / case / name))


def full_text(case: str) -> str:
    """What `tsgen check` prints of a case, as a user sees it in the case's folder."""
    return tsgen("check", spec_name(case), cwd=CASES / case).stdout
