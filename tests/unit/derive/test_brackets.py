"""Bytes of a stage on every path from its acquire to its commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checking import check_text
from tsgen.derive import derive
from tsgen.spec import load_program

SPEC = """tsgen: 1
kernel: halves
target: sm_90a
doc: A ring that is filled from one of two tensors, or from both.
params: {n: 32}
tensors:
  x: {dtype: f32, shape: [B, n]}
  z: {dtype: f32, shape: [B, n]}
  f: {dtype: i32, shape: [B]}
  y: {dtype: f32, shape: [B, n], output: true, work: {put: {op: store, takes: [i, v], value: v, to: "y[i, :]"}}}
launch: {tiles: {b: 1}}
resources:
  ring:
    kind: smem
    storage: {t: {dtype: f32, shape: [n]}}
    pipeline: {type: tma_async, num_stages: 2}
    work:
      x: {op: tma_load, takes: [i], copies: [{to: t, from: "x[i, :]"}]}
      z: {op: tma_load, takes: [i], copies: [{to: t, from: "z[i, :]"}]}
      read: {op: load, from: t, returns: [v]}
graph: {ring: [x, z, f], y: [ring]}
schedules:
  load:
    - domain_loop: {var: i, end: B}
      steps:
STEPS  store:
    - domain_loop: {var: i, end: B}
      steps: [ring.wait(), v = ring.read(), "y.put(i=i, v=v)", ring.release()]
tasks: {store: {warp_idx: 0, num_warps: 1}, load: {warp_idx: 1, num_warps: 1}}
"""
X, Z = "ring.x(i=i)", "ring.z(i=i)"


def when(block: str, condition: str, *steps: str) -> str:
    return f"{block}: {{cond: '{condition}'}}|{', '.join(steps)}"


def spec(*steps: str) -> str:
    lines = []
    for s in steps:
        head, _, body = s.partition("|")
        lines += [f"        - {head}\n"] + ([f"          steps: [{body}]\n"] if body else [])
    return SPEC.replace("STEPS", "".join(lines))


def derived_bytes(tmp_path: Path, text: str) -> int:
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    program = load_program(path).program
    assert program is not None
    return derive(program.kernels[0]).tx_bytes["ring"]


def codes(text: str) -> list[str]:
    return [d.code for d in check_text(text).diagnostics if d.code[:4] != "TS27"]  # the graph is of another text


A, C = "ring.acquire()", "ring.commit()"


@pytest.mark.parametrize(
    "steps",
    [
        (A, when("when_true", "i < 3", X), when("when_false", "i < 3", Z), C),
        (A, when("when_true", "i < 3", X), when("when_true", "i >= 3", Z), C),
        (A, when("when_true", "not f[i] > 0", X), when("when_true", "f[i] > 0", Z), C),
        (when("when_true", "i < 3", A, X), when("when_false", "i < 3", A, Z), C),
        (when("when_true", "i < 3", A, X, C), when("when_false", "i < 3", A, Z, C)),
        (A, "first_iter: {}|" + X, "every: {period: 1, start: 1}|" + Z, C),
    ],
)
def test_a_stage_is_filled_one_way_or_the_other(tmp_path: Path, steps: tuple[str, ...]) -> None:
    text = spec(*steps)
    assert derived_bytes(tmp_path, text) == 128
    assert codes(text) == []


@pytest.mark.parametrize(
    "steps",
    [
        (A, when("when_true", "i < 3", X), C),
        (A, X, when("when_true", "i < 3", Z), C),
        (A, when("when_true", "i < 3", X), when("when_true", "i < 4", Z), C),
        (A, when("when_true", "i < 3", X), when("when_false", "i < 3", X, Z), C),
    ],
)
def test_paths_with_other_bytes_are_found(steps: tuple[str, ...]) -> None:
    assert codes(spec(*steps)) == ["TS321"]


def test_many_conditions_soon_end() -> None:
    many = [when("when_true", f"f[i] > {n}", A, X, C) for n in range(40)]
    assert "TS321" not in codes(spec(*many))
