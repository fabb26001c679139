"""The worked examples of README.md and docs: their commands and what those print, and what they quote of specs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from tests.support.process import ROOT, tsgen

DOCUMENTS = ("README.md", "docs/simulation.md")  # with commands and outputs, as `$ tsgen …` in console blocks
_LINK = re.compile(r"\]\((specs/[^)]+)\)")
_BLOCK = re.compile(r"(```console\n\$ tsgen )([^\n]*)\n(.*?)(```)", re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    """Command line and output of each console block."""
    return [(m[2], m[3]) for m in _BLOCK.finditer((ROOT / document).read_text(encoding="utf-8"))]


def rewritten(document: str, output: Callable[[str], str]) -> str:
    """A document with each block's output replaced."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return _BLOCK.sub(lambda m: f"{m[1]}{m[2]}\n{output(m[2])}{m[4]}", text)


def excerpts(document: str) -> list[tuple[str, str]]:
    """What a document quotes of specs: the spec that it links to last before a YAML block, and the block."""
    text = (ROOT / document).read_text(encoding="utf-8")
    found = re.finditer(r"```yaml\n(.*?)```", text, re.DOTALL)
    return [(_LINK.findall(text, 0, m.start())[-1], m[1]) for m in found]


def printed(command: str, folder: Path) -> str:
    """What a command of the example prints, in a folder with `specs` and with the example's `early.yaml`."""
    if not (folder / "specs").exists():
        (folder / "specs").symlink_to(ROOT / "specs")
        (folder / "early.yaml").write_text(_early_release(), encoding="utf-8")
    done = tsgen(*shlex.split(command), cwd=folder)
    return done.stdout + done.stderr


def _early_release() -> str:
    """specs/copy_tma.yaml with the release of a stage moved before its read."""
    lines = (ROOT / "specs/copy_tma.yaml").read_text(encoding="utf-8").split("\n")
    release = next(i for i, line in enumerate(lines) if "ring.release()" in line)
    read = next(i for i, line in enumerate(lines) if "v = ring.read()" in line)
    lines.insert(read, lines.pop(release))
    return "\n".join(lines)
