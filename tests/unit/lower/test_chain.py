"""Chains: several kernels in one module, and the function for all of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.unit.lower.build import function, module, program
from tsgen.derive import derive
from tsgen.emit import emit
from tsgen.lower import Unsupported
from tsgen.model.chain import intermediates, whole

CHAIN = "specs/pdl_chain.yaml"


def test_a_function_for_each_kernel_and_one_for_all(tmp_path: Path) -> None:
    tree = ast.parse(module(tmp_path, CHAIN))
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    assert len(set(names)) == len(names)
    assert {"square", "add_bias", "pdl_chain", "compile", "compile_square", "compile_add_bias"} <= set(names)


def test_launched_in_order_with_what_each_takes(tmp_path: Path) -> None:
    text = function(module(tmp_path, CHAIN), "pdl_chain_launch")
    first, second = (
        text.index("square_launch(x, t, sms, stream)"),
        text.index("add_bias_launch(t, bias, y, sms, stream)"),
    )
    assert first < second


def test_what_a_later_kernel_reads_is_allocated_and_not_returned(tmp_path: Path) -> None:
    p = program(tmp_path, CHAIN)
    assert intermediates(p.kernels) == {"t"}
    text = function(module(tmp_path, CHAIN), "pdl_chain")
    assert text.startswith("def pdl_chain(x, bias, t=None, y=None):")
    assert "t = torch.empty" in text and text.strip().endswith("return given_y if given_y is not None else y")


def test_params_of_one_name_may_differ(tmp_path: Path) -> None:
    """Constants bear their kernel's name; the second kernel's chunk is another than the first's."""
    second = (
        "doc: y = t + bias, the second. The bias does not depend on the first kernel, so it is read before the wait."
    )
    text = module(
        tmp_path,
        CHAIN,
        (f"{second}\nparams: {{io: f32, warps: 4, tile: 2048", f"{second}\nparams: {{io: f32, warps: 8, tile: 1024"),
    )
    assert "SQUARE_TILE = 2048\n" in text and "ADD_BIAS_TILE = 1024\n" in text
    assert "SQUARE_THREADS = 128\n" in text and "ADD_BIAS_THREADS = 256\n" in text


def test_a_grid_that_is_empty_alone_is_skipped(tmp_path: Path) -> None:
    tiles = 'tiles: {b: "ceil_div(N, tile)"}, pdl: overlap}\nresources:\n  pdl: {kind: pdl}\n  reg'
    p = program(
        tmp_path,
        CHAIN,
        ("  bias: {dtype: io, shape: [1]}", "  bias: {dtype: io, shape: [1]}\n  q: {dtype: io, shape: [Q]}"),
        ("shapes: [{N: 1}, {N: 100000}]", "shapes: [{N: 1, Q: 1}]"),
        (tiles, tiles.replace("}, pdl", ", j: Q}, pdl", 1)),
    )
    text = emit(p, [derive(k) for k in p.kernels])
    launch = function(text, "pdl_chain_launch")
    assert "if not (N == 0):\n        square_launch" in launch and "N * Q == 0):\n        add_bias_launch" in launch
    assert " == 0):\n        with torch.cuda.device" not in function(text, "pdl_chain")


def test_the_file_may_not_be_called_like_a_kernel(tmp_path: Path) -> None:
    p = program(tmp_path, CHAIN, ("kernel: square", "kernel: pdl_chain"))
    with pytest.raises(Unsupported, match="both called `pdl_chain`"):
        emit(p, [derive(k) for k in p.kernels])


def test_the_whole_has_the_tensors_dims_and_params_of_all(tmp_path: Path) -> None:
    k = whole(program(tmp_path, CHAIN))
    assert list(k.tensors) == ["x", "t", "bias", "y"] and k.dims == ("N",) and k.name == "pdl_chain"
    assert [t.name for t in k.tensors.values() if t.output] == ["t", "y"] and k.reference is not None


def test_functions_that_are_the_same_for_all_stand_once(tmp_path: Path) -> None:
    edits = (("value: v * v,", 'value: "relu(v * v)",'), ("value: v + reg.c,", 'value: "relu(v + reg.c)",'))
    text = module(tmp_path, CHAIN, *edits)
    assert text.count("def relu(x):") == 1
