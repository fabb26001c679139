"""PTX of generated modules, compiled one after another in a process of its own. Needs the DSL and no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_WORKER = Path(__file__).with_name("worker.py")


def compile_ptx(modules: Sequence[Path], target: str = "sm_90a") -> dict[Path, str]:
    """The PTX of each module; where the DSL or TS rejects one, what it says, after "error: "."""
    folder = modules[0].parent / "dump"
    folder.mkdir(exist_ok=True)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("CUTE_DSL_")}
    environment = {**clean, "CUTE_DSL_ARCH": target, "CUTE_DSL_KEEP": "ptx", "CUTE_DSL_DUMP_DIR": str(folder)}
    answer = folder / "answer.json"
    subprocess.run(
        [sys.executable, "-P", str(_WORKER), str(answer), *map(str, modules)],
        env=environment,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=600,
    )
    return {Path(p): text for p, text in json.loads(answer.read_text()).items()}
