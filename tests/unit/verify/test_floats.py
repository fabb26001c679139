"""Floats are no integers: conditions over them are one only if they are written alike, and nothing follows of them by
arithmetic, by rounding, or where one is not a number."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text

SPEC = """tsgen: 1
kernel: floats
target: sm_90a
doc: One warp commits and one waits, each under its condition.
tensors:
  scale: {{dtype: f32, shape: []}}
  half: {{dtype: bf16, shape: []}}
  count: {{dtype: i32, shape: []}}
  data: {{dtype: f32, shape: [T]}}
  mode: {{dtype: i32, shape: [T]}}
  y: {{dtype: i32, shape: [B, T], output: true, work: {{put: {{op: store, takes: [i], value: 1, to: "y[b, i]"}}}}}}
launch: {{tiles: {{b: B}}, let: {{same: scale, twice: 2*scale}}, assume: ["{assume}"]}}
resources:
  r: {{kind: rmem, storage: {{c: {{dtype: f32, shape: []}}, n: {{dtype: i32, shape: []}}}}, work: {work}}}
  s:
    kind: smem
    work: {{one: {{role: producer, attrs: [auxiliary], takes: [i], returns: [z], body: "z = mode[i] * 0.5"}}}}
    pipeline: {{type: async_async, num_stages: 2}}
graph: {{y: [scale, half, count, data, mode]}}
schedules:
  p:
    - domain_loop: {{var: i, end: T}}
      steps:
        - {before}
        - when_true: {{cond: "{one}"}}
          steps: [s.acquire(), s.commit()]
  c:
    - domain_loop: {{var: i, end: T}}
      steps:
        - {before}
        - when_true: {{cond: "{other}"}}
          steps: [s.wait(), y.put(i=i), s.release()]
tasks: {{p: {{warp_idx: 0, num_warps: 1}}, c: {{warp_idx: 1, num_warps: 1}}}}
"""
WORK = "{f: {op: load, takes: [i], from: 'data[i]', to: c}, n: {op: load, takes: [i], from: 'mode[i]', to: n}}"


def proven(one: str, other: str, before: str = "z = s.one(i=i)", assume: str = "T >= 0") -> bool:
    """Whether two conditions are taken for one."""
    report = check_text(SPEC.format(one=one, other=other, before=before, assume=assume, work=WORK))
    found = {d.code for d in report.diagnostics if d.severity == "error"} - {"TS270"}  # the graph is that of all pairs
    assert found <= {"TS400", "TS404", "TS405"}, [d.message for d in report.diagnostics]
    return not found and report.proof is not None and report.proof.complete


@pytest.mark.parametrize("x", ["scale", "half", "same", "twice", "z", "r.c"])
def test_no_rounding_to_integers(x: str) -> None:
    before = "r.f(i=i)" if x == "r.c" else "z = s.one(i=i)"
    assert proven(f"{x} > 0", f"0 < {x}", before)
    assert proven(f"{x} >= 1", f"not 1 > {x} or {x} >= 1", before) is False
    assert not proven(f"{x} > 0", f"{x} >= 1", before)
    assert not proven(f"2*{x} >= 1", f"{x} >= 1", before)


@pytest.mark.parametrize("x", ["scale", "half", "same", "z", "r.c"])
def test_what_is_not_a_number(x: str) -> None:
    before = "r.f(i=i)" if x == "r.c" else "z = s.one(i=i)"
    assert not proven(f"{x} > 0", f"not {x} <= 0", before)
    assert not proven(f"{x} == {x}", "i >= 0", before)
    assert not proven(f"{x} - {x} == 0", "i >= 0", before)
    assert not proven(f"{x}*0 == 0", "i >= 0", before)
    assert proven(f"{x} != 0", f"not {x} == 0", before)


@pytest.mark.parametrize("x", ["scale", "z", "r.c"])
def test_sums_are_not_associative(x: str) -> None:
    before = "r.f(i=i)" if x == "r.c" else "z = s.one(i=i)"
    assert not proven(f"{x} + 1.0e+10 - 1.0e+10 > 0", f"{x} > 0", before)
    assert not proven(f"{x} > 1", f"{x} - 1 > 0", before)
    assert proven(f"{x}*3 + 1 > {x}", f"{x} < {x}*3 + 1", before)


def test_an_assumption_over_a_float_says_nothing_of_integers() -> None:
    assert not proven("scale >= 1", "i >= 0", assume="scale > 0")
    assert not proven("same >= 1", "i >= 0", assume="same > 0")
    assert proven("count >= 1", "i >= 0", assume="count > 0")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("i < scale", "i + 1 <= scale"),
        ("scale // 1 == scale", "i >= 0"),
        ("scale % 1 == 0", "i >= 0"),
        ("mode[i] / 2 >= 1", "mode[i] // 2 >= 1"),
        ("mode[i]*0.5 > 0", "mode[i] > 0"),
        ("i*0.1 >= 0.3", "i >= 3"),
        ("max(scale, 0) >= 0", "i >= 0"),
        ("(scale if scale > 1 else 1) >= 1", "i >= 0"),
    ],
)
def test_numbers_between_integers(one: str, other: str) -> None:
    assert not proven(one, other)


@pytest.mark.parametrize("x", ["count", "mode[i]", "r.n"])
def test_integers_stay_integers(x: str) -> None:
    before = "r.n(i=i)" if x == "r.n" else "z = s.one(i=i)"
    assert proven(f"{x} + 2 > 3", f"{x} > 1", before)
    assert proven(f"{x} > 1", f"1 < {x}", before)
