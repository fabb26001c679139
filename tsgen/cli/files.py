"""Files that a build writes: whole or not at all, and only where their content changes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from tsgen.frozen import frozen


@frozen
class Module:
    """A module to be written: where, what, and the spec and kernel that it comes from."""

    path: Path
    text: str
    spec: str
    kernel: str


def write_if_changed(path: Path, text: str) -> bool:
    """Replaces a file atomically; returns False, and leaves it alone, where it has this content already.

    The new content goes to a temporary file in the same folder first: whoever reads `path`, at any moment and after
    any interruption, sees the old file or the new one. Raises click.FileError.
    """
    data = text.encode("utf-8")
    try:
        if path.is_file() and path.read_bytes() == data:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, data)
    except OSError as e:
        raise click.FileError(str(e.filename or path), e.strerror or str(e)) from None
    return True


def _replace(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def depfile(target: Path, sources: Sequence[Path]) -> str:
    """A rule for make: the target depends on the sources. Each source is a target too, so that one may vanish."""
    names = [_escape(_relative(p)) for p in sources]
    lines = [f"{_escape(_relative(target))}: \\", *(f"  {n} \\" for n in names[:-1]), f"  {names[-1]}"]
    return "\n".join([*lines, "", *(f"{n}:" for n in names)]) + "\n"


def _relative(path: Path) -> str:
    """Relative to the working directory where the path lies in it: that is how a Makefile names its files."""
    absolute, here = path.resolve(), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


def _escape(name: str) -> str:
    return name.replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ").replace(":", "\\:")
