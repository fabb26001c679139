"""`tsgen build --check`: how the modules on disk differ from what their specs give."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from tsgen.cli import FINDINGS, OK
from tsgen.cli.console import note, use_color, write
from tsgen.cli.files import Module, source_of
from tsgen.diagnostics.formats.full import counted
from tsgen.diagnostics.formats.style import Painter, Tint

if TYPE_CHECKING:
    from tsgen.emit import Form


def compare(modules: Sequence[Module], leftovers: Mapping[Path, str]) -> int:
    """Prints a unified diff for each module that is missing or differs, and the leftovers with why they are some."""
    differ = 0
    for m in modules:
        there = m.path.read_bytes().decode("utf-8", "replace") if m.path.is_file() else None
        if there != m.text:
            differ += 1
            write("".join(_diff(m, there)))
    write("".join(f"{path}: {reason}\n" for path, reason in leftovers.items()))
    drift = []
    if differ:
        drift.append(f"{differ} of {counted(len(modules), 'module')} outdated or missing; `tsgen build` writes them")
    if leftovers:
        drift.append(f"{len(leftovers)} left over; delete what no spec gives")
    for line in drift:
        note(f"drift: {line}")
    return FINDINGS if drift else OK


def leftovers(modules: Sequence[Module], specs: Sequence[str], out: Path, form: Form) -> dict[Path, str]:
    """Modules in the folder that no spec gives any more, each with the reason.

    A module says in its first line from which spec it comes. That spec is gone if no folder of the given ones has it,
    unless these folders have none at all of the modules' specs: those come from elsewhere.
    """
    planned, built = {m.path for m in modules}, {Path(m.spec).name: m.spec for m in modules}
    folders = sorted({Path(spec).parent for spec in specs})
    sources = {path: source for path in sorted(out.glob("*.py")) if (source := source_of(path))}
    there = {source for source in sources.values() if any((f / source).is_file() for f in folders)}
    found = {}
    for path, source in sources.items():
        if there and source not in there:
            found[path] = f"its spec {source} is not in {' or '.join(map(str, folders))} any more"
        elif source in built and path not in planned and _is_ts(path) == (form == "ts"):
            found[path] = f"no variant or target of {built[source]} gives this module any more"
    return found


def _diff(m: Module, there: str | None) -> Iterator[str]:
    paint = Painter(use_color(sys.stdout))
    old = (there or "").splitlines(keepends=True)
    name = str(m.path)
    tints: dict[str, Tint] = {"+": "added", "-": "removed", "@": "frame"}
    lines = unified_diff(old, m.text.splitlines(keepends=True), name if there is not None else "/dev/null", name)
    for line in lines:
        body = line.rstrip("\n")
        yield (paint(tints[line[0]], body) if line[0] in tints else body) + "\n"


def _is_ts(path: Path) -> bool:
    """Whether a module is named as one in the TS form."""
    return path.stem.endswith("_ts")
