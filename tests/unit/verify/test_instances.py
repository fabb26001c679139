"""Instances of resources: their indices are known when the kernel is built, and pick one that is there."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tests.support.process import ROOT

CASE = (ROOT / "tests/cases/instance_known_late/spec.yaml").read_text().replace("(w + j) % 2", "INDEX")
BARRIER = CASE.replace("INDEX", "w").replace("  regs:\n", "  turn: {kind: barrier, each: {w: 2}}\n  regs:\n")
STEP = "            - ring[w].release()\n"
VIEW = """tsgen: 1
kernel: viewed
target: sm_90a
doc: Each instance of a view shows a buffer of its own.
params: {n: 64}
tensors:
  x: {dtype: f16, shape: [M, n]}
  y: {dtype: f16, shape: [M, n], output: true, work: {put: {op: store, takes: [v], value: v, to: "y[m*64:+64, :]"}}}
launch: {tiles: {m: "ceil_div(M, 64)"}}
resources:
  buf:
    each: {i: 2}
    kind: smem
    storage: {t: {dtype: f16, shape: [64, n]}}
    work: {fill: {op: store, value: "x[m*64:+64, :]", to: t}}
  seen:
    each: {w: 2}
    kind: smem
    storage: {t: {view: "buf[AT].t"}}
    work: {read: {op: load, from: t, returns: [v]}}
graph: {buf: [x], y: [seen]}
schedules:
  copy: ["buf[0].fill()", "v = seen[1].read()", "y.put(v=v)"]
tasks: {copy: {warp_idx: 0, num_warps: 4}}
"""


def codes(text: str) -> list[str]:
    report = check_text(text)
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics]


@pytest.mark.parametrize("index", ["w", "(w + 2) % 2", "1 - (1 - w)"])
def test_an_index_made_of_for_indices_is_known(index: str) -> None:
    assert codes(CASE.replace("INDEX", index)) == []


@pytest.mark.parametrize("index", ["j % 2", "j - j // 2 * 2", "(w + m) % 2"])
def test_an_index_made_of_what_comes_later_is_not(index: str) -> None:
    """In the argument of a work as in the step itself: neither may go unseen."""
    assert codes(CASE.replace("INDEX", index)) == ["TS265"]
    step = CASE.replace("INDEX", "w").replace("ring[w].wait()", f"ring[{index}].wait()")
    assert codes(step) == ["TS265"]


@pytest.mark.parametrize("index", ["w + 1", "w - 1", "2*w"])
def test_an_index_past_the_instances_is_an_error(index: str) -> None:
    """Known only once `for` is written out; -1 is no sign for something else."""
    found = check_text(CASE.replace("INDEX", index)).diagnostics
    assert [d.code for d in found] == ["TS145"] and "the instances 0 to 1" in found[0].message
    assert codes(BARRIER.replace(STEP, f"            - turn[{index}].sync()\n{STEP}")) == ["TS145"]


def test_a_barrier_of_each_instance_is_fine() -> None:
    assert codes(BARRIER.replace(STEP, f"            - turn[w].sync()\n{STEP}")) == []


def test_a_view_picks_by_the_index_of_its_own_resource() -> None:
    """`seen[1]` is read: with `1 - w` that is buffer 0, which has been filled; buffer 1 has not."""
    assert codes(VIEW.replace("AT", "1 - w")) == []
    assert codes(VIEW.replace("AT", "w")) == ["TS503"]
    assert codes(VIEW.replace("AT", "w + 1")) == ["TS145"]
