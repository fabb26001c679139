"""Rows of tiles spread over threads: reductions, row fields, vectors beside tiles; sums exchanged in a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import function, module
from tsgen.lower.errors import Unsupported

SOFTMAX, RMSNORM = "tests/kernels/softmax.yaml", "specs/rmsnorm.yaml"


def test_lanes_that_share_a_row_reduce_it(tmp_path: Path) -> None:
    lines = [line.strip() for line in function(module(tmp_path, SOFTMAX), "row_exponents").split("\n")]
    assert "top = across_lanes(cute.arch.fmax, combine(cute.arch.fmax, values), 16)" in lines
    assert "l[i] = across_lanes(operator.add, combine(operator.add, values_), 16)" in lines


def test_statements_keep_their_order(tmp_path: Path) -> None:
    """The maximum is that of the new x, the sum that of the exponentials; rows outside, elements inside."""
    text = function(module(tmp_path, SOFTMAX), "row_exponents")
    body = text[text.index("for i in") :]
    order = ["* scale + bias", "values = ", "top = ", "cute.math.exp(", "values_ = ", "l[i] = "]
    places = [body.index(x) for x in order]
    assert places == sorted(places) and text.count("for i in cutlass.range_constexpr(4):") == 1


def test_a_share_is_added_up_later(tmp_path: Path) -> None:
    text = module(
        tmp_path, SOFTMAX, ("l = rowsum(x)", "l = partial_rowsum(x)"), ("row.x / row.l", "row.x / rowsum(row.l)")
    )
    assert "l[i] = combine(operator.add, values_)\n" in function(text, "row_exponents")
    assert "rowsum = across_lanes(operator.add, l[i], 16)\n" in function(text, "y_write")


def test_a_vector_lies_as_each_row_of_the_tile_beside_it(tmp_path: Path) -> None:
    text = module(tmp_path, SOFTMAX)
    assert "row_bias = cute.make_rmem_tensor((4, 1), Float32)" in text and ".get_slice(thread % 16)" in text
    assert "+ bias[e, 0]" in function(text, "row_exponents")


def test_what_is_the_same_for_a_row_is_computed_once_for_it(tmp_path: Path) -> None:
    text = function(module(tmp_path, RMSNORM), "row_scale")
    before, _, inner = text.partition("for j in")
    assert "rsqrt = cute.math.rsqrt(" in before and "rsqrt(" not in inner and "* rsqrt * " in inner


def test_rows_over_several_warps_need_an_exchange(tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as e:
        module(tmp_path, SOFTMAX, cols="512")
    assert "rows that lie on 128 threads" in e.value.diagnostic.message and "warp_rowsum" in str(
        e.value.diagnostic.help
    )
    with pytest.raises(Unsupported, match="lie on some of the warps"):
        module(tmp_path, SOFTMAX, ("l = rowsum(x)", "l = warp_rowsum(x)"))


def test_a_column_for_each_warp(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="with 4 columns in a task of 2 warps"):
        module(tmp_path, RMSNORM, ("num_warps: warps, num", "num_warps: warps // 2, num"))


def test_a_wide_row_is_one_box(tmp_path: Path) -> None:
    """256 elements a dimension are a box's most: the rows get a dimension more, and no copy is split."""
    text = module(tmp_path, RMSNORM)
    assert "x_chunks = cute.logical_divide(x, (None, 256))" in text
    assert "cute.local_tile(x, (ROWS, (256, COLS // 256)), (None, None))" in text
    assert "R = x.shape[0]" in function(text, "rmsnorm_kernel")


def test_one_warp_announces_and_every_warp_sends(tmp_path: Path) -> None:
    code = function(module(tmp_path, RMSNORM, variant="n65536"), "rmsnorm_kernel")
    assert code.count("mbarrier_arrive_and_expect_tx(sums.") == 1
    assert "if lane < PARTS:  # one lane for each CTA" in code
    assert "consumer_mask=cute.arch.lane_idx()" in code and "sums.producer_tail(sums_producer)" in code
    assert "sums.producer_commit" not in code  # the bytes are the commit
    assert "< R:" not in code and "column" not in code  # one row in a block and whole columns: nothing is ragged


def test_rows_past_the_end_are_not_stored(tmp_path: Path) -> None:
    code = function(module(tmp_path, RMSNORM, ("rows: {value: 1,", "rows: {value: 4,")), "rmsnorm_kernel")
    assert "if i * ROWS + i2 < R:" in code and "column" not in code


def test_without_a_cluster_threads_store_and_arrive(tmp_path: Path) -> None:
    """st.async without a second CTA is no legal instruction: the exchange is a ring that threads fill and release."""
    code = function(module(tmp_path, RMSNORM), "rmsnorm_kernel")
    assert "consumer_mask" not in code and "producer_tail" not in code and "cluster" not in code
    assert "store_async_dsmem" not in code and "mbarrier_arrive_and_expect_tx(sums." not in code
    assert "producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 128)" in code
    assert "sums.producer_commit(sums_producer)" in code
    assert "elect_one():\n                sums.consumer_release" not in code


def test_launched_as_clusters_of_the_row(tmp_path: Path) -> None:
    launch = function(module(tmp_path, RMSNORM, variant="n65536"), "rmsnorm_launch")
    assert "cluster=(PARTS, 1, 1)" in launch and "cutlass.min(blocks, CTAS * sms // PARTS)" in launch


def test_only_columns_of_warps_are_sent(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no field with a column for each warp"):
        module(tmp_path, RMSNORM, ("value: row.sq, to", "value: row.all, to"))


def test_several_ctas_on_a_multiprocessor_need_no_gpu_to_compile(tmp_path: Path) -> None:
    """The DSL would ask the GPU for its shared memory, unless it is told how much of it is wanted."""
    launch = function(module(tmp_path, RMSNORM), "rmsnorm_launch")
    assert "min_blocks_per_mp=4" in launch and "preferred_smem_carveout=100" in launch
    one = function(module(tmp_path, RMSNORM, variant="n65536"), "rmsnorm_launch")
    assert "min_blocks_per_mp=1" in one and "carveout" not in one
