"""Inline bodies run by their NumPy twins."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsgen.cli.analysis import Case, analyse
from tsgen.cli.options import one
from tsgen.runtime.errors import CannotRun
from tsgen.simulate.run import simulate

SPEC = """
tsgen: 1
kernel: bodies
target: sm_90a
doc: y[b] is 2 x[b] backwards, plus 2 x[b], plus the first element of the row.
params: {n: 128, stages: 2}
tensors:
  x:
    dtype: f32
    shape: [B, n]
    work:
      get: {op: load, takes: [i], from: "x[i, :]", returns: [v]}
      first: {role: consumer, takes: [i], returns: [f], reads: {row: "x[i, 0:+1]"}, body: "f = row[0]", numpy: same}
  y:
    dtype: f32
    shape: [B, n]
    output: true
    work: {set: {op: store, takes: [i, m, f, k], value: m + f + k, to: "y[i, thread]"}}
reference: {value: {y: "2*where(cols(x) >= 0, x[:, 127 - cols(x)], 0) + x[:, 0:+1] + 2*x"}, shapes: [{B: 5}]}
launch: {tiles: {c: 1}}
resources:
  row:
    kind: smem
    storage: {v: {dtype: f32, shape: [n]}, pair: {dtype: f32, shape: [2, n]}}
    pipeline: {type: async_async, num_stages: stages}
    work:
      put: {op: store, takes: [w], value: w, to: v}
      double: {role: producer, body: "pass", numpy: "v *= 2"}
      keep: {role: producer, writes: {half: "pair[1]"}, body: "pass", numpy: "half[:] = v"}
      kept: {role: consumer, returns: [k], reads: {half: "pair[1]"}, body: "k = half[thread]", numpy: same}
      at: {role: consumer, returns: [m], body: "m = v[n - 1 - thread]", numpy: same}
graph: {row: [x, row], y: [row, x]}
schedules:
  fill:
    - domain_loop: {var: i, end: B}
      steps: [v = x.get(i=i), row.acquire(), row.put(w=v), row.double(), row.keep(), row.commit()]
  turn:
    - domain_loop: {var: i, end: B}
      steps: [f = x.first(i=i), row.wait(), m = row.at(), k = row.kept(), row.release(), "y.set(i=i, m=m, f=f, k=k)"]
tasks:
  fill: {warp_idx: 0, num_warps: 4}
  turn: {warp_idx: 4, num_warps: 4}
"""


def case(tmp_path: Path, *edits: tuple[str, str]) -> Case:
    text = SPEC
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = tmp_path / "bodies.yaml"
    path.write_text(text)
    analysis = analyse(str(path), one({}, None, None), prove=False)
    assert analysis.cases, analysis.report.diagnostics
    return analysis.cases[0]


def test_twins_are_run_by_each_warp_for_its_part(tmp_path: Path) -> None:
    c = case(tmp_path)
    for seed in range(6):
        outcome = simulate(c.program, c.kernels, {"B": 5}, seed)
        assert outcome.ok, str(outcome)


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (('numpy: "v *= 2"', 'numpy: "v *= nothing"'), "NameError"),
        ((', numpy: "v *= 2"', ""), "has no NumPy twin"),
        (('"m = v[n - 1 - thread]", numpy: same', '"m = v[n - 1 - thread]", numpy: "k = 1"'), "does not assign m"),
    ],
)
def test_a_twin_that_fails_is_refused(tmp_path: Path, edit: tuple[str, str], said: str) -> None:
    c = case(tmp_path, edit)
    with pytest.raises(CannotRun, match=said):
        simulate(c.program, c.kernels, {"B": 1}, 0)


def test_a_twin_that_reads_outside_is_a_fault(tmp_path: Path) -> None:
    c = case(tmp_path, ('"m = v[n - 1 - thread]", numpy: same', '"m = v[n - 1 - thread]", numpy: "m = v[n - thread]"'))
    outcome = simulate(c.program, c.kernels, {"B": 1}, 0)
    assert outcome.finding is not None and outcome.finding.kind == "outside"
