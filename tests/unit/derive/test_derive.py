"""Derived numbers of the example specs, against those worked out by hand (tests/language, docs/language.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernels import NAMES, kernel
from tsgen.derive import derive
from tsgen.derive.model import NamedBarrier


def test_gemm(tmp_path: Path) -> None:
    d = derive(kernel(tmp_path, "gemm"))
    ab = d.arrivals["ab"]
    assert (ab.full, ab.empty, ab.full_by, ab.empty_by) == (1, 16, "arm", "warp")
    assert ab.why_empty == "8 warps (of mma) x 2 CTAs"
    assert d.tx_bytes == {"ab": 49152} and d.peers == {"ab": 2}
    assert d.swizzles == {("ab", "a"): 128, ("ab", "b"): 128, ("epi", "c"): 128}
    assert d.smem_bytes == 229440
    assert [(b.name, b.offset, b.size) for b in d.smem] == [
        ("ab.a", 0, 65536),
        ("ab.b", 65536, 131072),
        ("epi.c", 196608, 32768),
        ("ab", 229376, 64),
    ]
    assert d.barriers == {("epi_bar", 0): NamedBarrier(1, 128), ("epi_bar", 1): NamedBarrier(2, 128)}
    assert (d.block_warps, d.padding, d.launch_registers) == (12, {"load": (9, 10, 11)}, 168)
    assert d.src == {"mma": ("ab", "epi"), "load": ("a", "b")}
    assert d.dst == {"mma": ("epi", "d"), "load": ("ab",)}


def test_copies(tmp_path: Path) -> None:
    d = derive(kernel(tmp_path, "copy_tma"))
    assert (d.arrivals["ring"].full, d.arrivals["ring"].empty, d.tx_bytes["ring"]) == (1, 4, 8192)
    assert (d.block_warps, d.padding) == (8, {"load": (5, 6, 7)})
    plain = derive(kernel(tmp_path, "copy"))
    assert (plain.smem, plain.block_warps, plain.padding) == ((), 4, {})


@pytest.mark.parametrize(
    ("name", "ring", "full", "empty", "tx"),
    [
        ("gemm_pingpong", "ab", 1, 8, 32768),  # the groups take turns: four warps in one phase, two CTAs
        ("interleave_domain", "ring", 1, 4, 4096),  # a stage belongs to one lane
        ("interleave_warp", "ring", 32, 32, 0),  # a warp for each lane
        ("leader_routed", "ring", 1, 4, 16384),  # one arming for two warps
        ("group_fork", "a_act", 1, 4, 8192),  # shares the full barrier of a_mma
        ("ping_pong", "buf", 128, 128, 0),
        ("rmsnorm", "sums", 1, 16, 256),  # eight warps release to two CTAs
        ("sm100_gemm", "ab", 1, 1, 49152),
        ("sm100_gemm", "acc", 1, 4, 0),
        ("sm100_gemm_persistent", "ab", 1, 1, 65536),  # the leader counts the bytes of both
        ("sm100_gemm_persistent", "acc", 1, 8, 0),
        ("sm100_gemm_persistent", "tiles", 1, 12, 16),  # schedule 1, mma 1 (leader), load 2, store 8
        ("sm100_gemm_split_k", "partial", 1, 8, 32768),  # a half of the columns from each of two CTAs
        ("sm100_group_merge", "ring_a", 128, 1, 0),  # one commit of the MMA for both members
        ("sm100_group_merge", "res", 1, 4, 32768),
        ("sm100_group_fork", "a_mma", 1, 1, 16384),  # a_act shares its full barrier,
        ("sm100_group_fork", "a_act", 1, 4, 16384),  # and is released by the warps that write r
        ("sm100_attention", "s", 1, 4, 0),  # each instance has its own softmax task
        ("sm100_attention", "p", 128, 1, 0),
    ],
)
def test_counts_and_bytes(tmp_path: Path, name: str, ring: str, full: int, empty: int, tx: int) -> None:
    d = derive(kernel(tmp_path, name))
    assert (d.arrivals[ring].full, d.arrivals[ring].empty, d.tx_bytes[ring]) == (full, empty, tx)


def test_a_written_count_of_all_threads_makes_every_thread_arrive(tmp_path: Path) -> None:
    edit = ("num_stages: stages}", "num_stages: stages, consumer_group: 128}")
    ring = derive(kernel(tmp_path, "copy_tma", edit)).arrivals["ring"]
    assert (ring.empty, ring.empty_by) == (128, "thread")


def test_alias_phases_start_at_one_address(tmp_path: Path) -> None:
    d = derive(kernel(tmp_path, "alias_epilogue"))
    places = {b.name: b.offset for b in d.smem}
    assert places["ab.a"] == places["epi.c"] == 0 and places["ab.b"] == 65536
    assert d.smem_bytes == 196608 + 64


def test_tensor_memory(tmp_path: Path) -> None:
    d = derive(kernel(tmp_path, "sm100_attention"))
    columns = {b.name: (b.offset, b.columns) for b in d.tmem}
    assert columns["s[0].s"] == (0, 128) and columns["p[0].p"] == (0, 64) and columns["s[1].s"] == (128, 128)
    assert d.tmem_columns == 512
    assert derive(kernel(tmp_path, "sm100_gemm")).tmem_columns == 256
    assert derive(kernel(tmp_path, "gemm")).tmem_columns == 0


def test_barrier_threads_are_those_of_all_who_take_part(tmp_path: Path) -> None:
    d = derive(kernel(tmp_path, "attention", variant="causal_wg3"))
    assert [d.barriers["turn", w].threads for w in range(3)] == [256] * 3  # one group arrives, the next waits
    assert [d.barriers["o_bar", w].threads for w in range(3)] == [128] * 3
    assert [b.id for b in d.barriers.values()] == list(range(1, 7))


@pytest.mark.parametrize("name", NAMES)
def test_every_example_derives(tmp_path: Path, name: str) -> None:
    d = derive(kernel(tmp_path, name))
    ends = 0
    for b in sorted((b for b in d.smem), key=lambda b: b.offset):
        assert b.offset % b.align == 0
        ends = max(ends, b.offset + b.size)
    assert ends == d.smem_bytes
