"""Golden texts: equal but for the time that a proof took, and for rounding errors, which depend on the CPU's BLAS."""

from __future__ import annotations

import re
from pathlib import Path

_VARIES = re.compile(r"in \d+ ms|(error|relative) \d[\d.e-]*")


def timeless(text: str) -> str:
    """A text without times and rounding errors."""
    return _VARIES.sub("", text)


def renew(path: Path, text: str) -> None:
    """Writes a golden file whose text has changed in more than those."""
    if not path.is_file() or timeless(path.read_text(encoding="utf-8")) != timeless(text):
        path.write_text(text, encoding="utf-8")
