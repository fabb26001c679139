"""Kernels for unit tests: the bundled example specs, with some text replaced."""

from __future__ import annotations

from pathlib import Path

from tsgen.model.kernel import Kernel
from tsgen.spec import load_program

LANGUAGE = Path(__file__).parents[1] / "language"
NAMES = sorted(p.stem for p in LANGUAGE.glob("*.yaml"))


def kernel(tmp_path: Path, name: str, *edits: tuple[str, str], variant: str | None = None, nth: int = 0) -> Kernel:
    """A kernel of an example after edits; every edit must find its text."""
    text = (LANGUAGE / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    result = load_program(path, variant=variant)
    assert result.program is not None, result.diagnostics
    return result.program.kernels[nth]
