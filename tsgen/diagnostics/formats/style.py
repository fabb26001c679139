"""Terminal colours, and text made safe for a terminal."""

from __future__ import annotations

from typing import Literal

Tint = Literal["error", "warning", "frame", "note", "strong", "added", "removed"]

_CODES: dict[Tint, str] = {
    "error": "1;31",
    "warning": "1;33",
    "frame": "1;34",
    "note": "1;36",
    "strong": "1",
    "added": "32",
    "removed": "31",
}


class Painter:
    """Colours text, or returns it as it is where colours are off."""

    def __init__(self, color: bool) -> None:
        self.color = color

    def __call__(self, tint: Tint, text: str) -> str:
        return f"\x1b[{_CODES[tint]}m{text}\x1b[0m" if self.color and text else text


def printable(text: str) -> str:
    """The text with control characters shown as symbols: a spec must not be able to drive the reader's terminal."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or not _is_control(c) else _symbol(c) for c in text)


def _is_control(c: str) -> bool:
    n = ord(c)
    bidirectional = 0x202A <= n <= 0x202E or 0x2066 <= n <= 0x2069  # reorder what is shown after them
    return n < 0x20 or 0x7F <= n < 0xA0 or bidirectional or 0xD800 <= n < 0xE000


def _symbol(c: str) -> str:
    n = ord(c)
    if n < 0x20:
        return chr(0x2400 + n)  # the Unicode control pictures
    return "\u2421" if n == 0x7F else "\ufffd"
