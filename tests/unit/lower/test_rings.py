"""Pipelines in generated text: who arrives where and how often, positions of lanes and of groups, shared bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.lower.build import module, program
from tsgen.derive import derive
from tsgen.lower import Unsupported


def inits(text: str) -> dict[str, int]:
    """Arrival counts of the plain mbarriers, constants looked up."""
    constants = dict(re.findall(r"^([A-Z_]+) = (\d+)", text, re.MULTILINE))
    found = re.findall(r"mbarrier_init\((\w+) \+ stage, (\w+)\)", text)
    return {name: int(constants.get(n, n)) for name, n in found}


def task(text: str, name: str) -> str:
    """The code of one task."""
    after = text.split(f" task {name}:")[1]
    return after.split("# ---- ")[0].split("@cute.jit")[0]


# ---- groups: counts are those of the steps; TS leaves those of the collapsed side unchecked -------------------------
def test_merge_has_a_full_barrier_for_each_member_and_one_empty(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/group_merge.yaml")
    assert inits(text) == {"ring_p_full": 1, "ring_q_full": 32, "pq_empty": 128}
    assert "pq_barriers = smem.allocate_array(Int64, 3 * STAGES" in text


def test_fork_has_one_full_barrier_and_an_empty_one_for_each_member(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/group_fork.yaml")
    assert inits(text) == {"a_fork_full": 1, "a_mma_empty": 4, "a_act_empty": 4}
    load = task(text, "load")
    assert load.count("arrive_and_expect_tx(a_fork_full") == 1, "the first member announces the bytes for both"
    assert load.count("mbarrier_wait(a_mma_empty") == load.count("mbarrier_wait(a_act_empty") == 1


def test_fused_merge_counts_both_producers_on_one_full_barrier(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/group_fused_merge.yaml")
    assert inits(text) == {"ab_full": 2, "ab_empty": 4}
    assert task(text, "mma").count("mbarrier_wait(") == 1


def test_counts_follow_the_tasks(tmp_path: Path) -> None:
    """Eight consuming warps release eight times, whatever the group's mode."""
    wide = ("mma: {warp_idx: 0, num_warps: 4}", "mma: {warp_idx: 0, num_warps: 8}")
    moved = (("warp_idx: 4, num_warps: 1", "warp_idx: 8, num_warps: 1"), ("warp_idx: 5", "warp_idx: 9"))
    text = module(tmp_path, "specs/group_fused_merge.yaml", wide, *moved, tile_m="128")
    assert inits(text) == {"ab_full": 2, "ab_empty": 8}


def test_members_share_the_state_of_the_collapsed_side(tmp_path: Path) -> None:
    """Alternating waits and releases: one state; a lagged release: each wait and the release have their own."""
    simple = task(module(tmp_path, "specs/group_merge.yaml"), "add")
    assert simple.count("make_pipeline_state") == simple.count(".advance()") == 1
    lagged = task(module(tmp_path, "specs/gemm_residual.yaml"), "mma")
    for name in ("ring_a_wait", "ring_b_wait", "ab_release"):
        assert f"{name} = pipeline.make_pipeline_state" in lagged
        assert lagged.count(f"{name}.advance()") == 2
    assert "mma_a[None, None, None, ring_a_stage], mma_b[None, None, None, ring_b_stage]" in lagged


def test_a_view_is_read_at_the_stage_of_its_own_pipeline(tmp_path: Path) -> None:
    act = task(module(tmp_path, "specs/group_fork.yaml"), "act")
    assert "a_mma_a_from[None, None, None, a_act_state.index]" in act


