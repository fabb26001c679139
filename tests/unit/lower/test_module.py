"""Generated modules as text: what every one of them must be, whatever the spec."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.unit.lower.build import ROOT, module
from tsgen.lower import Unsupported

MODULES = [
    ("specs/copy.yaml", None),
    ("specs/copy_tma.yaml", None),
    ("specs/pdl_chain.yaml", None),
    ("specs/rmsnorm.yaml", None),
    ("specs/rmsnorm.yaml", "n65536"),
    ("specs/split_consumer.yaml", None),
    ("specs/interleave_warp.yaml", "lanes"),
    ("specs/interleave_warp.yaml", "dense"),
    ("specs/interleave_domain.yaml", None),
    ("specs/leader_routed.yaml", "cluster"),
    ("specs/async_load.yaml", None),
    ("specs/group_merge.yaml", None),
    ("specs/group_fork.yaml", None),
    ("specs/group_fused_merge.yaml", None),
    ("specs/gemm_residual.yaml", None),
    ("specs/alias_epilogue.yaml", None),
    ("specs/gemm.yaml", None),
    ("specs/gemm.yaml", "bf16_bias_gelu"),
    ("specs/gemm.yaml", "narrow"),
    ("specs/attention.yaml", "full"),
    ("specs/attention.yaml", "causal_64"),
    ("specs/attention.yaml", "varlen"),
]
LONGER = {"specs/attention.yaml": 820}
ALLOWED = {"cutlass", "cuda", "functools", "math", "operator", "torch", "typing"}


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_same_input_same_bytes(tmp_path: Path, source: str, variant: str | None) -> None:
    assert module(tmp_path, source, variant=variant) == module(tmp_path, source, variant=variant)


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_imports_only_the_dsl(tmp_path: Path, source: str, variant: str | None) -> None:
    """No framework at run time: the DSL, the standard library, and torch inside functions."""
    tree = ast.parse(module(tmp_path, source, variant=variant))
    for node in ast.walk(tree):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        assert {n.split(".")[0] for n in names} <= ALLOWED
    top = {a.name for n in tree.body if isinstance(n, ast.Import) for a in n.names}
    assert "torch" not in top


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_every_import_is_used(tmp_path: Path, source: str, variant: str | None) -> None:
    text = module(tmp_path, source, variant=variant)
    for node in ast.parse(text).body:
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            name = alias.asname or alias.name
            assert len(re.findall(rf"\b{name}\b", text)) > 1, name


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_comments_name_the_right_line(tmp_path: Path, source: str, variant: str | None) -> None:
    """A comment with a step's text stands for that very line of the spec."""
    spec = (ROOT / source).read_text().split("\n")
    text = module(tmp_path, source, variant=variant)
    found = re.findall(rf"# {Path(source).name}:(\d+) (\S+ ?=? ?\S*\(.*\))$", text, re.MULTILINE)
    assert len(found) > 1
    for line, step in found:
        assert step in spec[int(line) - 1].replace('"', ""), (line, step)


@pytest.mark.parametrize(("source", "variant"), MODULES)
def test_reads_well(tmp_path: Path, source: str, variant: str | None) -> None:
    """At most 500 lines (LONGER has others), none past 120 characters but in comments and docstrings, no blanks."""
    lines = module(tmp_path, source, variant=variant).split("\n")
    assert len(lines) <= LONGER.get(source, 500)
    for line in lines:
        assert line == line.rstrip()
        assert len(line) <= 120 or "#" in line or '"""' in line, line


def test_params_and_dims_of_one_name(tmp_path: Path) -> None:
    """A param `n` becomes the constant N; the dim N must get another name then."""
    text = module(tmp_path, "specs/copy_tma.yaml", ("tile_n", "n"))
    ast.parse(text)
    assert "\nN = 64" in text and "M, N_ = x.shape" in text and "cute.ceil_div(N_, N)" in text


def test_a_role_alone_has_no_code(tmp_path: Path) -> None:
    """`check` accepts a work that says only its role; lowering names it."""
    with pytest.raises(Unsupported) as e:
        module(
            tmp_path,
            "tests/language/copy.yaml",
            ('{op: load, takes: [i], from: "x[i]", returns: [v]}', "{role: consumer, takes: [i], returns: [v]}"),
        )
    assert e.value.diagnostic.code == "TS802" and "x.get" in e.value.diagnostic.message


def test_what_is_not_emitted_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as e:
        module(tmp_path, "tests/language/sm100_gemm.yaml")
    assert e.value.diagnostic.code == "TS801" and "sm_100a" in e.value.diagnostic.message
    assert "tma_umma" in e.value.diagnostic.message and e.value.diagnostic.span.line > 1


def test_elements_inside_by_the_loop_are_not_clamped(tmp_path: Path) -> None:
    """The sketch of copy.yaml reads x[i] with i < N: no clamp, no condition; an index past the bound gets both."""
    text = module(tmp_path, "tests/language/copy.yaml")
    assert "v = x[i]\n" in text and "if i < N" not in text
    text = module(tmp_path, "tests/language/copy.yaml", ("x[i]", "x[i + 1]"), ("y[i]", "y[i + 1]"))
    assert "x[cutlass.min(i + 1, N - 1)]" in text and "if i + 1 < N:" in text


def test_a_loop_that_ends_at_the_smaller_of_two_ends_stays_inside_both(tmp_path: Path) -> None:
    """The sketch of pdl_chain.yaml has loops that end at min(N, (b + 1)*chunk): what they touch lies before N."""
    text = module(tmp_path, "tests/language/pdl_chain.yaml")
    assert "v = x[i]\n" in text and "if i < N" not in text
