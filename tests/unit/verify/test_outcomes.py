"""Every finding is from a real run: outcomes of conditions that led to it are those that the conditions have there."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tsgen.diagnostics.report import FileReport

SPEC = """tsgen: 1
kernel: outcomes
target: sm_90a
doc: One warp commits and one waits, each under its condition.
tensors:
  scale: {{dtype: f32, shape: []}}
  mode: {{dtype: i32, shape: [T]}}
  byte: {{dtype: u8, shape: [T]}}
  y: {{dtype: i32, shape: [M, N], output: true, work: {{put: {{op: store, takes: [i], value: 1, to: "y[m*64, i]"}}}}}}
launch: {{tiles: {{p: 1, m: "ceil_div(M, 64)"}}}}
resources:
  s: {{kind: smem, pipeline: {{type: async_async, num_stages: 2}}}}
graph: {{y: [scale, mode, byte]}}
schedules:
  load:
    - domain_loop: {{var: i, {bounds}}}
      steps: [{{when_true: {{cond: "{one}"}}, steps: [s.acquire(), s.commit()]}}]
  store:
    - domain_loop: {{var: i, {bounds}}}
      steps: [{{when_true: {{cond: "{other}"}}, steps: [s.wait(), "y.put(i=i)", s.release()]}}]
tasks: {{load: {{warp_idx: 0, num_warps: 1}}, store: {{warp_idx: 1, num_warps: 1}}}}
"""


def check(one: str, other: str, bounds: str = "end: N") -> tuple[list[str], FileReport]:
    report = check_text(SPEC.format(one=one, other=other, bounds=bounds))
    return [d.message for d in report.diagnostics if d.severity == "error" and d.code != "TS270"], report


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("i % 997 == 0", "i % 997 == 0 and i < 99700"),
        ("mode[i] > 0 and mode[i]*(mode[i] + 1) % 2 == 0", "mode[i] > 0"),
        ("scale*0.5 >= 1", "scale >= 2"),
    ],
)
def test_what_no_run_does_is_not_told_and_not_proven(one: str, other: str) -> None:
    found, report = check(one, other)
    assert found == [] and not report.proof.complete


def test_the_first_run_that_is_wrong_is_told() -> None:
    (message,), _ = check("i*i < N", "i*i <= N")
    assert "N = 4" in message


def test_the_start_of_a_loop_cancels() -> None:
    (message,), _ = check("(i - m) % 4 == 0", "i >= m", "start: m, end: N, step: 2")
    assert "ceil_div(N - m, 2) = 2" in message
    found, report = check("(i - m) % 4 == 0", "not (i - m) % 4 > 0", "start: m, end: N, step: 2")
    assert found == [] and report.proof.complete


@pytest.mark.parametrize(
    ("one", "other", "outcomes"),
    [
        ("scale > 0", "scale >= 1", ("`scale > 0` true", "`scale >= 1` false")),
        ("scale > 0.2", "scale > 0.3", ("`scale > 0.2` true", "`scale > 0.3` false")),
        ("scale > 0", "not scale <= 0", ("`scale > 0` false", "`not scale <= 0` true")),  # not a number
        ("scale + 1.0e+10 - 1.0e+10 > 0", "scale > 0", ("- 10000000000.0 > 0` false", "`scale > 0` true")),
        ("byte[i] > 1", "byte[i] > 2", ("`byte[i] > 1` true", "`byte[i] > 2` false")),
        ("mode[i] % 4 == 1", "mode[i] % 2 == 1", ("`mode[i]%4 == 1` false", "`mode[i]%2 == 1` true")),
    ],
)
def test_outcomes_that_go_together_are_told(one: str, other: str, outcomes: tuple[str, str]) -> None:
    (message,), _ = check(one, other)
    assert all(o in message for o in outcomes), message


@pytest.mark.parametrize(
    ("always", "bounds"),
    [
        ("i < N", "start: m, end: N"),
        ("i < N", "start: m, end: N, step: extent(m)"),
        ("N > i", "start: 2*m, end: N, step: 3"),
        ("not i + 1 > N", "start: m, end: N"),
        ("m*64 < M", "end: N"),
        ("m < extent(m)", "end: N"),
        ("p == 0", "end: N"),
    ],
)
def test_what_holds_in_every_iteration_and_tile(always: str, bounds: str) -> None:
    found, report = check(always, "0 <= 1", bounds)
    assert found == [] and report.proof.complete


@pytest.mark.parametrize(
    ("sometimes", "bounds"),
    [
        ("i + 1 < N", "start: m, end: N"),
        ("i < N - m", "start: m, end: N"),
        ("m*64 + 1 < M", "end: N"),
        ("m == 0", "end: N"),
    ],
)
def test_what_does_not(sometimes: str, bounds: str) -> None:
    found, _ = check(sometimes, "0 <= 1", bounds)
    assert found
