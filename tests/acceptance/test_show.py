"""`tsgen show` in every view and format."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from tests.support.process import ROOT, tsgen
from tsgen.show import VIEWS

SPECS = sorted(p.name for p in (ROOT / "specs").glob("*.yaml"))
ALL = [(view, format) for view, v in VIEWS.items() for format in v.formats]


@pytest.mark.parametrize(("view", "format"), ALL)
@pytest.mark.parametrize("spec", SPECS)
def test_every_view_of_every_spec(spec: str, view: str, format: str) -> None:
    kernel = yaml.safe_load((ROOT / "specs" / spec).read_text().split("\n---")[0])["kernel"]
    done = tsgen("show", f"specs/{spec}", view, "--format", format, "--kernel", kernel)
    assert done.returncode == 0 and done.stdout.endswith("\n") and not done.stderr
    if format == "json":
        assert json.loads(done.stdout)["kernel"] == kernel
    if format == "html":
        HTMLParser().feed(done.stdout)
        assert "http" not in done.stdout.replace("http://www.w3.org", "")  # self-contained


def test_the_schedule_has_a_column_for_each_task_and_positions_in_the_ring() -> None:
    text = tsgen("show", "specs/gemm.yaml").stdout
    assert "mma [0:4) [4:8)" in text and "load [8:9)" in text
    rows = [line for line in text.splitlines() if "ab" in line]
    meeting = next(r for r in rows if "->ConsWai" in r and "ProdCmt->" in r)
    assert meeting.split("|")[1].split()[-1] == "1+i" and meeting.split("|")[2].split()[-1] == "i"
    assert any("<-ConsRel" in r and r.split("|")[1].split()[-1] == "n" for r in rows)


def test_the_memory_map_adds_up() -> None:
    m = json.loads(tsgen("show", "specs/gemm.yaml", "memory", "--format", "json").stdout)
    assert m["used"] == max(b["offset"] + b["size"] for b in m["blocks"]) <= m["capacity"]
    assert {b["name"]: b["size"] for b in m["blocks"]}["ab.a"] == 4 * 128 * 64 * 2


def test_the_register_budget_adds_up() -> None:
    b = json.loads(tsgen("show", "specs/gemm.yaml", "registers", "--format", "json").stdout)
    assert b["total"] == sum(g["registers"] * 32 * g["warps"] for g in b["warpgroups"]) <= 65536
    assert [g["registers"] for g in b["warpgroups"]] == [232, 232, 40]
    assert b["warpgroups"][2]["padding"] == [9, 10, 11]


def test_mermaid_has_an_arrow_for_each_edge() -> None:
    lines = tsgen("show", "specs/gemm.yaml", "graph", "--format", "mermaid").stdout.splitlines()
    assert lines[0] == "flowchart LR"
    assert '    r_ab -->|"mma"| r_epi' in lines


def test_another_variant_is_shown_on_request() -> None:
    text = tsgen("show", "specs/gemm.yaml", "graph", "--variant", "bf16_bias_gelu").stdout
    assert "bf16 [L, M, K]" in text and "bias" in text


def test_all_kernels_of_a_chain_as_text_one_as_json() -> None:
    text = tsgen("show", "specs/pdl_chain.yaml").stdout
    assert text.count("============\n|") == 2
    done = tsgen("show", "specs/pdl_chain.yaml", "--format", "json")
    assert done.returncode == 2 and "--kernel (square, add_bias)" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kernel", "other"],
        ["memory", "--format", "html"],
        ["schedule", "--format", "mermaid"],
        ["nothing"],
        ["--variant", "nope"],
    ],
)
def test_combinations_that_make_no_sense_are_usage_errors(arguments: list[str]) -> None:
    done = tsgen("show", "specs/gemm.yaml", *arguments)
    assert done.returncode == 2 and "Error" in done.stderr


def test_a_spec_that_does_not_resolve_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("tsgen: 1\nkernel: x\n")
    done = tsgen("show", path)
    assert done.returncode == 1 and "error[TS1" in done.stderr
