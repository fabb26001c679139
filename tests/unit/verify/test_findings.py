"""Faults in the examples: the smallest case, both ends, what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernels import kernel
from tsgen.derive import derive
from tsgen.diagnostics import Diagnostic
from tsgen.verify import verify

LOOP = '    - domain_loop: {var: j, end: "ceil_div(N, tile_n)"}\n'


def only(tmp_path: Path, name: str, *edits: tuple[str, str], variant: str | None = None) -> Diagnostic:
    k = kernel(tmp_path, name, *edits, variant=variant)
    report = verify(k, derive(k))
    assert len(report.diagnostics) == 1, [d.message for d in report.diagnostics]
    assert not report.proof.complete
    return report.diagnostics[0]


@pytest.mark.parametrize("period", [2, 3, 5, 7])
def test_the_smallest_number_of_trips_is_named(tmp_path: Path, period: int) -> None:
    """A second wait in every p-th iteration: nothing is wrong before."""
    guard = f"        - every: {{period: {period}, start: {period - 1}}}\n          steps:\n            - ring.wait()\n"
    d = only(tmp_path, "copy_tma", ("        - ring.wait()\n", guard + "        - ring.wait()\n"))
    assert d.code == "TS400"
    assert f"ceil_div(N, tile_n) = {period}:" in d.message


def test_different_bounds_are_different_numbers(tmp_path: Path) -> None:
    edits = ((LOOP, LOOP), ("        - ring.try_wait()\n", ""))
    store = LOOP + "      steps:\n        - ring.wait()"
    d = only(tmp_path, "copy_tma", *edits, (store, store.replace("ceil_div(N, tile_n)", "ceil_div(N, 32)")))
    assert d.code in ("TS400", "TS404") and "with ceil_div(N, 32) = 2: store waits" in d.message


def test_equal_values_under_two_names_are_one_number(tmp_path: Path) -> None:
    tiles = 'launch: {tiles: {m: "ceil_div(M, tile_m)"}'
    let = (tiles + "}", tiles + ', let: {n: "ceil_div(N, 64)"}}')
    store = LOOP + "      steps:\n        - ring.try_wait()"
    k = kernel(tmp_path, "copy_tma", let, (store, store.replace('"ceil_div(N, tile_n)"', "n")))
    assert verify(k, derive(k)).proof.complete


def test_a_deadlock_tells_the_chain_of_waits(tmp_path: Path) -> None:
    d = only(
        tmp_path, "split_consumer", ("        - ready.wait()\n", "        - ready.wait()\n        - ready.wait()\n")
    )
    assert d.message == (
        "deadlock with k_tiles = 1: mma waits at line 62 for ready stage 1 to be full (filled at line 56 by sync), "
        "sync has ended"
    )
    assert d.span.line == 62 and 56 in [r.span.line for r in d.related]
    assert d.notes[0].split() == ["mma", "sync"] and d.notes[-2].strip().startswith("ready.wait() ← waits")


def test_a_race_names_the_missing_completion(tmp_path: Path) -> None:
    d = only(tmp_path, "group_fork", ("        - wgmma.wait_group(0)\n", ""))
    assert d.code == "TS500" and "through WGMMA" in d.message and "`wgmma.wait_group(n)`" in (d.help or "")
    assert [r.span.line for r in d.related] == [73]


def test_warps_of_a_task_need_a_barrier(tmp_path: Path) -> None:
    d = only(tmp_path, "gemm", ("            - epi_bar[w].sync()            # all of the slice is written\n", ""))
    assert d.code == "TS500"
    assert "warps of a task are ordered with each other only by barriers and pipelines" in d.message


def test_only_the_elected_warp_knows_of_its_bulk_groups(tmp_path: Path) -> None:
    swapped = (
        "            - epi_bar[w].sync()            # the oldest staging slice is free for all warps\n"
        "            - epi.put(w=w, s=s)\n"
    )
    d = only(tmp_path, "gemm", (swapped, "".join(reversed(swapped.splitlines(keepends=True)))))
    assert d.code == "TS500" and "cannot know" in d.message
    assert d.help == "put a `sync` of a named barrier between the wait and the second"


def test_a_staging_ring_is_checked_across_tiles(tmp_path: Path) -> None:
    """Three slices over two buffers: the next tile starts in the buffer that the last store still reads."""
    edits = (
        ("  epi_n: 64\n", "  epi_n: 64\n  slices: 3\n"),
        ("for: {s: tile_n // epi_n}", "for: {s: slices}"),
        (", tile_n // epi_n % epi_stages == 0]", "]"),
    )
    d = only(tmp_path, "gemm", *edits)
    assert d.code == "TS500" and "2 tiles" in d.message


def test_a_skipped_tile_must_balance(tmp_path: Path) -> None:
    moved = "        - skippable: {}\n          steps:\n            - q_tile.acquire()\n"
    edit = (moved, "        - q_tile.acquire()\n        - skippable: {}\n          steps:\n")
    d = only(tmp_path, "attention", edit, variant="varlen")
    assert d.code == "TS404" and "`row0 >= len_q` true" in d.message
    k = kernel(tmp_path, "attention", edit)  # there every tile has rows
    assert verify(k, derive(k)).proof.complete


def test_skip_predicates_that_differ(tmp_path: Path) -> None:
    k = kernel(tmp_path, "attention", variant="varlen")
    text = "work_tile_loop: {queue: tiles, skip_if: row0 >= len_q}"
    first = "  load:\n    - " + text
    edit = (first, first.replace("row0 >= len_q", "row0 > len_q"))
    d = only(tmp_path, "attention", edit, variant="varlen")
    assert d.code in ("TS400", "TS404") and "row0 > len_q" in d.message and k.name == "attention"


def test_outcomes_of_a_key_are_shared_by_tasks(tmp_path: Path) -> None:
    """`keep` in both tasks is one choice; another result of the same work is another."""
    guard = "        - when_true: {cond: keep}\n          steps:\n            - ring.wait()"
    d = only(tmp_path, "copy_cond", (guard, guard.replace("keep", "mark")))
    assert d.code in ("TS400", "TS404")


def test_a_condition_on_the_loop_variable_is_computed(tmp_path: Path) -> None:
    """Lagged release by `k > 0` instead of `every`: no choice of the environment."""
    every = "        - every: {period: 1, start: 1}\n"
    k = kernel(tmp_path, "alias_epilogue", (every, '        - when_true: {cond: "k > 0"}\n'))
    assert verify(k, derive(k)).proof.complete
    last = "        - last_iter: {}\n"
    k = kernel(tmp_path, "alias_epilogue", (last, '        - when_true: {cond: "k == k_tiles - 1"}\n'))
    assert verify(k, derive(k)).proof.complete


def test_a_window_by_the_loop_variable_is_computed(tmp_path: Path) -> None:
    """Ring slots by `j % 2` in unpipelined memory: slots are told apart, and their reuse is seen."""
    edits = (
        (
            "  ring:\n    kind: smem\n",
            "  twice:\n    kind: smem\n    storage: {t: {dtype: io, shape: [2, tile_m, tile_n]}}\n"
            '    work: {put: {op: store, takes: [j, v], value: v, to: "t[j % 2]"}}\n  ring:\n    kind: smem\n',
        ),
        ("        - y.write(j=j, v=v)\n", "        - twice.put(j=j, v=v)\n        - y.write(j=j, v=v)\n"),
        ("graph: {ring: [x], y: [ring]}", "graph: {ring: [x], y: [ring], twice: [ring]}"),
    )
    k = kernel(tmp_path, "copy_tma", *edits)
    assert verify(k, derive(k)).proof.complete


def test_long_literal_loops_end_quickly(tmp_path: Path) -> None:
    k = kernel(tmp_path, "ping_pong", ("steps: 5}", "steps: 1000000}"))
    report = verify(k, derive(k))
    assert report.proof.complete and report.proof.seconds < 1


def test_cta_zero_knows_nothing_of_cta_one_without_a_signal(tmp_path: Path) -> None:
    """A multicast ring released to its own CTA only: the neighbour's load overwrites what is still read."""
    from dataclasses import replace

    k = kernel(tmp_path, "gemm")
    derived = derive(k)
    counts = derived.arrivals["ab"]
    alone = replace(derived, arrivals={"ab": replace(counts, empty=8)})
    report = verify(k, alone)
    assert report.diagnostics and report.diagnostics[0].code == "TS403"


