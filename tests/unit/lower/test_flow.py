"""Flow of control: answers of tries, guards, tiles by turns, stages that outlive the block of their wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import function, module

RING = "tests/kernels/ring_registers.yaml"
UNTRIED = ("        - ring.try_wait()\n        - domain_loop", "        - domain_loop")  # before the first wait
PINGPONG = "specs/gemm_pingpong.yaml"


def store_task(text: str, kernel: str) -> str:
    code = function(text, f"{kernel}_kernel")
    return code[code.index(" task store") :]


def test_an_answer_is_carried_to_the_next_iteration_and_tile(tmp_path: Path) -> None:
    code = store_task(module(tmp_path, RING, UNTRIED), "ring_registers")
    start, loop = code.split("for n in cutlass.range")
    assert "ring_ready = cutlass.Boolean(False)" in start
    assert "ring.consumer_wait(ring_state, ring_ready)" in loop
    assert "ring_ready = ring.consumer_try_wait(ring_state)" in loop
    assert "Boolean" not in loop  # every wait but the first follows a try: nothing to clear


def test_a_try_right_before_its_step_needs_no_first_value(tmp_path: Path) -> None:
    edits = (
        ("            - ring.release()\n            - ring.try_wait()\n", "            - ring.release()\n"),
        ("            - ring.wait()\n", "            - ring.try_wait()\n            - ring.wait()\n"),
    )
    code = store_task(module(tmp_path, RING, *edits), "ring_registers")
    assert "ring.consumer_wait(ring_state, ring_ready)" in code
    assert "Boolean" not in code


def test_an_answer_is_used_once(tmp_path: Path) -> None:
    """With a try in the first iteration alone, the wait of the third must not take the answer about the second."""
    edit = (
        "            - ring.try_wait()\n",
        "            - first_iter: {}\n              steps:\n                - ring.try_wait()\n",
    )
    code = store_task(module(tmp_path, RING, UNTRIED, edit), "ring_registers")
    start, loop = code.split("for n in cutlass.range")
    assert "ring_ready = cutlass.Boolean(False)" in start
    wait = loop.index("ring.consumer_wait(ring_state, ring_ready)")
    assert wait < loop.index("ring_ready = cutlass.Boolean(False)") < loop.index("ring.consumer_try_wait(ring_state)")


def test_an_answer_that_no_step_takes_is_not_asked_for(tmp_path: Path) -> None:
    edits = (
        ("        - ab.try_wait()                    # while", "        # while"),
        ("            - ab.try_wait()\n", ""),
        (
            "        - ab.skip(k_tiles)                 # the next",
            "        - ab.try_wait()\n        - ab.skip(k_tiles)  #",
        ),
    )
    assert "try_wait" not in function(module(tmp_path, PINGPONG, *edits), "gemm_pingpong_kernel")


def test_a_try_inside_its_bracket_asks_about_the_next_stage(tmp_path: Path) -> None:
    """The one state of a simple bracket is the open stage until it closes: then each end has its own."""
    edit = (
        "            - v = ring.read()\n            - ring.release()\n            - ring.try_wait()\n",
        "            - ring.try_wait()\n            - v = ring.read()\n            - ring.release()\n",
    )
    code = store_task(module(tmp_path, RING, edit), "ring_registers")
    assert "ring.consumer_try_wait(ring_wait)" in code
    assert "ring.consumer_release(ring_release)" in code
    assert "ring_t_from[None, None, None, ring_stage]" in code


def test_a_skip_makes_the_answer_stale(tmp_path: Path) -> None:
    """The try after the last WGMMA of a tile asks about a stage of the other group: the next wait does not take it."""
    code = function(module(tmp_path, PINGPONG), "gemm_pingpong_kernel")
    assert code.count("ab.consumer_wait(ab_wait)\n") == 1  # of a tile's first stage, behind the skip
    assert code.count("ab.consumer_wait(ab_wait, ab_ready)\n") == 1
    assert "Boolean" not in code


def test_a_skip_clears_an_answer_that_the_next_wait_may_take(tmp_path: Path) -> None:
    first = "        - ab.wait()\n        - acc.mma(first=True)\n"
    asked = "        - if: w == 0\n          steps:\n            - ab.try_wait()\n"
    edit = (first, asked + first)
    code = function(module(tmp_path, PINGPONG, edit), "gemm_pingpong_kernel")
    assert code.count("ab.consumer_wait(ab_wait, ab_ready)\n") == 2
    assert code.count("ab_ready = cutlass.Boolean(False)\n") == 3  # at first, after either skip
    assert code.index("ab_ready = cutlass.Boolean(False)") < code.index("if w == 1:")


def test_tiles_by_turns(tmp_path: Path) -> None:
    code = function(module(tmp_path, PINGPONG), "gemm_pingpong_kernel")
    assert "for tile in cutlass.range(cluster + w * clusters, cluster_tiles, 2 * clusters, unroll=1):" in code
    assert "for tile in cutlass.range(cluster, cluster_tiles, clusters, unroll=1):" in code
    assert code.count("ab_wait.advance(k_tiles)") == code.count("ab_release.advance(k_tiles)") == 2
    assert "AB_ARRIVALS = 8 " in module(tmp_path, PINGPONG)  # one group in each phase, in two CTAs


def test_a_stage_outlives_the_block_of_its_wait(tmp_path: Path) -> None:
    code = function(module(tmp_path, "tests/kernels/once.yaml"), "once_kernel")
    assert code.index("ring_stage = Int32(0)") < code.index("for j in") < code.index("ring_stage = ring_wait.index")


@pytest.mark.parametrize(
    ("block", "condition"),
    [
        ("first_iter: {}", "i == 0"),
        ("last_iter: {}", "i + 1 >= blocks"),
        ("every: {period: per_page}", "i % PER_PAGE == 0"),
        ("every: {period: per_page, start: 1}", "i >= 1 and (i - 1) % PER_PAGE == 0"),
        ("every: {period: per_page, start: per_page}", "i >= PER_PAGE and i % PER_PAGE == 0"),
        ("every: {period: 1, start: 2}", "i >= 2"),
    ],
)
def test_guards(tmp_path: Path, block: str, condition: str) -> None:
    text = module(tmp_path, "specs/copy_every.yaml", ("last_iter: {}", block))
    assert f"            if {condition}:\n                # copy_every.yaml:61" in function(text, "copy_every_kernel")


@pytest.mark.parametrize(
    ("loop", "condition"),
    [
        ("{var: i, start: 3, end: blocks, step: 2}", "(i - 3) // 2 % PER_PAGE == 0"),
        ("{var: i, end: blocks - 1 if T > 4 else 0}", "i + 1 >= (blocks - 1 if T > 4 else 0)"),
    ],
)
def test_guards_count_iterations(tmp_path: Path, loop: str, condition: str) -> None:
    block = "every: {period: per_page}" if "%" in condition else "last_iter: {}"
    edits = (("{var: i, end: blocks}", loop), ("last_iter: {}", block))
    code = function(module(tmp_path, "specs/copy_every.yaml", *edits), "copy_every_kernel")
    assert f"if {condition}:" in code


def test_skipped_tiles_do_nothing_but_advance(tmp_path: Path) -> None:
    code = function(module(tmp_path, "specs/copy_skip_tiles.yaml"), "copy_skip_tiles_kernel")
    skipped = code.index("skipped = t >= cute.ceil_div(N, WIDTH)")
    assert skipped < code.index("if not skipped:") < code.index("for i in cutlass.range(M, unroll=1):")


def test_conditions_of_tokens(tmp_path: Path) -> None:
    """A body with two results; a token of a load, too, can be a condition."""
    code = function(module(tmp_path, "specs/copy_cond.yaml"), "copy_cond_kernel")
    assert code.count("keep, mark = mode_bits(mode, i)") == 2
    assert code.count("if keep:") == 2 and code.count("if mark:") == 1
    edits = (
        ("        - keep, mark = mode.bits(i=i)      # same work, same arguments: same outcome as in load\n", ""),
        ("        - keep, mark = mode.bits(i=i)\n", ""),
        (
            "        - when_true: {cond: keep}\n",
            "        - bits = mode.get(i=i)\n        - when_true: {cond: bits % 2 != 0}\n",
        ),
        ("        - when_true: {cond: mark}\n", "        - when_false: {cond: bits < 2}\n"),
        ("        - when_false: {cond: keep}\n", "        - when_false: {cond: bits % 2 != 0}\n"),
        ("        - when_false: {cond: mark}\n", "        - when_true: {cond: bits < 2}\n"),
        ("      bits:\n", "      get: {op: load, takes: [i], from: 'mode[i]', returns: [b]}\n      bits:\n"),
    )
    code = function(module(tmp_path, "specs/copy_cond.yaml", *edits), "copy_cond_kernel")
    assert "bits = mode[i]" in code and "if bits % 2 != 0:" in code and "if not (bits < 2):" in code


def test_bodies_get_views_of_what_they_read(tmp_path: Path) -> None:
    text = module(tmp_path, "tests/kernels/mirror.yaml")
    code = function(text, "mirror_kernel")
    assert "t = x_start(0.5, cute.local_tile(x[i, None], (4,), (0,)))" in code
    assert "m = row_at(row_v[None, row_state.index], thread)" in code
    assert "n = N" in function(text, "row_at")  # a param is the module's constant
    edits = (("body: m = v[n - 1 - thread]", "reads: {last: 'row.v[n - 2:+2]'}\n        body: m = last[1]"),)
    code = function(module(tmp_path, "tests/kernels/mirror.yaml", *edits), "mirror_kernel")
    assert "m = row_at(cute.local_tile(row_v[None, row_state.index], (2,), (63,)))" in code.replace(
        "(N - 2) // 2", "63"
    )
