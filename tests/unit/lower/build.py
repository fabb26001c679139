"""Kernels for the tests of lowering: a bundled spec with some lines replaced, and its generated text."""

from __future__ import annotations

from pathlib import Path

from tsgen.derive import derive
from tsgen.emit import emit
from tsgen.model.kernel import Program
from tsgen.spec import load_program

ROOT = Path(__file__).parents[3]


def program(
    tmp_path: Path,
    source: str,
    *edits: tuple[str, str],
    variant: str | None = None,
    target: str | None = None,
    **sets: str,
) -> Program:
    """The program of a file below the project's root after edits; every edit must find its text."""
    text = (ROOT / source).read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / Path(source).name
    path.write_text(text)
    result = load_program(path, variant=variant, sets=sets, target=target)
    assert result.program is not None, result.diagnostics
    return result.program


def module(
    tmp_path: Path,
    source: str,
    *edits: tuple[str, str],
    variant: str | None = None,
    target: str | None = None,
    **sets: str,
) -> str:
    """The generated text of that program."""
    p = program(tmp_path, source, *edits, variant=variant, target=target, **sets)
    return emit(p, [derive(k) for k in p.kernels])


def function(text: str, name: str) -> str:
    """The source of one function of a generated module, decorators left out."""
    lines = text.split("\n")
    start = next(i for i, line in enumerate(lines) if line.startswith(f"def {name}("))
    end = next(
        (i for i in range(start + 1, len(lines)) if lines[i] and not lines[i].startswith((" ", ")"))), len(lines)
    )
    return "\n".join(lines[start:end])
