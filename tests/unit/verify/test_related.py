"""Bounds that are one number in other words, by what is assumed of the launch; and bounds that only look alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checking import check_text
from tests.support.kernels import kernel
from tests.unit.verify.test_bounds import of
from tsgen.derive import derive
from tsgen.verify import verify

TILES = 'end: "ceil_div(N, tile_n)"'
N = 'let: {n: "ceil_div(N, 64)"}'


@pytest.mark.parametrize(
    ("load", "store", "launch"),
    [
        ("step: 64, end: N", TILES, ""),
        ("start: b, end: a, step: 2", 'end: "ceil_div(a - b, 2)"', ""),
        ('end: "max(0, ceil_div(N, tile_n))"', TILES, ""),
        ('end: "max(1, ceil_div(N, tile_n))"', TILES, "assume: [N >= 1]"),
        ('end: "N // 64"', TILES, "assume: [N % 64 == 0]"),
        ('end: "N // 64"', TILES, "assume: [N % 32 == 0, N % 128 == 0]"),
        ('end: "ceil_div(N, 64) if N > 0 else 0"', TILES, ""),
        ('end: "ceil_div(M, 64)"', TILES, 'assume: ["M == N"]'),
        ("end: a if a > 0 else 0", "end: a", ""),
        ('end: "n - n % 2"', 'end: "2*(n // 2)"', N),
        ("end: n, step: extent(m)", "end: n, step: extent(m)", N),
        ("end: n, step: a", 'end: "ceil_div(n, a)"', N + ", assume: [a >= 1]"),
        ("end: extent(m)", 'end: "ceil_div(M, tile_m)"', ""),
        ('end: "min(n, min(a, 5))"', 'end: "min(n, a, 5)"', N),
        ('end: "min(max(a - b, 0), 7)"', 'end: "max(0, min(7, a - b))"', ""),
        ("end: n - m if m < n else 0", "end: n - m", N),
        ('end: "N // 64 + min(N % 64, 1)"', TILES, ""),
        ('start: "m*16", end: "min(N, m*16 + 16)"', 'end: "min(16, N - m*16)"', ""),
        ("end: n", 'end: "min(n, 2) + max(n - 2, 0)"', N),
        ('end: "max(ceil_div(N, 64), ceil_div(M, 64))"', TILES, 'assume: ["N >= M"]'),
        ("start: a, end: N, step: b", 'end: "(N - a + b - 1) // b"', "assume: [b >= 1]"),
    ],
)
def test_equal_numbers_of_trips(tmp_path: Path, load: str, store: str, launch: str) -> None:
    report = of(tmp_path, load, store, launch)
    assert report.diagnostics == ()
    assert report.proof.complete and report.proof.method == "closure"


@pytest.mark.parametrize(
    ("load", "store", "launch"),
    [
        ("step: 32, end: N", TILES, ""),
        ("start: b, end: a, step: 2", 'end: "(a - b) // 2"', ""),
        ('end: "max(1, ceil_div(N, tile_n))"', TILES, ""),
        ('end: "N // 64"', TILES, "assume: [N % 32 == 0]"),
        ('end: "ceil_div(N, 64) if N > 1 else 0"', TILES, ""),
        ('end: "ceil_div(M, 64)"', TILES, 'assume: ["M >= N"]'),
        ("end: a if a > 1 else 1", "end: a", ""),
        ('end: "n - n % 2"', 'end: "2*(n // 2) + 1"', N),
        ("end: n, step: extent(m)", "end: n", N),
        ("end: n, step: a", "end: n, step: b", N + ", assume: [a >= 1, b >= 1]"),
        ("end: extent(m)", 'end: "ceil_div(N, tile_m)"', ""),
        ('end: "min(n, min(a, 5))"', 'end: "min(n, a, 4)"', N),
        ("end: n - m if m < n else 1", "end: n - m", N),
        ('end: "N // 64 + min(N % 64, 2)"', TILES, ""),
        ('end: "max(ceil_div(N, 64), ceil_div(M, 64))"', TILES, ""),
    ],
)
def test_numbers_of_trips_that_may_differ(tmp_path: Path, load: str, store: str, launch: str) -> None:
    report = of(tmp_path, load, store, launch)
    assert report.diagnostics and report.diagnostics[0].code in ("TS400", "TS404")


def test_a_counterexample_has_numbers_that_can_be_at_once(tmp_path: Path) -> None:
    release = "        - ring.release()\n"
    under = '        - when_true: {cond: "N <= 5000"}\n          steps: [ring.release()]\n'
    k = kernel(tmp_path, "copy_tma", (release, under))
    (d,) = verify(k, derive(k)).diagnostics
    assert "ceil_div(N, tile_n) = 79 and N = 5001" in d.message


def test_equal_numbers_without_a_common_form_are_neither_wrong_nor_proven(tmp_path: Path) -> None:
    report = of(tmp_path, "end: n", 'end: "n + n*(n - 1) % 2"', N)
    (d,) = report.diagnostics
    assert d.code == "TS407" and not report.proof.complete
    assert "how `n` and `n + n*(n - 1)%2` are related" in d.message
    assert d.help is not None and d.help.startswith("write one `let`")


PAIRS = """tsgen: 1
kernel: pairs
target: sm_90a
doc: A pair of tasks counts to d, another one asks how far below zero d is.
tensors:
  x: {dtype: f16, shape: [B, N, 64]}
  f: {dtype: i32, shape: [L]}
  y: {dtype: f16, shape: [B, R, 64], output: true, work: {put: {op: store, takes: [i, v], value: v, to: "y[b, i, :]"}}}
  z: {dtype: f16, shape: [B, R, 64], output: true, work: {put: {op: store, takes: [i, v], value: v, to: "z[b, i, :]"}}}
