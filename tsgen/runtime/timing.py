"""Timing on the GPU, fairly.

Under load the chip sits at its power limit and its clocks move, so only figures of one process compare. Neighbours
heat each other, so the rounds go through all orders of the candidates: each comes after each other one equally often.
Each gets 5 untimed launches directly before an event pair around 20 back-to-back launches, without a synchronise in
between: a pair opened on an idle stream would contain the first launch's latency, which flatters the cheaper
launcher. Medians over the rounds; ratios under 1 % are noise.
"""

from __future__ import annotations

import importlib
import os
import statistics
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice, permutations
from random import Random

Launch = Callable[[], object]
UNTIMED, TIMED = 5, 20  # launches
MOST_PERMUTED = 4  # candidates whose orders are all gone through; of more they are drawn


def interleaved(calls: Mapping[str, Launch], rounds: int = 9, seed: int = 0) -> dict[str, float]:
    """Median milliseconds of one launch of each candidate."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for order in islice(orders(list(calls), Random(seed)), rounds):
        for name in order:
            samples[name].append(milliseconds(calls[name]))
    return {name: statistics.median(s) for name, s in samples.items()}


def orders(names: Sequence[str], random: Random) -> Iterator[Sequence[str]]:
    """Orders of the candidates without end: all there are, over and over, each time in another order."""
    while len(names) <= MOST_PERMUTED:
        every = list(permutations(names))
        yield from random.sample(every, len(every))
    while True:
        yield random.sample(names, len(names))


def milliseconds(call: Launch, untimed: int = UNTIMED, timed: int = TIMED) -> float:
    """Milliseconds of one launch, the mean of `timed` back-to-back ones."""
    cuda = importlib.import_module("torch").cuda
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    for _ in range(untimed):
        call()
    start.record()
    for _ in range(timed):
        call()
    end.record()
    cuda.synchronize()
    return float(start.elapsed_time(end)) / timed


@contextmanager
def watchdog(seconds: float, what: str) -> Iterator[None]:
    """Ends the process with status 1 if the body takes longer: a kernel that hangs cannot be stopped otherwise."""

    def bark() -> None:
        print(f"{what}: no end after {seconds:g} s: the kernel hangs", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)

    timer = threading.Timer(seconds, bark)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
