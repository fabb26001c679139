"""An edit of a sketch in tests/language that breaks one rule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """`old` becomes `new` and the rule fails, alone, at `at`; with `passes` (None: the sketch as it is) it holds."""

    code: str
    spec: str
    old: str
    new: str
    at: str
    message: str  # a part of it
    passes: str | None = None
    also: tuple[tuple[str, str], ...] = ()  # edits that go with both

    def apply(self, source: str, new: str | None) -> str:
        """The sketch with `old` replaced by `new` (None: as it stands)."""
        assert source.count(self.old) >= 1, f"{self.spec} no longer has {self.old!r}"
        if new is None:
            return source
        for old, instead in ((self.old, new), *self.also):
            source = source.replace(old, instead, 1)
        return source

    def place(self, text: str) -> tuple[int, int]:
        """Line and column of the finding: the start of `at`, or its ¦."""
        before, _, after = self.at.rpartition("¦")
        index = text.index(before + after) + len(before)
        return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)
