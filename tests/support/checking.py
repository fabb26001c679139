"""`tsgen check` of a text, in this process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tsgen.cli.analysis import analyse
from tsgen.cli.options import Selection
from tsgen.diagnostics.report import FileReport

_ALL = Selection({})


def check_text(text: str | bytes, suffix: str = ".yaml") -> FileReport:
    """The report on a spec with this text, all its variants and targets."""
    data = text.encode() if isinstance(text, str) else text
    handle, name = tempfile.mkstemp(suffix=suffix, prefix="spec")
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
        return analyse(name, _ALL).report
    finally:
        Path(name).unlink()
