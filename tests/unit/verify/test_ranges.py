"""Windows of fields stay inside them, for every value that they have when the kernel is built."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

SPEC = """tsgen: 1
kernel: inside
target: sm_90a
doc: Windows of a field.
params: {n: 64}
tensors:
  x: {dtype: f32, shape: [B, n, n]}
  y: {dtype: f32, shape: [B, n], output: true, work: {set: {op: store, takes: [v], value: v, to: "y[b, thread]"}}}
launch: {tiles: {b: B}}
resources:
  buf:
    kind: smem
    storage: {t: {dtype: f32, shape: [n]}, u: {dtype: f32, shape: [3, n]}}
    work:
      put: {op: store, takes: [k], value: 1.0, to: "PUT"WHERE}
      get: {role: consumer, op: load, takes: [k], from: "GET", returns: [v]}
  bar: {kind: barrier}
graph: {buf: [], y: [buf]}
schedules:
  turn:
    - domain_loop: {var: k, end: END}
      steps:
        STEP
    - bar.sync()
    - v = buf.get(k=0)
    - y.set(v=v)
tasks: {turn: {warp_idx: 0, num_warps: 2}}
"""
DEFAULT = {
    "PUT": "t[thread]",
    "WHERE": "",
    "GET": "t[63 - thread]",
    "END": "1",
    "STEP": "- buf.put(k=k)",
}


def messages(**words: str) -> list[str]:
    text = SPEC
    for word, value in {**DEFAULT, **words}.items():
        text = text.replace(word, value)
    return [d.message for d in check_text(text).diagnostics if d.code == "TS190"]


def when(condition: str) -> str:
    return f"- when_true: {{cond: {condition}}}\n          steps: [buf.put(k=k)]"


FIRST = "- first_iter: {}\n          steps: [buf.put(k=k)]"


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"PUT": "t[thread * 2 % 64]"},
        {"PUT": "t[warp*32 + lane]"},
        {"PUT": "u[k, thread]", "END": "3"},
        {"PUT": "u[k, thread]", "END": "8", "STEP": when("k < 3")},
        {"PUT": "u[k, thread]", "END": "8", "STEP": FIRST},
        {"PUT": "t[thread + k]", "STEP": when("thread < 63"), "END": "2"},
        {"PUT": "t[2*thread]", "WHERE": ", where: thread < 32"},
        {"PUT": "u[k, thread]", "END": '"B"'},  # how often is not known
    ],
)
def test_windows_that_stay_inside(words: dict[str, str]) -> None:
    assert messages(**words) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"PUT": "t[thread + 1]"}, "`thread + 1` is 64 with thread = 63"),
        ({"GET": "t[62 - thread]"}, "`62 - thread` is -1 with thread = 63"),
        ({"PUT": "t[warp*64 + lane]"}, "`warp*64 + lane` is 64 with lane = 0 and warp = 1"),
        ({"PUT": "u[k, thread]", "END": "4"}, "dimension 0 has the indices 0 to 2, `k` is 3"),
        ({"PUT": "u[k, thread]", "END": "8", "STEP": when("k < 4")}, "`k` is 3"),
        ({"PUT": "t[2*thread]", "WHERE": ", where: thread < 33"}, "`2*thread` is 64 with thread = 32"),
        ({"PUT": "u[0:+3, k*32:+32]", "END": "3"}, "`k*32:+32` takes 64 to 96"),
    ],
)
def test_a_window_outside_is_told_with_its_values(words: dict[str, str], message: str) -> None:
    found = messages(**words)
    assert len(found) == 1 and message in found[0], found
