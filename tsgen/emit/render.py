"""Renders a lowered module through the templates of templates/, one file for each construct."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Literal

from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

from tsgen.derive.model import Derived
from tsgen.emit.layout import fold, imports
from tsgen.lower import lower
from tsgen.lower.program import Module, Statement
from tsgen.model.kernel import Program

Form = Literal["cute", "ts"]
_HERE = Path(__file__).resolve().parent


def templates() -> Path:
    """The template folder: beside the package in a checkout, inside it in a wheel."""
    installed = _HERE.parent / "_templates"
    return installed if installed.is_dir() else _HERE.parent.parent / "templates"


def _compiled() -> FileSystemBytecodeCache | None:
    """Compiled templates are kept between runs, as Python keeps .pyc files: compiling them costs as much as a proof.

    Jinja compiles anew what has another text. Where no cache folder can be written there is none.
    """
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "tsgen", "templates")
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None
    return FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None


class _Loader(FileSystemLoader):
    """Notes which templates were used."""

    used: ClassVar[set[str]] = set()

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        self.used.add(template)
        return super().get_source(environment, template)


def used_templates() -> list[Path]:
    """The files of the templates that this process has used: what modules depend on besides their specs."""
    return [templates() / name for name in sorted(_Loader.used)]


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=_Loader(templates()),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        autoescape=False,
        bytecode_cache=_compiled(),
    )
    environment.filters["code"] = _code
    return environment


def _code(statements: tuple[Statement, ...], indent: int = 0, spaced: bool = False) -> str:
    """Statements as lines, indented by so many spaces; spaced: an empty line before each that has a note."""
    lines: list[str] = []
    for statement in statements:
        if spaced and statement.note and lines:
            lines.append("")
        lines += _lines(statement)
    return "\n".join(" " * indent + line if line else "" for line in lines)


def _lines(statement: Statement) -> list[str]:
    template = _environment().get_template(f"{statement.template}.py.j2")
    text = template.render(statement.values, body=statement.body, note=statement.note)
    note = [f"# {statement.note}"] if statement.note else []
    return note + text.strip("\n").split("\n")


def emit(program: Program, derived: Sequence[Derived], form: Form = "cute") -> str:
    """The text of a program's module, in CuTe or against TS; `derived` has what follows from each of its kernels.

    Raises tsgen.lower.Unsupported where no code can be generated.
    """
    if form == "ts":
        from tsgen.lower.ts import lower_ts

        return render(lower_ts(program, derived))
    return render(lower(program, derived))


def render(module: Module) -> str:
    """The text of a lowered module; the same module gives the same text."""
    marker = "# imports"
    body = _environment().get_template("module.py.j2").render(m=module, imports=marker)
    text = fold(body.replace(marker, imports(body, module.imports), 1))
    return re.sub(r"\n{4,}", "\n\n\n", text).rstrip("\n") + "\n"
