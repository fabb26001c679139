"""`python benchmarks/checker.py [--quick]`: the time of a verdict, tsgen against NVIDIA's TaskManager.

The same schedules on the same machine, one after the other. tsgen is timed from the parsed spec
to the verdict, with the trip count as written and with the trip count open (a proof for all of them); NVIDIA's time is
that of constructing the TaskManager, which checks. NVIDIA's checker stops at a million states without an answer.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support import anchors  # noqa: E402

Case = dict[str, Any]
ROUNDS = 7


def rows() -> Iterator[tuple[str, Callable[[int | None], Case], int]]:
    """Name, schedule by trip count, trip count."""
    yield "2-task copy, S=2", lambda k: anchors.copy(2, k), 256
    yield "4-task GEMM, S=4", lambda k: anchors.gemm(4, k), 64
    yield "4-task GEMM, S=6", lambda k: anchors.gemm(6, k), 64
    yield "4-task persistent GEMM, S=3", lambda k: anchors.persistent(anchors.gemm(3, k)), 8
    yield "7-task attention, S=2", lambda k: anchors.attention(2, k), 4
    yield "7-task attention, S=2", lambda k: anchors.attention(2, k), 64
    for n in range(1, 7):
        yield f"{n} independent pairs, S=2", lambda k, n=n: anchors.pairs(n, 2, k), 8  # type: ignore[misc]


def ours(case: Case) -> tuple[float, int, str]:
    """Seconds of derivation and proof (median), states, and the verdict."""
    from tests.support.ts_json import convert
    from tsgen.derive import derive
    from tsgen.spec import load_program
    from tsgen.verify import verify

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(convert(case))
        f.flush()
        program = load_program(Path(f.name)).program
    assert program is not None
    (kernel,) = program.kernels
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        report = verify(kernel, derive(kernel))
        seconds.append(time.perf_counter() - start)
    verdict = "proof" if report.proof.complete and not report.diagnostics else "no proof"
    return median(seconds), report.proof.states, verdict


def theirs(case: Case) -> tuple[float, int, str]:
    from tests.oracle import ts_oracle

    found = ts_oracle.judge(case)
    capped = any(v["hit_limit"] for v in found["variants"])
    return found["seconds"], found["states"], "no answer" if capped else str(found["verdict"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave NVIDIA's checker out")
    args = parser.parse_args()
    print(f"{'':28}{'':>5}{'tsgen, K written':>24}{'tsgen, every K':>24}{'NVIDIA':>34}{'':>9}")
    head = f"{'schedule':28}{'K':>5}{'ms':>10}{'states':>8}{'':>6}{'ms':>10}{'states':>8}{'':>6}"
    print(f"{head}{'ms':>12}{'states':>11}{'':>11}{'ratio':>9}")
    slow = 0.0
    for name, build, trips in rows():
        seconds, states, verdict = ours(build(trips))
        all_seconds, all_states, all_verdict = ours(build(None))
        slow = max(slow, all_seconds)
        line = f"{name:28}{trips:5}{seconds * 1000:10.1f}{states:8} {verdict:5}"
        line += f"{all_seconds * 1000:10.1f}{all_states:8} {all_verdict:5}"
        if not args.quick:
            their_seconds, their_states, their_verdict = theirs(build(trips))
            line += f"{their_seconds * 1000:12.0f}{their_states:11} {their_verdict:10}{their_seconds / seconds:8.0f}x"
        print(line, flush=True)
    print(f"slowest proof for every K: {slow * 1000:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
