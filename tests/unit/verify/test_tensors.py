"""Tensors that tasks of a CTA pass to each other: races are found where they are certain, order is proven."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

SPEC = """tsgen: 1
kernel: through_memory
target: sm_90a
doc: One task writes a tensor, another reads it.
params: {n: 64}
tensors:
  x: {dtype: f32, shape: [R, n], work: {get: {op: load, takes: [k], from: "x[XWIN]", returns: [v]}}}
  y:
    dtype: f32
    shape: [R, n]
    output: true
    work:
      put: {op: store, takes: [k, v], value: v, to: "y[PUT]"}
      get: {op: load, takes: [k], from: "y[GET]", returns: [w]}
  z: {dtype: f32, shape: [R, n], output: true, work: {put: {op: store, takes: [k, w], value: w, to: "z[PUT]"}}}
launch: {tiles: {t: "ceil_div(R, 8)"}}
resources:
  turn: {kind: smem, pipeline: {type: async_async, num_stages: 2}}
  all: {kind: barrier}
graph: {y: [x], z: [y]}
schedules:
  one:
    - domain_loop: {var: k, end: KS}
      steps:
        - turn.acquire()
        - v = x.get(k=k)
        - y.put(k=k, v=v)
        - turn.commit()
  two:
    - domain_loop: {var: k, end: KS}
      steps:
        - turn.wait()
        - w = y.get(k=k)
        - turn.release()
        - z.put(k=k, w=w)
tasks:
  one: {warp_idx: 0, num_warps: 4}
  two: {warp_idx: 4, num_warps: 4}
"""
ROW = "t*8 + k, :"
STAGE = """  fetched:
    kind: smem
    storage: {s: {dtype: f32, shape: [1, n]}}
    pipeline: {type: tma_async, num_stages: 2}
    work:
      load: {op: tma_load, takes: [k], copies: [{to: s, from: "y[t*8 + k:+1, :]"}]}
      read: {op: load, from: "s[0, :]", returns: [w]}
"""
THREE = """  three:
    - domain_loop: {var: k, end: R}
      steps:
        - fetched.wait()
        - w = fetched.read()
        - z.put(k=k, w=w)
        - fetched.release()
