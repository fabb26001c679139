"""Which threads of a task touch which elements: what another spread or a moving window shares, a barrier must order."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

SPEC = """tsgen: 1
kernel: exchange
target: sm_90a
doc: A task puts tiles into shared memory and takes them back.
params: {n: 64, trips: 8}
tensors:
  x: {dtype: f32, shape: [B, n, n]}
  len: {dtype: i32, shape: [B]}
  y: {dtype: f32, shape: [B, n, n], output: true, work: {write: {op: store, value: regs.v, to: "y[b, :, :]"}}}
launch: {tiles: {b: B}}
resources:
  buf:
    kind: smem
    storage: {t: {dtype: f32, shape: [2, n, n]}}
    work:
      all: {op: store, takes: [s], value: regs.v, to: "t[s]"}
      put: {op: store, takes: [k], value: VALUE, to: "PUT"}
  regs:
    kind: rmem
    storage: {v: {dtype: f32, shape: [n, n]}, w: {dtype: f32, shape: [4, n]}}
    work:
      load: {op: load, from: "x[b, :, :]", to: v}
      zero: {op: map, set: [w = 0.0]}
      take: {TAKE}
  bar: {kind: barrier}
graph: {buf: [x, len], y: [buf, len]}
schedules:
  turn:
    - regs.load()
    - regs.zero()
    - buf.all(s=0)
    - buf.all(s=1)
    - bar.sync()
    - domain_loop: {var: k, end: END}
      steps: [buf.put(k=k), SYNC"regs.take(k=k)"SYNC2]
    - y.write()
tasks: {turn: {warp_idx: 0, num_warps: 4}}
"""
TILE = "op: load, takes: [k], from: "
APART = {"PUT": "t[k % 2]", "VALUE": "regs.v", "TAKE": TILE + '"buf.t[k % 2]", to: v', "END": "trips"}


def codes(sync: bool, **words: str) -> list[str]:
    text = SPEC.replace("SYNC2", ", bar.sync()" if sync else "").replace("SYNC", "bar.sync(), " if sync else "")
    for word, value in {**APART, **words}.items():
        text = text.replace(word, value)
    report = check_text(text)
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics if d.code[:4] != "TS27"]  # the graph is of another text


HALF = {"PUT": "t[0, 0:+32, :]", "VALUE": '"regs.v[0:+32, :]"'}


@pytest.mark.parametrize("end", ["trips", '"len[b]"', "500"])
@pytest.mark.parametrize(
    "words",
    [
        {},
        {"PUT": "t[k % 2].T", "TAKE": TILE + '"buf.t[k % 2].T", to: v'},
        {"PUT": "t[k % 2]", "TAKE": 'op: map, takes: [k], set: ["v = v + buf.t[k % 2, rows(v), cols(v)]"]'},
        {"PUT": "t[len[b]]", "TAKE": TILE + '"buf.t[len[b]]", to: v'},
        {"PUT": "t[0, k*4 % 64:+4, :]", "VALUE": "regs.w", "TAKE": TILE + '"buf.t[0, k*4 % 64:+4, :]", to: w'},
        {
            "PUT": "t[0, 0:+32, :]",
            "VALUE": '"regs.v[0:+32, :]"',
            "TAKE": TILE + '"buf.t[0, 0:+32, :]", to: "v[0:+32, :]"',
        },
        {"PUT": "t[0, 3:+4, :]", "VALUE": "regs.w", "TAKE": TILE + '"buf.t[0, 3:+4, :]", to: w'},
    ],
)
def test_threads_own_what_they_touch_in_one_order(words: dict[str, str], end: str) -> None:
    """Windows that are equal or apart, in one order, need no barrier."""
    assert codes(False, END=end, **words) == []


@pytest.mark.parametrize(
    "words",
    [
        {"PUT": "t[k % 2].T"},
        {"TAKE": TILE + '"buf.t[k % 2].T", to: v'},
        {"TAKE": 'op: map, takes: [k], set: ["v = v + buf.t[k % 2, cols(v), rows(v)]"]'},
        {"TAKE": 'op: map, takes: [k], set: ["v = v + buf.t[k % 2, rows(v), n - 1 - cols(v)]"]'},
        {"VALUE": "regs.v.T"},
        {"PUT": "t[0, k:+4, :]", "VALUE": "regs.w", "TAKE": TILE + '"buf.t[0, k:+4, :]", to: w'},
        {"PUT": "t[0, k % 7:+4, :]", "VALUE": "regs.w", "TAKE": TILE + '"buf.t[0, k % 7:+4, :]", to: w'},
        {"PUT": "t[0, len[b]:+4, :]", "VALUE": "regs.w", "TAKE": TILE + '"buf.t[0, len[b]:+4, :]", to: w'},
        {
            "PUT": "t[0, 0:+32, :]",
            "VALUE": '"regs.v[0:+32, :]"',
            "TAKE": TILE + '"buf.t[0, 0:+32, :]", to: "v[32:+32, :]"',
        },
    ],
)
def test_another_order_or_a_sliding_window_needs_a_barrier(words: dict[str, str]) -> None:
    assert codes(False, **words) == ["TS500"]
    assert codes(True, **words) == []