# ---- split consumers ------------------------------------------------------------------------------------------------
def test_who_only_waits_advances_at_the_wait_and_who_only_releases_reads_what_it_releases_next(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/split_consumer.yaml")
    sync, mma = task(text, "sync"), task(text, "mma")
    assert "consumer_release" not in sync and "ring_a_stage" not in sync
    assert re.search(r"ring_a.consumer_wait\(ring_a_wait\)\n +ring_a_wait.advance\(\)", sync)
    assert "mma_a[None, None, None, ring_a_release.index]" in mma and "ring_a.consumer_wait" not in mma


# ---- releases -------------------------------------------------------------------------------------------------------
def test_every_thread_releases_an_async_ring(tmp_path: Path) -> None:
    """As derived: the count is in threads, so no lane is elected."""
    text = module(tmp_path, "specs/split_consumer.yaml")
    assert "READY_ARRIVALS = 128 " in text
    before = text[: text.index("ready.consumer_release")]
    assert not before.rstrip().endswith("elect_one():")


def test_a_written_count_of_threads_lets_every_thread_release(tmp_path: Path) -> None:
    written = (
        "type: async_async, num_stages: stages}}     #",
        "type: async_async, num_stages: stages, consumer_group: 128}}  #",
    )
    text = module(tmp_path, "specs/split_consumer.yaml", written)
    assert "READY_ARRIVALS = 128 " in text
    assert re.search(r"ready.release\(\)\n +ready.consumer_release\(ready_state\)", text)


def test_a_tma_ring_with_a_count_of_threads(tmp_path: Path) -> None:
    written = ("{type: tma_async, num_stages: stages}\n    work:\n      load: {op: tma_load, takes: [j]", "{type: tma_async, num_stages: stages, consumer_group: 128}\n    work:\n      load: {op: tma_load, takes: [j]")  # fmt: skip # noqa: E501
    text = module(tmp_path, "specs/copy_tma.yaml", written)
    assert "RING_ARRIVALS = 128 " in text
    assert "cute.arch.mbarrier_arrive(ring.consumer_get_barrier(ring_state))" in text
    assert "sync_warp" not in text


# ---- lanes ----------------------------------------------------------------------------------------------------------
def test_a_warp_lane_starts_at_its_warp_and_advances_by_the_stride(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/interleave_warp.yaml", variant="lanes")
    load, store = task(text, "load"), task(text, "store")
    assert "pipeline.PipelineState(STAGES, Int32(0), Int32(warp_), Int32(1))" in load
    assert "pipeline.PipelineState(STAGES, Int32(0), Int32(warp_), Int32(0))" in store
    assert load.count("ring_state.advance(4)") == store.count("ring_state.advance(4)") == 1
    assert "producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)" in text
    assert "RING_ARRIVALS = 32 " in text


def test_strides_of_wait_and_release_may_differ(tmp_path: Path) -> None:
    """The form (1, 1, 4, 1): four warps wait for their lanes, one task fills and one releases all stages in turn."""
    text = module(tmp_path, "specs/interleave_warp.yaml", variant="dense")
    load, store, free = (task(text, t) for t in ("load", "store", "free"))
    assert "ring_state = pipeline.make_pipeline_state" in load and "ring_state.advance()" in load
    assert "ring_wait = pipeline.PipelineState(STAGES, Int32(0), Int32(warp_), Int32(0))" in store
    assert "ring_wait.advance(4)" in store and "ring.consumer_release" not in store
    assert "ring_release = pipeline.make_pipeline_state" in free and "ring_release.advance()" in free


def test_a_domain_lane_starts_where_its_loop_does(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/interleave_domain.yaml")
    store = task(text, "store")
    assert "Int32(w), Int32(0))" in store and "for j in cutlass.range(w, blocks, LANES" in store
    assert "ring_state.advance(2)" in store and "RING_ARRIVALS = 4 " in text


def test_a_lane_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as e:
        module(tmp_path, "specs/interleave_domain.yaml", ("step: lanes", "step: 1"))
    assert "interleave_stride 2 in the task `store`" in e.value.diagnostic.message


def test_bytes_of_a_lane_are_those_of_one_warp(tmp_path: Path) -> None:
    """Each of four warps fills stages of its own: the barrier of a stage expects one warp's bytes, not four."""
    tma = (
        (
            "type: async_async, num_stages: stages, interleave_stride: [loaders",
            "type: tma_async, num_stages: stages, interleave_stride: [loaders",
        ),
        ("op: cp_async_load", "op: tma_load"),
    )
    p = program(tmp_path, "specs/interleave_warp.yaml", *tma, variant="lanes")
    d = derive(p.kernels[0])
    assert d.tx_bytes["ring"] == 256 * 4 and d.arrivals["ring"].full == 1


# ---- leaders --------------------------------------------------------------------------------------------------------
def test_one_warp_announces_the_bytes_of_all(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/leader_routed.yaml", variant="single")
    load = task(text, "load")
    assert "RING_BYTES = ROWS * COLS * 2" in text and load.count("arrive_and_expect_tx") == 1
    armed = load.index("arrive_and_expect_tx")
    assert "if warp_idx % 2 == 0:" in load[:armed]
    assert load.index("cute.copy(") > armed and "if warp_idx" not in load[armed:], "both warps copy"


def test_several_warps_that_would_all_announce_the_bytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported) as e:
        module(
            tmp_path, "specs/leader_routed.yaml", ("producer_signaling: task_warp_leader", "producer_signaling: all")
        )
    assert "each of the 2 warps of `load` would announce" in e.value.diagnostic.message


def test_a_copy_of_the_task_is_issued_by_one_of_its_warps(tmp_path: Path) -> None:
    whole = ("takes: [j]\n        scope: warp ", "takes: [j]\n        #")
    window = ('{to: "t[warp*half:+half, :]", from: "x[r*rows + warp*half:+half,', '{to: t, from: "x[r*rows:+rows,')
    bytes_ = ("      num_bytes_per_warp_per_cta: half*cols*2         # derived, and written here to be checked\n", "")
    text = module(tmp_path, "specs/leader_routed.yaml", whole, window, bytes_, variant="single")
    load = task(text, "load")
    assert re.search(r"if warp_idx % 2 == 0:\n +ring_full = .*\n +cute.copy\(tma_x", load)


def test_a_cta_past_the_edge_stores_nothing(tmp_path: Path) -> None:
    single, cluster = (module(tmp_path, "specs/leader_routed.yaml", variant=v) for v in ("single", "cluster"))
    assert "if c_ < C:" in cluster and "if c_ < C:" not in single
    assert "ring.producer_tail(ring_state)" in cluster and "producer_tail" not in single


# ---- cp.async -------------------------------------------------------------------------------------------------------
def test_async_copies_arrive_at_the_full_barrier(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/async_load.yaml")
    assert "pipeline.PipelineCpAsync.create(" in text and "cp_async_wait_group" not in text
    assert "pred=table_inside" in task(text, "load")
    grouped = module(tmp_path, "specs/group_merge.yaml")
    assert "cute.arch.cp_async_mbarrier_arrive_noinc(ring_q_full + ring_q_state.index)" in grouped


def test_async_copies_need_rows_of_known_multiples(tmp_path: Path) -> None:
    """A vector lies inside the tensor or outside: without an assumption f32 goes by elements, bf16 not at all."""
    unknown = ("  assume: [N % 4 == 0]                     # cp.async copies 16 bytes at a time\n", "")
    text = module(tmp_path, "specs/group_merge.yaml", unknown)
    assert "cpasync.CopyG2SOp(), IO, num_bits_per_copy=32" in text
    with pytest.raises(Unsupported) as e:
        module(tmp_path, "specs/async_load.yaml", ("assume: [N % 8 == 0]", "assume: [N >= 1]"))
    assert "cp.async of 2 bytes" in e.value.diagnostic.message and "N % 8 == 0" in (e.value.diagnostic.help or "")


# ---- shared bytes ---------------------------------------------------------------------------------------------------
def test_aliased_fields_lie_at_the_derived_offsets_of_one_allocation(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/alias_epilogue.yaml")
    p = program(tmp_path, "specs/alias_epilogue.yaml")
    blocks = {b.name: b for b in derive(p.kernels[0]).smem}
    for name, constant in (("ab.a", "AB_A_AT"), ("ab.b", "AB_B_AT"), ("epi.c", "EPI_C_AT")):
        assert re.search(rf"^{constant} = {blocks[name].offset}\b", text, re.MULTILINE)
        assert f"pool + {constant}" in text
    assert text.count("smem.allocate(SMEM_BYTES, 1024)") == 1 and "allocate_tensor" not in text


def test_no_allocation_is_shared_without_an_alias(tmp_path: Path) -> None:
    assert "pool" not in module(tmp_path, "specs/gemm.yaml")


# ---- accumulators ---------------------------------------------------------------------------------------------------
def test_accumulators_are_cleared_by_a_fill_and_stored_by_pairs(tmp_path: Path) -> None:
    text = module(tmp_path, "specs/split_consumer.yaml")
    assert "acc_c.fill(0.0)" in text and "def acc_clear" not in text
    assert re.search(r"store_pairs\(\n.*acc_c,.*M - m \* TILE_M,\s+N - n \* TILE_N,", text, re.DOTALL)
    assert re.search(r'fitting\("d", d, .*, 4, 2\)|fitting\("d", d, .*, 2\)', text), "rows of d start at pairs"


def test_a_field_joined_with_an_accumulator_has_its_spread(tmp_path: Path) -> None:
    mma = task(module(tmp_path, "specs/gemm_residual.yaml"), "mma")
    assert "acc_r = cute.make_rmem_tensor(mma_thread.partition_shape_C((TILE_M, TILE_N)), IO)" in mma
    assert "res_r_from = mma_thread.partition_C(res_r)" in mma


# ---- the host -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("specs/gemm.yaml", "L * M * N == 0"),
        ("specs/copy.yaml", "N == 0"),
        ("specs/group_fork.yaml", "M * N == 0"),
        ("specs/leader_routed.yaml", "C * M * N == 0"),
    ],
)
def test_nothing_is_launched_without_results(tmp_path: Path, source: str, test: str) -> None:
    assert f"if not ({test}):" in module(tmp_path, source)