launch: {tiles: {b: B}, let: {d: "f[b] - N"}}
resources:
  one: &ring
    kind: smem
    storage: {t: {dtype: f16, shape: [64]}}
    pipeline: {type: tma_async, num_stages: 2}
    work:
      load: {op: tma_load, takes: [i], copies: [{to: t, from: "x[b, i, :]"}]}
      read: {op: load, from: t, returns: [v]}
  two: *ring
graph: {one: [x, f], y: [one, f], two: [x, f], z: [two, f]}
schedules:
  load1: [{domain_loop: {var: i, end: BOUND}, steps: [one.acquire(), one.load(i=i), one.commit()]}]
  store1: [{domain_loop: {var: i, end: BOUND}, steps: [one.wait(), v = one.read(), "y.put(i=i, v=v)", one.release()]}]
  load2:
    - domain_loop: {var: i, end: 4}
      steps: [{when_true: {cond: d < 0}, steps: [two.acquire(), two.load(i=i), two.commit()]}]
  store2:
    - domain_loop: {var: i, end: 4}
      steps: [{when_true: {cond: COND}, steps: [two.wait(), v = two.read(), "z.put(i=i, v=v)", two.release()]}]
tasks:
  store1: {warp_idx: 0, num_warps: 4}
  store2: {warp_idx: 4, num_warps: 4}
  load1: {warp_idx: 8, num_warps: 1}
  load2: {warp_idx: 9, num_warps: 1}
"""


@pytest.mark.parametrize("bound", ["d", '"max(d, 0)"', '"max(d, 1)"', "d if d > 0 else 0"])
@pytest.mark.parametrize(("cond", "right"), [("not d >= 0", True), ("d < -9", False)])
def test_a_loop_without_trips_does_not_say_that_its_bound_is_zero(bound: str, cond: str, right: bool) -> None:
    report = check_text(PAIRS.replace("BOUND", bound).replace("COND", cond))
    assert [d.code for d in report.diagnostics] == ([] if right else ["TS400"])


@pytest.mark.parametrize("first", [1, 2])
def test_iterations_that_a_longer_bound_leaves_for_later(tmp_path: Path, first: int) -> None:
    """One iteration before the loop stands for `max(n, 1)`, not for n, nor for `max(n, 2)`."""
    before = "    - ring.wait()\n    - v = ring.read()\n    - y.write(j=0, v=v)\n    - ring.release()\n"
    loop = '    - domain_loop: {var: j, end: "ceil_div(N, tile_n)"}\n'
    store = "  store:\n" + loop
    k = kernel(
        tmp_path,
        "copy_tma",
        (store, "  store:\n" + before + loop.replace("{var: j, end", "{var: j, start: 1, end")),
        (loop, loop.replace('"ceil_div(N, tile_n)"', f'"max(ceil_div(N, tile_n), {first})"')),
    )
    report = verify(k, derive(k))
    assert (report.diagnostics == ()) is (first == 1)
    assert report.proof.complete is (first == 1)


@pytest.mark.parametrize(
    ("before", "right"), [("    - bulk.wait_group(0)\n", True), ("  mma:\n    - work_tile_loop", False)]
)
def test_a_cta_of_a_static_queue_has_a_tile(tmp_path: Path, before: str, right: bool) -> None:
    """No more CTAs are launched than there are tiles: after its tiles, mma has heard from load, which waited."""
    launch = "    - pdl.launch_griddep()\n"
    head, _, tail = before.rpartition("    -")
    k = kernel(tmp_path, "gemm", (launch, ""), (before, f"{head}{launch}    -{tail}"))
    report = verify(k, derive(k))
    assert [d.code for d in report.diagnostics] == ([] if right else ["TS700"])


def test_where_a_tile_is_there_are_tiles() -> None:
    """`B` is a step that cannot be zero: it is the number of tiles along `b`."""
    text = PAIRS.replace("COND", "d < 0").replace("end: BOUND", "start: b, end: d, step: B", 1)
    assert check_text(text.replace("BOUND", '"ceil_div(d - b, extent(b))"')).diagnostics == ()
    assert [d.code for d in check_text(text.replace("BOUND", '"(d - b) // B"')).diagnostics] == ["TS404"]
