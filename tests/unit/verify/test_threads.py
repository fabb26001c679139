"""`threads` is a number of each task: two tasks that write it need not mean the same."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

SPEC = """tsgen: 1
kernel: threads
target: sm_90a
doc: One task commits and one waits, as often as it has threads, or where it has many.
tensors:
  y: {{dtype: i32, shape: [B, T], output: true, work: {{put: {{op: store, takes: [i], value: 1, to: "y[b, i]"}}}}}}
launch: {{tiles: {{b: B}}}}
resources:
  r: {{kind: rmem, storage: {{c: {{dtype: i32, shape: []}}}}, work: {{own: {{op: map, set: ["c = threads"]}}}}}}
  s:
    kind: smem
    work: {{own: {{role: producer, attrs: [auxiliary], returns: [z], body: "z = threads"}}}}
    pipeline: {{type: async_async, num_stages: 2}}
graph: {{y: []}}
schedules:
  p:
    - domain_loop: {{var: i, {bounds}}}
      steps: [z = s.own(), r.own(), {{when_true: {{cond: "{condition}"}}, steps: [s.acquire(), s.commit()]}}]
  c:
    - domain_loop: {{var: i, {bounds}}}
      steps:
        - z = s.own()
        - r.own()
        - {{when_true: {{cond: "{condition}"}}, steps: [s.wait(), "y.put(i=i)", s.release()]}}
tasks: {{p: {{warp_idx: 0, num_warps: 1}}, c: {{warp_idx: 4, num_warps: {warps}}}}}
"""


@pytest.mark.parametrize(
    ("bounds", "condition"),
    [
        ("end: threads", "i >= 0"),
        ("end: T, step: threads", "i >= 0"),
        ("start: threads, end: T", "i >= 0"),
        ("end: T", "threads > 40"),
        ("end: T", "z > 40"),
        ("end: T", "r.c > 40"),
        ("end: T", "i < threads // 8"),
    ],
)
def test_each_task_has_its_own_number(bounds: str, condition: str) -> None:
    def wrong(warps: int) -> list[str]:
        report = check_text(SPEC.format(bounds=bounds, condition=condition, warps=warps))
        return [d.code for d in report.diagnostics if d.severity == "error"]

    assert wrong(1) == []
    assert wrong(2) and set(wrong(2)) <= {"TS400", "TS404", "TS405"}
