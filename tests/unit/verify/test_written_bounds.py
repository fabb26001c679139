"""A bound that is read from what the kernel itself writes may have changed before the other task reads it."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

SPEC = """tsgen: 1
kernel: written
target: sm_90a
doc: One warp commits as often as a tensor says, another waits as often.
tensors:
  lens: {{dtype: i32, shape: [T], output: true, work: {{zero: {{op: store, takes: [i], value: 0, to: "lens[i]"}}}}}}
  y: {{dtype: i32, shape: [B, T], output: true, work: {{put: {{op: store, takes: [i], value: 1, to: "y[b, i]"}}}}}}
launch: {{tiles: {{b: B}}, let: {{n: "lens[b]"}}}}
resources:
  s: {{kind: smem, pipeline: {{type: async_async, num_stages: 2}}}}
graph: {{y: [lens], s: [lens], lens: []}}
schedules:
  p:
    - domain_loop: {{var: i, end: "{bound}"}}
      steps: [s.acquire(), s.commit()]
  c:
    - domain_loop: {{var: i, end: "{bound}"}}
      steps: [s.wait(), s.release(), y.put(i=i){write}]
tasks: {{p: {{warp_idx: 0, num_warps: 1}}, c: {{warp_idx: 1, num_warps: 1}}}}
"""


@pytest.mark.parametrize("bound", ["lens[b]", "n", "min(n, 4)", "T + lens[0]"])
def test_a_bound_that_the_kernel_writes_is_another_one_for_each_task(bound: str) -> None:
    def errors(write: str) -> list[tuple[str, str]]:
        report = check_text(SPEC.format(bound=bound, write=write))
        skipped = {"TS270", "TS274"}  # the graph is that of all texts
        return [(d.code, d.message) for d in report.diagnostics if d.severity == "error" and d.code not in skipped]

    assert errors("") == []
    ((code, message), *_) = errors(", lens.zero(i=b)")
    assert code in ("TS400", "TS404")
    assert "(which the kernel writes) as p reads it" in message or "min" in message
