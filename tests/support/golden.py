"""Golden texts: equal but for the time that a proof took."""

from __future__ import annotations

import re
from pathlib import Path

_TIME = re.compile(r"in \d+ ms")


def timeless(text: str) -> str:
    """A text without times."""
    return _TIME.sub("", text)


def renew(path: Path, text: str) -> None:
    """Writes a golden file whose text has changed in more than times."""
    if not path.is_file() or timeless(path.read_text(encoding="utf-8")) != timeless(text):
        path.write_text(text, encoding="utf-8")
