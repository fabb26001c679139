"""Numbers that conditions and guards count to are reached, however large, and large literal loops stay different."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernels import kernel
from tsgen.derive import derive
from tsgen.verify import verify
from tsgen.verify.model import Report

BOUND = 'end: "ceil_div(N, tile_n)"}'
LOAD = "        - ring.try_acquire()\n        - ring.acquire()\n        - ring.load(j=j)\n        - ring.commit()\n"
STORE = "        - ring.try_wait()\n        - ring.wait()\n        - v = ring.read()\n        - y.write(j=j, v=v)\n"
RELEASE = "        - ring.release()\n"
TILES = 'launch: {tiles: {m: "ceil_div(M, tile_m)"}'
LET = (TILES + "}", TILES + ', let: {n: "ceil_div(N, 64)"}}')
CONDITIONS = [
    "j < 60",
    "j != 60",
    "j != 500",
    "j + 100 != n",
    "n <= 100",
    "M != 777",
    "j > 60",
    "2*j != 150",
    "j < n - 70",
]


def of(tmp_path: Path, *edits: tuple[str, str]) -> Report:
    k = kernel(tmp_path, "copy_tma", *edits)
    return verify(k, derive(k))


def under(condition: str, steps: str) -> str:
    return f'        - when_true: {{cond: "{condition}"}}\n          steps:\n' + steps.replace(
        "        -", "            -"
    )


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_release_under_a_condition(tmp_path: Path, condition: str) -> None:
    report = of(tmp_path, LET, (RELEASE, under(condition, RELEASE)))
    assert report.diagnostics and report.diagnostics[0].code in ("TS400", "TS404")


@pytest.mark.parametrize("condition", CONDITIONS)
def test_all_steps_under_one_condition(tmp_path: Path, condition: str) -> None:
    report = of(tmp_path, LET, (LOAD, under(condition, LOAD)), (STORE + RELEASE, under(condition, STORE + RELEASE)))
    assert report.diagnostics == ()
    assert report.proof.complete and report.proof.method == "closure"


@pytest.mark.parametrize(("load", "store"), [(100001, 100000), (100000, 100001), (1000, 1063), (30000, 30001)])
def test_long_loops_that_differ(tmp_path: Path, load: int, store: int) -> None:
    report = of(tmp_path, (BOUND, f"end: {load}}}"), (BOUND, f"end: {store}}}"))
    assert report.diagnostics and report.diagnostics[0].code in ("TS400", "TS404")


def test_a_long_loop_with_an_exception_late(tmp_path: Path) -> None:
    loops = ((BOUND, "end: 3000}"), (BOUND, "end: 3000}"))
    wrong = of(tmp_path, *loops, (RELEASE, under("j != 2500", RELEASE)))
    assert [d.code for d in wrong.diagnostics] == ["TS404"]
    right = of(tmp_path, *loops, (RELEASE, under("j != 3500", RELEASE)))
    assert right.diagnostics == () and right.proof.complete


def test_what_is_too_long_to_be_counted_is_not_called_proven(tmp_path: Path) -> None:
    loops = ((BOUND, "end: 3000000}"), (BOUND, "end: 3000000}"))
    report = of(tmp_path, *loops, (RELEASE, under("j != 2500000", RELEASE)))
    assert not report.proof.complete
