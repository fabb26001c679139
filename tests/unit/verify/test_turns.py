"""Several groups that take tiles in turn and skip each other's stages: any number of groups, any number of trips."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tsgen.diagnostics.report import FileReport


def check(groups: int, stages: int, skips: tuple[str, ...] = (), step: str = "", behind: str = "") -> FileReport:
    """`skips`: what each group skips at first. `step`: between its loop and the next one's turn; `behind`: after it."""
    turns = "\n".join(f"    - if: w == {g}\n      steps: [ring.skip({skips[g]})]" for g in range(1, groups))
    return check_text(f"""tsgen: 1
kernel: turns
target: sm_90a
doc: Groups copy tiles in turn.
tensors:
  x: {{dtype: f16, shape: [B, N, 64]}}
  y:
    dtype: f16
    shape: [B, N, 64]
    output: true
    work: {{put: {{op: store, takes: [i, v], value: v, to: "y[b, i, :]"}}}}
launch: {{tiles: {{b: B}}}}
resources:
  tiles: {{kind: work_queue, scheduler: static_persistent}}
  ring:
    kind: smem
    storage: {{t: {{dtype: f16, shape: [64]}}}}
    pipeline: {{type: tma_async, num_stages: {stages}}}
    work:
      load: {{op: tma_load, takes: [i], copies: [{{to: t, from: "x[b, i, :]"}}]}}
      read: {{op: load, from: t, returns: [v]}}
  turn: {{kind: barrier, each: {{w: {groups}}}}}
graph: {{ring: [x], y: [ring]}}
schedules:
  load:
    - work_tile_loop: {{queue: tiles}}
      steps:
        - domain_loop: {{var: i, end: N}}
          steps: [ring.acquire(), ring.load(i=i), ring.commit()]
  store:
    - if: w == {groups - 1}
      steps: ["turn[0].arrive()"]
{turns}
    - work_tile_loop: {{queue: tiles, first: w, stride: {groups}}}
      steps:
        - turn[w].sync()
        - domain_loop: {{var: i, end: N}}
          steps: [ring.wait(), v = ring.read(), "y.put(i=i, v=v)", ring.release()]
        - {step or f"turn[(w + 1) % {groups}].arrive()"}
        - {behind or f"ring.skip({groups - 1}*N)"}
tasks: {{store: {{each: {{w: {groups}}}, warp_idx: 4*w, num_warps: 4}}, load: {{warp_idx: {4 * groups}, num_warps: 1}}}}
""")


def codes(report: FileReport) -> set[str]:
    return {d.code for d in report.diagnostics if d.severity == "error"}


@pytest.mark.parametrize(("groups", "stages"), [(2, 6), (3, 2), (3, 6), (4, 4), (3, 12)])
def test_groups_in_turn(groups: int, stages: int) -> None:
    skips = tuple(f"{g}*N" for g in range(groups))
    right = check(groups, stages, skips)
    assert right.diagnostics == () and right.proof.complete and right.proof.states < 300
    few = check(groups, stages, skips, behind=f"ring.skip({groups - 2}*N)" if groups > 2 else "ring.skip(2*N)")
    more = check(groups, stages, skips, behind=f"ring.skip({groups}*N)")
    early = check(groups, stages, (*skips[:-1], f"{groups}*N"))
    late = check(groups, stages, skips, behind=f"ring.skip({groups - 1}*N + 1)")
    for wrong in (few, more, early, late):
        assert codes(wrong) & {"TS400", "TS401", "TS402", "TS403", "TS404", "TS405", "TS500"}


def test_a_turn_that_is_not_passed_on() -> None:
    wrong = check(3, 6, ("0", "1*N", "2*N"), step="turn[(w + 2) % 3].arrive()")
    assert codes(wrong) & {"TS400", "TS401"}
