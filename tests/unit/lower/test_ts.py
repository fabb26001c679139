"""The TS form as text: what every such module must be. That it compiles and synchronises alike: tests/equivalence."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.unit.lower.build import ROOT, program
from tsgen.derive import derive
from tsgen.emit import emit
from tsgen.lower import Unsupported

MODULES = [
    ("specs/gemm.yaml", "bf16_bias_gelu"),
    ("specs/copy_cond.yaml", None),
    ("specs/copy_varlen.yaml", None),
    ("specs/group_merge.yaml", None),
    ("specs/pdl_chain.yaml", None),
    ("specs/attention.yaml", "causal"),
    ("specs/attention.yaml", "varlen"),
    ("specs/interleave_domain.yaml", None),
    ("specs/rmsnorm.yaml", "n65536"),
    ("specs/sm100_gemm_persistent.yaml", "quad"),
    ("specs/sm100_gemm_split_k.yaml", None),
    ("specs/sm100_group_merge.yaml", None),
    ("specs/sm100_attention.yaml", None),
]
ALLOWED = {"cutlass", "cuda", "dataclasses", "functools", "math", "operator", "torch", "typing"}
TWICE = "    - row.try_wait()\n    - row.wait()\n    - row.wait()\n    - u"


def ts(tmp_path: Path, source: str, *edits: tuple[str, str], variant: str | None = None) -> str:
    p = program(tmp_path, source, *edits, variant=variant)
    return emit(p, [derive(k) for k in p.kernels], "ts")


def refusal(tmp_path: Path, source: str, *edits: tuple[str, str], variant: str | None = None) -> str:
    with pytest.raises(Unsupported) as refused:
        ts(tmp_path, source, *edits, variant=variant)
    return refused.value.diagnostic.message


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_same_input_same_bytes(tmp_path: Path, source: str, variant: str | None) -> None:
    assert ts(tmp_path, source, variant=variant) == ts(tmp_path, source, variant=variant)


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_reads_well(tmp_path: Path, source: str, variant: str | None) -> None:
    """It is Python, imports the DSL alone and only what it uses, and no line is too long."""
    text = ts(tmp_path, source, variant=variant)
    for node in ast.parse(text).body:
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            module = node.module if isinstance(node, ast.ImportFrom) else alias.name
            assert module is not None and module.split(".")[0] in ALLOWED
            name = alias.asname or alias.name
            assert len(re.findall(rf"\b{name}\b", text)) > 1, name
    for line in text.split("\n"):
        assert line == line.rstrip()
        assert len(line) <= 120 or "#" in line or '"""' in line or " for " in line, line


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_held_has_what_is_read(tmp_path: Path, source: str, variant: str | None) -> None:
    """Every value that works read is given to `held`, or left there by another work; and nothing else is given."""
    text = ts(tmp_path, source, variant=variant)
    for part in re.split(r"\n# ======== ", text):
        given = {
            n for block in re.findall(r"held = Held\((.*?)\n    \)", part, re.S) for n in re.findall(r"(\w+)=", block)
        }
        left = set(re.findall(r"^ +held\.(\w+) = ", part, re.M))
        read = set(re.findall(r"\bheld\.(\w+)\b(?! = )", part))
        assert given == read - left


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_comments_name_the_right_line(tmp_path: Path, source: str, variant: str | None) -> None:
    spec = (ROOT / source).read_text().split("\n")
    found = re.findall(
        rf"# {Path(source).name}:(\d+) (\S+ ?=? ?\S*\(.*\))$", ts(tmp_path, source, variant=variant), re.M
    )
    assert len(found) > 1
    for line, step in found:
        assert step in spec[int(line) - 1].replace('"', ""), (line, step)


def test_one_task_for_instances_that_do_the_same(tmp_path: Path) -> None:
    gemm = ts(tmp_path, "specs/gemm.yaml")
    assert gemm.count("Task(\n") == 3 and "warp_idx=0,\n            num_warps=8" in gemm
    edits = (("warp_idx: 4*w, num_warps: 4", "warp_idx: w, num_warps: 1"), ("warp_idx: 8", "warp_idx: lanes"))
    lanes = ts(tmp_path, "specs/interleave_domain.yaml", *edits)
    assert "domain_loop(0, held.blocks, LANES" in lanes and "domain_loop(1, held.blocks, LANES" in lanes


def test_lagged_releases_have_a_position_of_their_own(tmp_path: Path) -> None:
    assert "advance_on_wait=True" in ts(tmp_path, "specs/gemm.yaml")
    assert "advance_on" not in ts(tmp_path, "specs/copy_tma.yaml")


def test_static_arguments_are_parameters(tmp_path: Path) -> None:
    text = ts(tmp_path, "specs/gemm.yaml")
    assert "def mma(self, stage_info: StageInfo, *, ab_stage: Int32, first: cutlass.Constexpr):" in text
    assert "acc.mma(ab_stage=ab_stage, first=True)" in text and "acc.mma(ab_stage=ab_stage, first=False)" in text


