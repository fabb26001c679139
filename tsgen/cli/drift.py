"""`tsgen build --check`: how the modules on disk differ from what their specs give."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from pathlib import Path

from tsgen.cli import FINDINGS, OK
from tsgen.cli.console import note, use_color, write
from tsgen.cli.files import Module
from tsgen.diagnostics.formats.style import Painter, Tint


def compare(modules: Sequence[Module], out: Path | None) -> int:
    """Prints a unified diff for each module that is missing or differs; with `out`, names modules without a spec."""
    drift = 0
    for m in modules:
        there = m.path.read_bytes().decode("utf-8", "replace") if m.path.is_file() else None
        if there != m.text:
            drift += 1
            write("".join(_diff(m, there)))
    for path in _orphans(modules, out) if out is not None else ():
        drift += 1
        write(f"{path}: no variant of the spec gives this module any more; delete it\n")
    if drift:
        note(f"drift: {drift} of {len(modules)} modules differ from their specs; `tsgen build` writes them anew")
    return FINDINGS if drift else OK


def _diff(m: Module, there: str | None) -> Iterator[str]:
    paint = Painter(use_color(sys.stdout))
    old = (there or "").splitlines(keepends=True)
    name = str(m.path)
    tints: dict[str, Tint] = {"+": "added", "-": "removed", "@": "frame"}
    lines = unified_diff(old, m.text.splitlines(keepends=True), name if there is not None else "/dev/null", name)
    for line in lines:
        body = line.rstrip("\n")
        yield (paint(tints[line[0]], body) if line[0] in tints else body) + "\n"


def _orphans(modules: Sequence[Module], out: Path) -> list[Path]:
    """Modules of the same kernels in the folder that none of the specs gives."""
    planned = {m.path for m in modules}
    kernels, forms = {m.kernel for m in modules}, {_is_ts(m.path) for m in modules}
    strangers = [p for p in sorted(out.glob("*.py")) if p not in planned and _is_ts(p) in forms]
    return [p for p in strangers if any(p.name.startswith(f"{k}_") for k in kernels) and _kernel(p) in kernels]


def _is_ts(path: Path) -> bool:
    """Whether a module is named as one in the TS form."""
    return path.stem.endswith("_ts")


def _kernel(path: Path) -> str | None:
    """The kernel of a generated module, None for any other file."""
    from tsgen.runtime.errors import CannotRun
    from tsgen.runtime.meta import read_meta

    try:
        return read_meta(path).kernel
    except CannotRun:
        return None
