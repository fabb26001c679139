"""Warps of one task: which windows they have for themselves, and which they fight over."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tests.support.process import ROOT

COPY = '{to: "rows[i*load_warps + warp, :]", from: "table[ids[t*tokens + i*load_warps + warp], j*width:+width]"}'
TWO_TASKS = """tsgen: 1
kernel: halves
target: sm_90a
doc: Two tasks fill the halves of a stage, each warp rows of its own; a third stores it.
params: {n: 64}
tensors:
  x: {dtype: f32, shape: [R, n]}
  y:
    dtype: f32
    shape: [R, n]
    output: true
    work: {write: {op: store, takes: [v], value: v, to: "y[b*8:+8, :]"}}
launch: {tiles: {b: "ceil_div(R, 8)"}}
resources:
  ring:
    kind: smem
    storage: {t: {dtype: f32, shape: [8, n]}}
    pipeline: {type: async_async, num_stages: 1}
    work:
      fill: {op: cp_async_load, SCOPEtakes: [at], copies: [{to: "t[at, :]", from: "x[b*8 + at, :]"}]}
      read: {op: load, from: t, returns: [v]}
graph: {ring: [x], y: [ring]}
schedules:
  low: [ring.acquire(), "ring.fill(at=LOW)", ring.commit()]
  high: [ring.acquire(), "ring.fill(at=HIGH)", ring.commit()]
  store: [ring.wait(), v = ring.read(), y.write(v=v), ring.release()]
tasks:
  store: {warp_idx: 0, num_warps: 4}
  low: {warp_idx: 4, num_warps: 4}
  high: {warp_idx: 8, num_warps: 4}
"""
EXCHANGE = """tsgen: 1
kernel: exchange
target: sm_90a
doc: Each thread puts a number into shared memory and takes one from it.
params: {n: 128}
tensors:
  x: {dtype: f32, shape: [B, n], work: {get: {op: load, from: "x[b, thread]", returns: [v]}}}
  y: {dtype: f32, shape: [B, n], output: true, work: {set: {op: store, takes: [v], value: v, to: "y[b, thread]"}}}
launch: {tiles: {b: B}}
resources:
  buf:
    kind: smem
    storage: {s: {dtype: f32, shape: [n]}}
    work:
      put: {op: store, takes: [v], value: v, to: "s[PUT]"}
      get: {op: load, from: "s[GET]", returns: [w]}
  all: {kind: barrier}
graph: {buf: [x], y: [buf]}
schedules:
  turn:
    - domain_loop: {var: i, end: 1}
      steps:
        - v = x.get()
        - buf.put(v=v)
        - all.sync()
        - w = buf.get()
        - y.set(v=w)
tasks:
  turn: {warp_idx: 0, num_warps: 4}
"""
SYNC, BARRIER = "        - all.sync()\n", "  all: {kind: barrier}\n"


def codes(text: str) -> list[str]:
    report = check_text(text)
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics]


def async_load(*edits: tuple[str, str]) -> str:
    text = (ROOT / "specs/async_load.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("row", "right"),
    [
        ("i*load_warps + warp", True),
        ("i + tokens // load_warps*warp", True),
        ("i*load_warps + (warp + i) % load_warps", True),
        ("i*load_warps + warp // 2", False),
        ("i*load_warps", False),
        ("i*load_warps + (warp + 1) % load_warps", True),
        ("(i*load_warps + 2*warp) % tokens", False),
    ],
)
@pytest.mark.parametrize("by_argument", [False, True])
def test_rows_of_warps_are_told_apart(row: str, right: bool, by_argument: bool) -> None:
    edits = [("rows[i*load_warps + warp, :]", f"rows[{row}, :]")]
    if by_argument:
        edits = [
            ("takes: [j, i]", "takes: [j, i, row]"),
            ("rows[i*load_warps + warp, :]", "rows[row, :]"),
            ("ring.load(j=j, i=i)", f"ring.load(j=j, i=i, row={row})"),
        ]
    found = codes(async_load(*edits))
    assert (found == []) is right
    assert right or found == ["TS500"]


def test_a_race_of_two_warps_names_them() -> None:
    report = check_text(async_load(("rows[i*load_warps + warp, :]", "rows[i*load_warps, :]")))
    (d,) = report.diagnostics
    assert "warp 0 of load" in d.message and "warp 1 of load" in d.message
    assert "warps of a task are ordered with each other only by barriers and pipelines" in d.message


@pytest.mark.parametrize("scope", ["scope: warp, ", ""])
@pytest.mark.parametrize(
    ("low", "high", "right"),
    [("warp", "4 + warp", True), ("2*warp", "2*warp + 1", True), ("warp", "3 + warp", False)],
)
def test_rows_of_two_tasks_are_told_apart(scope: str, low: str, high: str, right: bool) -> None:
    found = codes(TWO_TASKS.replace("SCOPE", scope).replace("LOW", low).replace("HIGH", high))
    assert found == ([] if right else ["TS500"])


@pytest.mark.parametrize(
    ("put", "get", "alone"),
    [
        ("thread", "thread", True),
        ("thread", "thread // 32*32 + (lane + 1) % 32", True),  # from the same warp
        ("thread", "n - 1 - thread", False),
        ("thread", "(thread + 1) % n", False),
        ("lane", "lane", False),  # every warp writes the same 32
        ("warp*32 + lane", "thread", True),
    ],
)
def test_elements_of_threads_need_a_barrier_across_warps(put: str, get: str, alone: bool) -> None:
    text = EXCHANGE.replace("PUT", put).replace("GET", get)
    assert codes(text) == (["TS500"] if put == "lane" else [])
    assert codes(text.replace(SYNC, "").replace(BARRIER, "")) == ([] if alone else ["TS500"])


@pytest.mark.parametrize(("get", "found"), [("lane", []), ("thread", ["TS503"])])
def test_what_one_warp_writes_is_not_there_for_others(get: str, found: list[str]) -> None:
    guarded = "        - when_true: {cond: warp == 0}\n          steps: [buf.put(v=v)]\n"
    text = EXCHANGE.replace("GET", get).replace("PUT", "thread").replace("        - buf.put(v=v)\n", guarded)
    assert codes(text) == found
    assert codes(text.replace(SYNC, "").replace(BARRIER, ""))[0] in ("TS500", "TS503")
