"""Loops over one number that start after other loops over it have ended: proven for every number."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checking import check_text
from tests.support.process import ROOT
from tsgen.diagnostics.report import FileReport

PAIR = """  first:
    kind: smem
    storage: {t: {dtype: f32, shape: [1, n]}}
    pipeline: {type: tma_async, num_stages: stages}
    work:
      load: {op: tma_load, takes: [k], copies: [{to: t, from: "x[k:+1, :]"}]}
      read: {op: load, from: "t[0, :]", returns: [v]}
"""
HEAD = """tsgen: 1
kernel: phases
target: sm_90a
doc: Pairs of tasks go over K, each after the one before has ended.
params: {n: 64, stages: 3}
tensors:
  x: {dtype: f32, shape: [K, n]}
"""


def phases(names: tuple[str, ...]) -> str:
    """A spec with a pair of tasks for each name; a pair starts when the one before has ended."""
    lines = [HEAD]
    for w in names:
        work = f'{{write: {{op: store, takes: [k, v], value: v, to: "y{w}[k, :]"}}}}'
        lines.append(f"  y{w}: {{dtype: f32, shape: [K, n], output: true, work: {work}}}\n")
    lines.append("launch: {tiles: {cell: 1}}\nresources:\n")
    lines += [PAIR.replace("first", w) for w in names]
    lines += [f"  to_{w}: {{kind: barrier}}\n" for w in names[1:]]
    lines.append(f"graph: {{{', '.join(f'{w}: [x], y{w}: [{w}]' for w in names)}}}\nschedules:\n")
    for i, w in enumerate(names):
        start = f"    - to_{w}.sync()\n" if i else ""
        end = f"    - to_{names[i + 1]}.arrive()\n" if i + 1 < len(names) else ""
        loop = "    - domain_loop: {var: k, end: K}\n      steps: "
        lines.append(f"  load_{w}:\n{start}{loop}[{w}.acquire(), {w}.load(k=k), {w}.commit()]\n")
        store = f'[{w}.wait(), v = {w}.read(), "y{w}.write(k=k, v=v)", {w}.release()]'
        lines.append(f"  store_{w}:\n{start}{loop}{store}\n{end}")
    lines.append("tasks:\n")
    for i, w in enumerate(names):
        lines.append(f"  store_{w}: {{warp_idx: {4 * i}, num_warps: 4}}\n")
        lines.append(f"  load_{w}: {{warp_idx: {4 * len(names) + i}, num_warps: 1}}\n")
    return "".join(lines)


def check(text: str) -> FileReport:
    return check_text(text)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_phases_are_proven_for_every_number(count: int) -> None:
    report = check(phases(("a", "b", "c")[:count]))
    assert report.diagnostics == ()
    assert report.proof.complete and "empirical" not in report.proof.statement
    assert report.proof.statement.endswith("for every value of K")


def test_a_fault_in_a_late_phase_is_found_with_the_smallest_number() -> None:
    text = phases(("a", "b"))
    (d,) = check(text.replace("b.release()]", "b.release(), b.wait()]")).diagnostics
    assert d.code == "TS400" and "with K = 1" in d.message
    late = text.replace("b.release()]", "b.release()]").replace(
        "  load_b:\n    - to_b.sync()\n    - domain_loop: {var: k, end: K}",
        '  load_b:\n    - to_b.sync()\n    - domain_loop: {var: k, end: "max(K, 11)"}',
    )
    (d,) = check(late).diagnostics
    assert d.code in ("TS400", "TS404") and "K = 0" in d.message


def test_a_fault_of_many_trips_in_a_late_phase_is_found() -> None:
    """From the 20th trip on, the second phase waits twice: far beyond what is counted one by one."""
    text = phases(("a", "b")).replace(
        "steps: [b.wait(), v = b.read()",
        "steps:\n        - every: {period: 1000, start: 20}\n          steps: [b.wait()]\n"
        "        - b.wait()\n        - v = b.read()",
    )
    text = text.replace(
        ', "yb.write(k=k, v=v)", b.release()]', '\n        - "yb.write(k=k, v=v)"\n        - b.release()'
    )
    (d,) = check(text).diagnostics
    assert d.code == "TS400" and "with K = 21" in d.message


@pytest.mark.parametrize("path", sorted((ROOT / "tests/kernels").glob("*.yaml")), ids=lambda p: p.stem)
def test_kernels_of_the_tests_are_proven(path: Path) -> None:
    """`umma_umma`: a loader waits far behind, for a task that begins when another has ended."""
    report = check_text(path.read_text())
    assert report.diagnostics == () and report.proof.complete


def test_numbers_that_are_at_least_huge_are_soon_gone_through() -> None:
    text = (ROOT / "specs/gemm.yaml").read_text()
    assert "assume: [K >= 1," in text
    report = check_text(text.replace("assume: [K >= 1,", "assume: [K >= 2147483648,"))
    assert report.diagnostics == () and report.proof.complete and report.proof.states < 1000


FAR = [
    ("specs/group_merge.yaml", ("N % 4 == 0", "N % 1000000000 == 0")),  # millions of blocks, or none
    ("specs/interleave_warp.yaml", ("N % 4 == 0", "N % 1000000000 == 0")),
    ("specs/copy_tma.yaml", ('end: "ceil_div(N, tile_n)"', 'end: "ceil_div(N, tile_n) + 1000000000"')),
]


@pytest.mark.parametrize(("path", "edit"), FAR, ids=["many", "lanes", "more"])
def test_bounds_that_jump_far_are_any_number(path: str, edit: tuple[str, str]) -> None:
    text = (ROOT / path).read_text()
    assert edit[0] in text
    report = check_text(text.replace(*edit))
    assert [d for d in report.diagnostics if d.severity == "error"] == [] and report.proof.complete
    assert report.proof.states < 1000


def test_bounds_that_jump_far_differ_where_one_is_more() -> None:
    old, new = FAR[2][1]
    report = check_text((ROOT / FAR[2][0]).read_text().replace(old, new, 1))
    assert [d.code for d in report.diagnostics] == ["TS400"]


def test_an_exploration_ends_after_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of 40,000 and 40,001 trips differ: found if they are run to their ends, else not proven."""
    text = (ROOT / "specs/copy_tma.yaml").read_text()
    bound = 'end: "ceil_div(N, tile_n)"'
    wrong = text.replace(bound, "end: 40000", 1).replace(bound, "end: 40001", 1)
    assert [d.code for d in check_text(wrong).diagnostics] == ["TS400"]
    for module in ("tsgen.verify.run", "tsgen.verify.explore"):
        monkeypatch.setattr(f"{module}.MAX_STEPS", 10_000)
    report = check_text(wrong)
    assert [d.code for d in report.diagnostics] == ["TS407"] and not report.proof.complete
