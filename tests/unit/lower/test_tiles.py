"""Tiles over threads: one spread for each shape, maps over tokens and shared fields, `where`, edges, conversions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import function, module
from tsgen.lower.errors import Unsupported

PING_PONG = "specs/ping_pong.yaml"
SELECT = "tests/kernels/select.yaml"
RING = "tests/kernels/ring_registers.yaml"


@pytest.mark.parametrize(
    ("n", "warps", "comment"),
    [
        ("128", "4", "# 128 threads, 1 element each"),
        ("256", "4", "# 128 threads, 2 elements each"),
        ("512", "4", "# 128 threads, 4 elements each"),
        ("2048", "4", "# 128 threads, 4 elements each"),
        ("128", "1", "# 32 threads, 4 elements each"),
    ],
)
def test_vectors_fill_all_threads_of_a_row(tmp_path: Path, n: str, warps: str, comment: str) -> None:
    edits = (("double: {warp_idx: 0, num_warps: 4}", f"double: {{warp_idx: 0, num_warps: {warps}}}"),)
    code = function(module(tmp_path, PING_PONG, *edits, n=n), "ping_pong_kernel")
    assert comment in code


def test_the_widest_element_in_memory_decides_the_vector(tmp_path: Path) -> None:
    """x is f16 and y f32: four elements are 16 bytes of y."""
    code = function(module(tmp_path, SELECT), "select_kernel")
    assert "# 8 x 16 threads, 4 elements each" in code and "Float32, num_bits_per_copy=128" in code
    assert code.count("make_tiled_copy_tv") == 1


def test_a_tile_that_does_not_spread_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="a tile of 1x100, which does not spread evenly over 128 threads"):
        module(tmp_path, PING_PONG, n="100")


def test_a_map_in_place_loads_computes_and_stores(tmp_path: Path) -> None:
    text = module(tmp_path, PING_PONG)
    assert function(text, "buf_double").split("\n")[2:4] == [
        "    for i in cutlass.range_constexpr(cute.size(v)):",
        "        v[i] = v[i] * 2.0",
    ]
    code = function(text, "ping_pong_kernel")
    lines = [line.strip() for line in code.split("\n")]
    at = lines.index("buf_double(v)")
    assert lines[at - 1] == "cute.autovec_copy(buf_v_from[None, None, buf_state.index], v)"
    assert lines[at + 1] == "cute.autovec_copy(v, buf_v_to[None, None, buf_state.index])"


def test_integers_stay_integers(tmp_path: Path) -> None:
    edits = (
        ("{dtype: f32, shape: [n]}", "{dtype: i32, shape: [n]}"),
        ("dtype: f32, shape: [B, n]", "dtype: i32, shape: [B, n]"),
    )
    assert "v[i] = v.element_type(v[i] * 2)" in function(module(tmp_path, PING_PONG, *edits), "buf_double")


def test_a_field_that_is_not_read_is_not_loaded(tmp_path: Path) -> None:
    code = function(module(tmp_path, PING_PONG, ("set: [v = v * 2]", "set: [v = 2.0]")), "ping_pong_kernel")
    assert "v = cute.make_rmem_tensor((1, 1), Float32)\n            buf_double(v)" in code


def test_rows_and_columns_of_an_element(tmp_path: Path) -> None:
    text = module(tmp_path, SELECT)
    code = function(text, "x_get_where")
    assert "row = i * 8 + thread // 16" in code and "keep[e, i, 0] = m * ROWS + row < limit" in code
    edit = ("rows(tile.v) < limit", "rows(tile.v) + cols(tile.v) < limit")
    code = function(module(tmp_path, SELECT, edit, cols="1024"), "x_get_where")
    assert "col = (j * 128 + thread) * 4 + e" in code and "keep[e, i, j]" in code


def test_where_of_one_value_guards_the_whole_store(tmp_path: Path) -> None:
    edit = ("where: v > 0}", "where: n < limit}")
    code = function(module(tmp_path, SELECT, edit), "select_kernel")
    at = code.index("    if n < limit:\n")
    assert "y_set(y_tile, v, scale)" in code[at:] and "keep_" not in code
    assert "cute.autovec_copy(y_tile[None, i_, 0]" in code[at:]


def test_elements_outside_are_zero_and_not_written(tmp_path: Path) -> None:
    code = function(module(tmp_path, RING), "ring_registers_kernel")
    assert "v.fill(IO(0))" in code
    assert code.count("if j * ROWS + i * 16 + thread // 8 < M:") == 2
    assert code.count("if column + 8 <= N:") == code.count("if column + e < N:") == 2


def test_a_window_that_cannot_end_outside_needs_no_test(tmp_path: Path) -> None:
    edits = (
        ("x[j*rows:+rows, n*cols:+cols]", "x[0:+rows, 0:+cols]"),
        ('n*cols:+cols]"}}\nref', 'n*cols:+cols]"}}\nref'),
    )
    assume = ("launch: {tiles:", "launch: {assume: [M >= 64, N >= 64], tiles:")
    code = function(module(tmp_path, RING, edits[0], assume), "ring_registers_kernel")
    load = code[code.index("x.get") : code.index("ring.acquire")]
    assert "cute.autovec_copy(x_from, v)" in load and "if" not in load


def test_a_conversion_is_of_whole_vectors(tmp_path: Path) -> None:
    edit = ("  y:\n    dtype: io\n", "  y:\n    dtype: f32\n")
    code = function(module(tmp_path, RING, edit), "ring_registers_kernel")
    assert "y_tile.store(v.load().to(Float32))" in code
    assert "# 8 x 16 threads, 4 elements each" in code  # of the task that stores; the other has vectors of 8
    assert "# 16 x 8 threads, 8 elements each" in code


def test_scalar_arguments_and_required_outputs(tmp_path: Path) -> None:
    text = module(tmp_path, "tests/kernels/ramp.yaml")
    host = function(text, "ramp")
    assert host.startswith("def ramp(base, stride, y, first=None, by=None):")
    assert 'given_y = y = as_tensor("y", y)' in host and "first = 0 if first is None else first" in host
    assert "torch.empty" not in host and "    return given_y" in host
    code = function(text, "ramp_kernel")
    assert "stride: Int32," in code and "step_at[0] < 1000000" in code


def test_a_shape_that_gives_no_dim_is_said(tmp_path: Path) -> None:
    host = function(module(tmp_path, "specs/copy_varlen.yaml"), "copy_varlen")
    assert "S = offsets.shape[0] - 1" in host
    assert 'need(S >= 0, f"offsets has shape {tuple(offsets.shape)}, must be [S + 1]")' in host
    assert host.startswith("def copy_varlen(x, offsets, y):")  # W is known from y alone


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ("from: buf.t.T, to: v", "from: buf.t.T, to: v", "`buf.t.T` in `regs.take`"),
        ("value: regs.v, to: t}", "value: regs.v, to: t.T}", "`buf.t.T` in `buf.put`"),
        ('from: "x[b, :, :]"', 'from: "x[b, :, :].T"', "`x[b, :, :].T` in `regs.load`"),
    ],
)
def test_a_transposed_window_is_refused_where_it_stands(tmp_path: Path, old: str, new: str, written: str) -> None:
    """It is said or done, never left out: a copy that drops `.T` writes wrong results."""
    source = "tests/cases/race_through_transpose/spec.yaml"
    plain = ("buf.t.T", "buf.t")
    assert "partition_S" in module(tmp_path, source, plain)
    with pytest.raises(Unsupported) as e:
        module(tmp_path, source, *([] if "buf.t.T" in old else [plain]), (old, new))
    assert e.value.diagnostic.code == "TS801" and written in e.value.diagnostic.message
    assert (tmp_path / "spec.yaml").read_text().splitlines()[e.value.diagnostic.span.line - 1].find(".T") > 0
