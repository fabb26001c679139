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
]
ALLOWED = {"cutlass", "cuda", "dataclasses", "functools", "math", "operator", "torch", "typing"}
TWICE = "    - row.try_wait()\n    - row.wait()\n    - row.wait()\n    - u"


def ts(tmp_path: Path, source: str, *edits: tuple[str, str], variant: str | None = None) -> str:
    p = program(tmp_path, source, *edits, variant=variant)
    return emit(p, [derive(k) for k in p.kernels], "ts")


def refusal(tmp_path: Path, source: str, *edits: tuple[str, str]) -> str:
    with pytest.raises(Unsupported) as refused:
        ts(tmp_path, source, *edits)
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
