"""A stage that is written again within its turn holds another value, whoever reads it there."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

SPEC = """tsgen: 1
kernel: refilled
target: sm_90a
doc: A producer looks at its stage twice, and commits under the first value what it waits for under the second.
tensors:
  mode: {{dtype: i32, shape: [T]}}
  y: {{dtype: i32, shape: [T], output: true, work: {{put: {{op: store, takes: [i], value: 1, to: "y[i]"}}}}}}
launch: {{tiles: {{b: 1}}}}
resources:
  f:
    kind: smem
    storage: {{t: {{dtype: i32, shape: [4]}}}}
    pipeline: {{type: async_async, num_stages: 1}}
    work:
      fill: {{op: store, takes: [i], value: "mode[i]", to: "t[0]"}}
      more: {{op: store, takes: [i], value: "mode[i] + 1", to: "t[0]"}}
      body: {{role: producer, body: "t[0] = 3", numpy: same}}
      peek: {{role: producer, returns: [v], body: "v = t[0]", numpy: same}}
  s: {{kind: smem, pipeline: {{type: async_async, num_stages: 2}}}}
graph: {{f: [mode], y: []}}
schedules:
  p:
    - domain_loop: {{var: i, end: T}}
      steps:
        - f.acquire()
        - f.fill(i=i)
        - z = f.peek()
        {between}
        - w = f.peek()
        - f.commit()
        - when_true: {{cond: z > 0}}
          steps: [s.acquire(), s.commit()]
        - when_true: {{cond: {other} > 0}}
          steps: [s.wait(), s.release()]
  c:
    - domain_loop: {{var: i, end: T}}
      steps: [f.wait(), f.release(), y.put(i=i)]
tasks: {{p: {{warp_idx: 0, num_warps: 1}}, c: {{warp_idx: 1, num_warps: 1}}}}
"""


def wrong(between: str, other: str = "w") -> bool:
    report = check_text(SPEC.format(between=f"- {between}", other=other))
    found = {d.code for d in report.diagnostics if d.severity == "error"}
    assert found <= {"TS400", "TS404", "TS405"}, [d.message for d in report.diagnostics]
    return bool(found)


@pytest.mark.parametrize(
    "between",
    ["f.more(i=i)", "f.body()", "{first_iter: {}, steps: [f.more(i=i)]}", "{every: {period: 2}, steps: [f.body()]}"],
)
def test_a_write_in_between_makes_another_value(between: str) -> None:
    assert wrong(between)
    assert not wrong(between, "z")
