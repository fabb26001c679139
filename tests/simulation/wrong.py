"""The wrong variants of the tests, as texts: what the verifier rejects because it hangs or races."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance import test_wrong_flow
from tests.support.cases import CASES, case_folders, spec_name
from tests.unit.patterns import test_wrong, test_wrong_memory

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Wrong:
    """One wrong variant: `name` says where it comes from and what is wrong."""

    name: str
    text: str
    suffix: str
    variant: str | None = None


def wrong_variants() -> Iterator[Wrong]:
    """Those of tests/cases, tests/unit/patterns and tests/acceptance/test_wrong_flow.py."""
    for case in case_folders():
        path = CASES / case / spec_name(case)
        yield Wrong(f"cases: {case}", path.read_text(encoding="utf-8"), path.suffix)
    for module in (test_wrong, test_wrong_memory):
        for name, source, variant, edits, _ in module.CASES:
            text = (ROOT / source).read_text(encoding="utf-8")
            for old, new in edits:
                text = text.replace(old, new)
            label = f"{Path(source).stem}{f' {variant}' if variant else ''}: {name}"
            yield Wrong(label, text, Path(source).suffix, variant)
    for name, (source, _, _, right, wrong) in test_wrong_flow.WRONG.items():
        text = (ROOT / source).read_text(encoding="utf-8").replace(right, wrong)
        yield Wrong(f"{Path(source).stem}: {name}", text, Path(source).suffix)
