"""Running tsgen as a user does: one process for each command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
_AS_ANYBODY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
COMMAND = [sys.executable, "-c", "from tsgen.cli import main; main()"]


def tsgen(
    *arguments: str | Path,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    as_anybody: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs `tsgen ARGUMENTS` in a folder and returns its status and output. Every run must end without a traceback.

    As anybody: without root's right to read every file.
    """
    done = subprocess.run(
        [*(_AS_ANYBODY if as_anybody else []), *COMMAND, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **(env or {})},
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    assert "internal error" not in done.stderr, done.stderr
    return done
