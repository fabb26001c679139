"""Byte-compiles the package when it is installed editable, as pip does with every other installation.

Without it, where Python is told to write no byte code, each start of `tsgen` would compile the package anew.
"""

from __future__ import annotations

import compileall
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileEditable(BuildHookInterface[Any]):
    """Runs before the wheel of an installation is built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            compileall.compile_dir(Path(self.root, "tsgen"), quiet=1)