@pytest.mark.parametrize(
    ("name", "edit", "code"),
    [
        ("copy_tma", ("stages: 4", "stages: 1024"), "TS600"),
        ("gemm", ("cluster: {m: cluster_m}", "cluster: {m: 64}"), "TS710"),
        ("copy_tma", ("warp_idx: 4, num_warps: 1", "warp_idx: 4, num_warps: 40"), "TS612"),
    ],
)
def test_a_kernel_that_no_sm_can_hold_is_not_run(tmp_path: Path, name: str, edit: tuple[str, str], code: str) -> None:
    """Running a thousand stages or 64 CTAs takes minutes, and the answer is known."""
    k = kernel(tmp_path, name, edit)
    report = verify(k, derive(k))
    assert code in {d.code for d in report.diagnostics}
    assert report.proof.states == 0 and not report.proof.complete


@pytest.mark.parametrize(("cta", "where"), [("1", "CTA 1"), ("leader", None), ("0", None)])
def test_tiles_are_asked_for_in_the_first_cta(tmp_path: Path, cta: str, where: str | None) -> None:
    """Releases of the answers arrive there. The leader of the cluster's only pair is that CTA."""
    k = kernel(tmp_path, "sm100_gemm_persistent", (", cta: 0}", f", cta: {cta}}}"))
    found = [d.message for d in verify(k, derive(k)).diagnostics]
    expected = f"`schedule_tiles` asks for tiles in {where} of the cluster; expected `cta: 0`"
    assert found == ([] if where is None else [expected])
