"""Conditions that all tasks have are proven whatever they come from; a task that has another one is wrong, and told
with numbers that can be."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tsgen.diagnostics.report import FileReport
from tsgen.verify.prove import AT_ONCE

HEAD = """tsgen: 1
kernel: chosen
target: sm_90a
doc: One warp loads blocks, four warps store them, both under conditions.
tensors:
  x: {dtype: f16, shape: [N, G, H, B, 64]}
  lens: {dtype: i32, shape: [L]}
  y:
    dtype: f16
    shape: [N, H, B, 64]
    output: true
    work: {put: {op: store, takes: [i, v], value: v, to: "y[i, h, b, :]"}}
launch: {tiles: {h: H, b: B}, let: {n: "lens[b]"}, assume: ["n >= 0"]}
resources:
  q: {kind: work_queue, scheduler: static_persistent}
  ring:
    kind: smem
    storage: {t: {dtype: f16, shape: [64]}}
    pipeline: {type: tma_async, num_stages: 2}
    work:
      load: {op: tma_load, takes: [i], copies: [{to: t, from: "x[i, 0, h, b, :]"}]}
      read: {op: load, from: t, returns: [v]}
graph: {ring: [x], y: [ring]}
tasks: {store: {warp_idx: 0, num_warps: 4}, load: {warp_idx: 4, num_warps: 1}}
schedules:
"""
LOAD = ["ring.acquire()", "ring.load(i=i)", "ring.commit()"]
STORE = ["ring.wait()", "v = ring.read()", "y.put(i=i, v=v)"]
RELEASE = ["ring.release()"]


def task(name: str, steps: list[str], when: str, behind: list[str], skip: str, end: str) -> str:
    """A task that takes steps under a condition, and others behind it, in tiles that it does not skip."""
    lines = [f"- domain_loop: {{var: i, end: '{end}'}}", "  steps:"]
    lines += [f"    - when_true: {{cond: '{when}'}}", f"      steps: {steps}".replace("'", '"')]
    lines += [f"    - {step}" for step in behind]
    if skip:
        lines = ["- skippable: {}", "  steps:", *(f"    {line}" for line in lines)]
    tiles = f"{{queue: q, skip_if: '{skip}'}}" if skip else "{queue: q}"
    body = "\n".join(f"        {line}" for line in lines)
    return f"  {name}:\n    - work_tile_loop: {tiles}\n      steps:\n{body}\n"


def check(load: str, store: str, skip: str = "", other: str = "", late: bool = False, end: str = "N") -> FileReport:
    """`late`: the stage is released behind the condition."""
    own = STORE if late else STORE + RELEASE
    both = task("load", LOAD, load, [], skip, end) + task("store", own, store, RELEASE if late else [], other, end)
    text = HEAD + both
    if "n" in skip.split():
        text = text.replace("ring: [x], y: [ring]", "ring: [x, lens], y: [ring, lens]")
    return check_text(text)


def codes(report: FileReport) -> list[str]:
    return [d.code for d in report.diagnostics if d.severity == "error"]


CONDITIONS = [  # and the same, off by one
    ("i < N // 2", "i < N // 2 + 1", "N"),
    ("2*i < N", "2*i < N + 2", "N"),
    ("i*64 < G", "i*64 <= G", "N"),
    ("i < G - 1 and h > 0", "i < G - 1 and h > 1", "N"),
    ("i >= N - G", "i > N - G", "N"),
    ("i < G or i >= N - G", "i < G or i > N - G", "N"),
    ("(i + 1)*128 > N", "(i + 2)*128 > N", "ceil_div(N, 128)"),
    ("i < N", "i <= N", "2*N"),
    ("i >= 600", "i >= 601", "N"),
]


@pytest.mark.parametrize(("when", "other", "end"), CONDITIONS)
def test_a_condition_that_all_tasks_have(when: str, other: str, end: str) -> None:
    right = check(when, when, end=end)
    assert right.diagnostics == () and right.proof.complete and right.proof.states < AT_ONCE
    assert codes(check(when, other, end=end)) in (["TS400"], ["TS404"])
    assert codes(check(other, when, end=end)) in (["TS400"], ["TS404"])
    assert codes(check(when, when, late=True, end=end)) in (["TS400"], ["TS404"], ["TS405"])


SKIPS = [
    ("n == 0 or h*4 >= n", "n == 0 or h*4 > n"),
    ("h*4 >= n or n > 9", "h*4 >= n or n > 8"),
    ("h > b or h > 7", "h > b or h > 8"),
    ("h > b and b > 7", "h > b"),
]


@pytest.mark.parametrize(("skip", "other"), SKIPS)
def test_tiles_that_all_tasks_skip(skip: str, other: str) -> None:
    right = check("i >= 0", "i >= 0", skip, skip)
    assert right.diagnostics == () and right.proof.complete and right.proof.states < 60
    assert codes(check("i >= 0", "i >= 0", skip, other)) in (["TS400"], ["TS404"])
    assert {"TS400", "TS404"} & {*codes(check("i >= 0", "i >= 0", skip, "h > 7 and h < 6"))}


def test_a_choice_that_cannot_be_is_not_told() -> None:
    """Outcomes are chosen first; what is wrong with a choice that numbers never make is not wrong."""
    right = check("i < 2 and N > 3", "i < 2 and N >= 4")
    assert right.diagnostics == () and right.proof.complete
    same = check("i == 0", "i < 1")
    assert same.diagnostics == () and same.proof.complete
    wrong = check("i == 0", "i < 2")
    assert codes(wrong) == ["TS400"] and "N = 2" in wrong.diagnostics[0].message


def test_conditions_of_different_loop_values_are_not_one() -> None:
    """`i >= 3` of a loop from 1 is not that of a loop from 0."""
    text = HEAD + task("load", LOAD, "i >= 3", [], "", "N") + task("store", STORE + RELEASE, "i >= 3", [], "", "N")
    assert check_text(text).diagnostics == ()
    moved = text.replace("- domain_loop: {var: i, end: 'N'}", "- domain_loop: {var: i, start: 1, end: 'N + 1'}", 1)
    assert codes(check_text(moved)) in (["TS400"], ["TS404"])
