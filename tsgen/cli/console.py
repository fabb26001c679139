"""What the verbs share in talking to the terminal."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def use_color(stream: TextIO) -> bool:
    """Whether a stream gets colours: only terminals do, and none with NO_COLOR (no-color.org)."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def write(text: str) -> None:
    """Prints text that ends in its own newline."""
    sys.stdout.write(text)


def note(text: str) -> None:
    """A line for the reader, apart from the command's output."""
    print(text, file=sys.stderr)