def test_edges_are_those_that_a_task_backs(tmp_path: Path) -> None:
    """`bias: [pdl]` is left out: the tasks that read it wait through the ring, which TS does not see."""
    text = ts(tmp_path, "specs/gemm.yaml", variant="bf16_bias_gelu")
    graph = text.split("upstream = {")[1].split("return")[0]
    assert "ab: [pdl_wait]" in graph and "d: [epi]" in graph and "epi: [ab]" in graph and "acc: [ab]" in graph


def test_a_blocking_step_without_its_try(tmp_path: Path) -> None:
    """TS would take the answer of the loop's last try for that of the step behind the loop."""
    source = "tests/kernels/both_sides.yaml"
    assert "without a `try_wait` of its own, in TS" in refusal(tmp_path, source, ("    - row.wait()\n    - u", TWICE))


def test_a_try_for_the_next_iteration(tmp_path: Path) -> None:
    assert "for the next iteration, in TS" in refusal(tmp_path, "tests/kernels/ring_registers.yaml")


def test_tiles_that_are_skipped_whole_are_left_out_by_the_queue(tmp_path: Path) -> None:
    """TS's code does not compile with pipeline steps in what is skipped; where all is, it need not know of it."""
    text = ts(tmp_path, "specs/attention.yaml", variant="varlen")
    assert "skippable()" not in text and "while skipped:" in text
    assert "skippable()" in ts(tmp_path, "specs/copy_skip_tiles.yaml")  # no pipeline: TS says it
    first = "        - skippable: {}\n          steps:\n            - acc.reset()\n"
    before = "        - acc.reset()\n        - skippable: {}\n          steps:\n"
    message = refusal(tmp_path, "specs/attention.yaml", (first, before), variant="varlen")
    assert "in a skippable block and outside of its domain_loop, in TS" in message


def test_a_resource_for_each_instance_of_a_ring(tmp_path: Path) -> None:
    text = ts(tmp_path, "specs/sm100_attention.yaml")
    assert "q_tile = (q_tile0, q_tile1)" in text and "q_tile[w].acquire()" in text and "s0.wait()" in text
    graph = text.split("upstream = {")[1].split("return")[0]
    assert "p0: [s0]" in graph and "p1: [s1]" in graph and "acc0: [p0, v_ring, stats0, acc0]" in graph


def test_several_stages_of_each_instance_of_a_ring(tmp_path: Path) -> None:
    text = ts(tmp_path, "tests/kernels/umma_umma.yaml")
    assert "ab_stage[0] = ab0.stage()" in text and "half.first(ab_stage=ab_stage[0])" in text
    assert "ab_stage[1] = ab1.stage()" in text and "acc.second(ab_stage=ab_stage[1])" in text
    assert "barrier_ptr=held.ab_barriers + 0," in text and "barrier_ptr=held.ab_barriers + 6," in text


def test_a_task_for_each_leader_of_a_cluster(tmp_path: Path) -> None:
    text = ts(tmp_path, "specs/sm100_gemm_persistent.yaml", variant="quad")
    assert re.findall(r"run_only_on_cta_id=(\d)", text) == ["0", "2", "0"]
    assert text.count("cta_layout_vmnk=(2, 1, CLUSTER_N, 1)") == 3
    assert "num_registers=48" not in text and text.count("setmaxregister_decrease(48)") == 1


def test_registers_at_launch_are_told_where_ts_does_not_find_them(tmp_path: Path) -> None:
    """It counts with one CTA on a multiprocessor; rmsnorm has four of 8 warps there, or one."""
    told = re.compile(r"task\.default_num_registers = (\d+)")
    assert told.findall(ts(tmp_path, "specs/rmsnorm.yaml")) == ["64"]
    assert told.findall(ts(tmp_path, "specs/rmsnorm.yaml", variant="n65536")) == []


def test_a_lane_of_several_warps_is_computed_from_the_warp(tmp_path: Path) -> None:
    """TS starts all tasks of a ring in the lane of the last: kernels of two waited for ever."""
    text = ts(tmp_path, "specs/interleave_domain.yaml")
    assert "store_lane = cute.arch.warp_idx() // 4" in text and text.count("lane=lambda: store_lane") == 2
    assert "class LaneTask(Task)" in text and "LaneTask" not in ts(
        tmp_path, "specs/interleave_warp.yaml", variant="lanes"
    )


def test_lanes_out_of_order_are_refused_in_ts(tmp_path: Path) -> None:
    said = refusal(tmp_path, "specs/interleave_domain.yaml", ("start: w, end", "start: 1 - w, end"))
    assert "lanes of `store` that are not its instances, one after another, in TS" in said
