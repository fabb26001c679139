"""The formats of `tsgen check`, one module each with `render(reports, color) -> str`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from tsgen.diagnostics.report import FileReport

FORMATS = ("full", "concise", "json", "github", "sarif")


class Format(Protocol):
    """What a module of this package offers. `color` allows terminal colours; only `full` and `concise` use them."""

    def render(self, reports: Sequence[FileReport], color: bool) -> str: ...


def render(name: str, reports: Sequence[FileReport], *, color: bool = False) -> str:
    """The reports in one of FORMATS, ready to print; empty or ending in a newline.

    A format is imported when it is asked for: `check` is started often and must start fast.
    """
    return cast(Format, import_module(f"{__name__}.{name}")).render(reports, color)
