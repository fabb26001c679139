"""Sources of choices for random schedules: a seeded generator for the campaign, Hypothesis for property tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Draw(Protocol):
    """A source of choices."""

    def number(self, low: int, high: int) -> int: ...

    def chance(self, percent: int) -> bool: ...

    def one(self, items: Sequence[T]) -> T: ...


class Dice:
    """Choices of a seeded random generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def one(self, items: Sequence[T]) -> T:
        return items[self.random.randrange(len(items))]


class Drawn:
    """Choices of Hypothesis."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def number(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def chance(self, percent: int) -> bool:
        return int(self.draw(st.integers(0, 99))) < percent

    def one(self, items: Sequence[T]) -> T:
        return items[self.number(0, len(items) - 1)]
