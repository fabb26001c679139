"""Orders of warps and engines: a seed is one order, and policies differ in who is slow."""

from __future__ import annotations

import pytest

from tsgen.simulate.scheduler import POLICIES, Scheduler


class Walker:
    """Moves ten times."""

    def __init__(self, scheduler: Scheduler, log: list[str], *marks: str) -> None:
        self.scheduler = scheduler
        self.log = log
        self.marks = marks
        self.left = 10
        scheduler.add(self)

    def move(self) -> None:
        self.log.append(self.marks[0])
        self.left -= 1
        if self.left:
            self.scheduler.add(self)

    def take_cost(self) -> float:
        return 0.0


def order(seed: int) -> list[str]:
    scheduler, log = Scheduler(seed), []
    for name in ("task a", "task b", "engine TMA"):
        Walker(scheduler, log, name)
    assert scheduler.run(1000)
    return log


def test_a_seed_is_an_order() -> None:
    assert order(3) == order(3) and len({tuple(order(seed)) for seed in range(40)}) > 30


@pytest.mark.parametrize("seed", range(len(POLICIES)))
def test_everybody_moves_to_the_end(seed: int) -> None:
    assert sorted(order(seed)) == sorted(["task a"] * 10 + ["task b"] * 10 + ["engine TMA"] * 10)


def test_slow_engines_move_last() -> None:
    seed = next(i for i, (name, _) in enumerate(POLICIES) if name == "slow engines")
    log = order(seed)
    assert log[-10:].count("engine TMA") >= 9


def test_a_run_without_end_is_stopped() -> None:
    scheduler = Scheduler(0)
    walker = Walker(scheduler, [], "task a")
    walker.left = 10**9
    assert not scheduler.run(50)
