"""The worked example of README.md: its commands, and what they print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from tests.support.process import ROOT, tsgen

README = ROOT / "README.md"
_BLOCK = re.compile(r"(```console\n\$ tsgen )([^\n]*)\n(.*?)(```)", re.DOTALL)


def blocks() -> list[tuple[str, str]]:
    """Command line and output of each console block."""
    return [(m[2], m[3]) for m in _BLOCK.finditer(README.read_text(encoding="utf-8"))]


def rewritten(output: Callable[[str], str]) -> str:
    """README with each block's output replaced."""
    return _BLOCK.sub(lambda m: f"{m[1]}{m[2]}\n{output(m[2])}{m[4]}", README.read_text(encoding="utf-8"))


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