"""


def codes(put: str = ROW, get: str = ROW, trips: str = "8", *edits: tuple[str, str]) -> list[str]:
    text = SPEC.replace("XWIN", put).replace("PUT", put).replace("GET", get).replace("KS", trips)
    text = text.replace("  all: {kind: barrier}\n", "") if not edits else text
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    report = check_text(text)
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics]


def test_a_ring_orders_what_goes_through_memory() -> None:
    assert codes() == []


@pytest.mark.parametrize("trips", ["8", "R"])
@pytest.mark.parametrize(
    ("step", "moved"),
    [
        (
            "        - y.put(k=k, v=v)\n        - turn.commit()\n",
            "        - turn.commit()\n        - y.put(k=k, v=v)\n",
        ),
        ("        - turn.wait()\n        - w = y.get(k=k)\n", "        - w = y.get(k=k)\n        - turn.wait()\n"),
    ],
)
def test_a_step_on_the_wrong_side_of_the_ring_is_a_race(trips: str, step: str, moved: str) -> None:
    assert "TS500" in codes(ROW, ROW, trips, (step, moved), ("  all: {kind: barrier}\n", ""))


def test_other_rows_are_no_race() -> None:
    """What the second reads is written in another iteration: nothing is certain, and the warning stays."""
    late = ("        - turn.wait()\n        - w = y.get(k=k)\n", "        - w = y.get(k=k)\n        - turn.wait()\n")
    assert codes(ROW, "t*8 + 7 - k, :", "8", late, ("  all: {kind: barrier}\n", "")) == ["TS274"]
    assert codes("2*(t*8 + k), :", "2*(t*8 + k) + 1, :", "8", late, ("  all: {kind: barrier}\n", "")) == ["TS274"]


def test_two_writers_of_one_window() -> None:
    """The second task writes y, too: after the first, as the ring says, or before it knows."""
    gone = ("  all: {kind: barrier}\n", "")
    graph = ("graph: {y: [x], z: [y]}", "graph: {y: [x]}")
    held = "        - turn.wait()\n        - w = y.get(k=k)\n        - turn.release()\n        - z.put(k=k, w=w)\n"
    again = "        - u = x.get(k=k)\n        - y.put(k=k, v=u)\n"
    after = (held, "        - turn.wait()\n" + again + "        - turn.release()\n")
    before = (held, again + "        - turn.wait()\n        - turn.release()\n")
    assert codes(ROW, ROW, "8", after, graph, gone) == []
    assert codes(ROW, ROW, "8", before, graph, gone) == ["TS500"]


def test_tma_and_threads_do_not_see_each_other() -> None:
    """The order is proven; that TMA reads what threads wrote needs a fence, so the warning stays."""
    text = SPEC.replace("XWIN", ROW).replace("PUT", ROW).replace("GET", ROW).replace("KS", "R")
    text = text.replace("  all: {kind: barrier}\n", STAGE)
    text = text.replace(
        "- w = y.get(k=k)\n", "- fetched.acquire()\n        - fetched.load(k=k)\n        - fetched.commit()\n"
    )
    text = text.replace("        - z.put(k=k, w=w)\n", "").replace("z: [y]", "fetched: [y], z: [fetched]")
    text = text.replace("two: {warp_idx: 4, num_warps: 4}", "two: {warp_idx: 4, num_warps: 1}")
    text = text.replace("tasks:\n", THREE + "tasks:\n  three: {warp_idx: 5, num_warps: 4}\n")
    assert [d.code for d in check_text(text).diagnostics] == ["TS274"]
    early = text.replace("        - turn.wait()\n", "").replace(
        "        - turn.release()\n", "        - turn.wait()\n        - turn.release()\n"
    )
    assert [d.code for d in check_text(early).diagnostics] == ["TS274", "TS500"]


@pytest.mark.parametrize(("sync", "found"), [(True, False), (False, True)])
def test_a_barrier_between_two_loops(sync: bool, found: bool) -> None:
    """All rows are written before one is read; the loop runs any number of times."""
    text = SPEC.replace("XWIN", ROW).replace("PUT", ROW).replace("GET", ROW).replace("KS", "R")
    text = text.replace("  turn: {kind: smem, pipeline: {type: async_async, num_stages: 2}}\n", "")
    for method in ("acquire", "commit", "wait", "release"):
        text = text.replace(f"        - turn.{method}()\n", "")
    if sync:
        text = text.replace(
            "  two:\n    - domain_loop: {var: k, end: R}",
            "    - all.arrive()\n  two:\n    - all.sync()\n    - domain_loop: {var: k, end: R}",
        )
    else:
        text = text.replace("  all: {kind: barrier}\n", "").replace("resources:\n", "resources: {}\n")
    report = check_text(text)
    assert ("TS500" in {d.code for d in report.diagnostics}) is found
    assert "empirical" not in report.proof.statement


PHASES = """tsgen: 1
kernel: phases
target: sm_90a
doc: Three tasks write one tensor, one after the other.
tensors:
  x: {dtype: f32, shape: [N0, N1, N2]}
  y: {dtype: f32, shape: [N, 64], output: true, work: {put: {op: store, takes: [i], value: 1.0, to: "y[i, :]"}}}
launch: {tiles: {b: 1}}
resources:
  g1: {kind: smem, pipeline: {type: async_async, num_stages: 1}}
  g2: {kind: smem, pipeline: {type: async_async, num_stages: 1}}
graph: {y: []}
schedules:
  p0:
    - domain_loop: {var: i, end: N0}
      steps: [y.put(i=i)]
    - g1.acquire()
    - g1.commit()
  p1:
    - g1.wait()
BEFORE    - domain_loop: {var: i, end: N1}
      steps: [y.put(i=i)]
    - g1.release()
AFTER  p2:
    - g2.wait()
    - domain_loop: {var: i, end: N2}
      steps: [y.put(i=i)]
    - g2.release()
tasks: {p0: {warp_idx: 0, num_warps: 1}, p1: {warp_idx: 1, num_warps: 1}, p2: {warp_idx: 2, num_warps: 1}}
"""
SIGNAL = "    - g2.acquire()\n    - g2.commit()\n"


@pytest.mark.parametrize(("before", "after", "found"), [("", SIGNAL, []), (SIGNAL, "", ["TS500"])])
@pytest.mark.parametrize("row", ["i", "0"])
def test_numbers_of_several_tasks_on_one_tensor(before: str, after: str, found: list[str], row: str) -> None:
    text = PHASES.replace("BEFORE", before).replace("AFTER", after).replace("put(i=i)", f"put(i={row})")
    report = check_text(text)
    assert [d.code for d in report.diagnostics] == found
    assert report.proof.complete != bool(found) and report.proof.states < 100
