"""Lowering of tensor memory, tcgen05 MMAs and tile queries: what modules say, what is refused and where."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.lower.build import module
from tsgen.lower import Unsupported

GEMM, PERSISTENT = "specs/sm100_gemm.yaml", "specs/sm100_gemm_persistent.yaml"
SCALED, ATTENTION = "specs/sm100_gemm_nvfp4.yaml", "specs/sm100_attention.yaml"
ONE_TARGET = ("target: [sm_100a, sm_103a]", "target: sm_100a")
ASYNC = "tests/kernels/async_umma.yaml"
REFUSED = [  # spec, what is changed in it, and the words of the finding
    (GEMM, [("tile_m: 128", "tile_m: 64")], "registers of [64, 64] of 128 threads"),
    (GEMM, [("tile_n: 256", "tile_n: 512")], "a tcgen05_mma tile of 128x512"),
    (GEMM, [("tile_k: 64", "tile_k: 4")], "rows of 4 elements"),
    (GEMM, [("choices: [f16, bf16]", "choices: [f16, f32]"), ("value: f16", "value: f32")], "tcgen05_mma on f32"),
    (GEMM, [("c: {dtype: f32, shape: [tile_m, tile_n]}", "c: {dtype: f16, shape: [tile_m, tile_n]}")], "of f16"),
    (
        GEMM,
        [
            ("warp_idx: 0, num_warps: 4", "warp_idx: 0, num_warps: 8"),
            ("warp_idx: 4", "warp_idx: 8"),
            ("warp_idx: 5", "warp_idx: 9"),
        ],
        "of 256 threads",
    ),
    (
        GEMM,
        [("num_warps: 1, num_registers: 40}\n  load", "num_warps: 1, num_registers: 48}\n  load")],
        "tasks of one warpgroup with 40 and 48 registers",
    ),
    (
        GEMM,
        [("frag.read(s=s)\n        - tcgen05.wait_ld()\n        - d.write(s=s)", "d.write(s=s)")],
        "tensor memory `acc` that no task reads",
    ),
    (PERSISTENT, [("swizzle: 8,", "swizzle: 8, serpentine: true,")], "`serpentine` with tiles that the hardware"),
    (
        PERSISTENT,
        [
            (
                "- work_tile_loop: {queue: tiles}\n      steps:\n        - acc.wait()",
                "- work_tile_loop: {queue: tiles, first: 1}\n      steps:\n        - acc.wait()",
            )
        ],
        "`first` or `stride`",
    ),
    (PERSISTENT, [("cluster: {m: pair, n: cluster_n}", "cluster: {m: pair, n: 2, l: 2}")], "clusters of three axes"),
    (
        PERSISTENT,
        [("cluster: {m: pair, n: cluster_n}", "cluster: {m: 4, n: 2}"), (", multicast: n}", "}")],
        "`ab` without multicast in clusters of 2x2 pairs",
    ),
    (SCALED, [("        sfb: scales.b\n", "")], "with one of `sfa` and `sfb`"),
    (SCALED, [("sf: f8e4m3\n", "sf: f8e5m2\n")], "with a factor of f8e5m2 for 16 elements"),
    (
        SCALED,
        [("op: tcgen05_cp, from: ring.sfa, to: a, cta_group: pair", "op: tcgen05_cp, from: ring.sfa, to: a")],
        "with different `cta_group`",
    ),
    (
        ASYNC,
        [
            (
                "s: {dtype: f32, shape: [128, n]}}\n    work: {read: {op: tmem_load, from: inner.s",
                "s: {dtype: f16, shape: [128, n]}}\n    work: {read: {op: tmem_load, from: inner.s",
            )
        ],
        "registers of f16",
    ),
    (
        ATTENTION,
        [
            (
                "- s[w].acquire()\n            - s[w].qk()\n            - s[w].commit()\n        - k_ring.release()",
                "- s[0].acquire()\n            - s[w].qk()\n            - s[w].commit()\n        - k_ring.release()",
            )
        ],
        "steps on one instance of `s` beside others",
    ),
]


@pytest.mark.parametrize(("spec", "edits", "words"), REFUSED, ids=[w for _, _, w in REFUSED])
def test_what_cannot_be_emitted_is_said_with_its_place(
    tmp_path: Path, spec: str, edits: list[tuple[str, str]], words: str
) -> None:
    with pytest.raises(Unsupported) as e:
        module(tmp_path, spec, *edits, target="sm_100a")
    assert e.value.diagnostic.code == "TS801" and words in e.value.diagnostic.message, e.value.diagnostic.message
    assert e.value.diagnostic.span.line > 1


def test_tensor_memory_is_allocated_before_it_is_used_and_freed_by_the_warp_that_allocated(tmp_path: Path) -> None:
    text = module(tmp_path, PERSISTENT, target="sm_100a")
    order = ["alloc_tmem(", "relinquish_tmem_alloc_permit(", "barrier_id=TMEM_READY", "acc.consumer_wait(",
             "barrier_id=TMEM_DONE", "mbarrier_arrive(tmem_free, cta_rank ^ 1)", "mbarrier_wait(tmem_free, 0)",
             "dealloc_tmem("]  # fmt: skip
    places = [text.index(x) for x in order]
    assert places == sorted(places)
    assert text.count("barrier_id=TMEM_READY") == 2  # of the readers and of the MMA's warp, which waits in both CTAs
    ready = text.index("barrier_id=TMEM_READY", text.index("task mma"))
    assert ready < text.index("if cta_rank == 0:", ready)


def test_all_of_tensor_memory_starts_at_zero(tmp_path: Path) -> None:
    """512 columns are all there are: the address is a constant. Fewer lie where the hardware says."""
    whole = module(tmp_path, PERSISTENT, target="sm_100a")
    part = module(tmp_path, GEMM, target="sm_100a")
    assert "TMEM_COLUMNS = 512" in whole and "retrieve_tmem_ptr" not in whole
    assert "TMEM_COLUMNS = 256" in part and "AddressSpace.tmem" not in part


def test_a_thread_holds_a_row(tmp_path: Path) -> None:
    """Rows need no exchange between lanes, and comparisons with columns are with compile-time numbers."""
    text = module(tmp_path, ATTENTION, variant="causal", target="sm_100a")
    mask = text[text.index("def soft_mask") : text.index("# sm100_attention", text.index("def soft_mask"))]
    assert "limit = min_ - j_ * TILE_N" in mask and "if col < limit else" in mask and "shuffle" not in mask
    top = text[text.index("def soft_top") :]
    assert "fmax(row_max[0], combine(cute.arch.fmax, values))" in top[: top.index("\n\n")]


def test_an_expression_is_stored_to_tensor_memory_in_its_dtype(tmp_path: Path) -> None:
    text = module(tmp_path, ASYNC, ("value: mid.s, to: p", 'value: "mid.s * 2", to: p'))
    assert re.search(r"p_put\(p_tile, mid_s\)\n +put_staged\.store\(p_tile\.load\(\)\.to\(IO\)\)", text)


def test_positions_of_instances_move_after_the_last(tmp_path: Path) -> None:
    text = module(tmp_path, ATTENTION, variant="full", target="sm_100a")
    mma = text[text.index("task mma") : text.index("task load")]
    commits = re.findall(r"tcgen05\.commit\(s_full \+ (\w+)\)\n +if const_expr\((\w+) == 1\):\n +s_state\.advance", mma)
    assert len(commits) == 2 and all(a == b for a, b in commits)
    softmax = text[text.index("task softmax") : text.index("task correct")]
    assert "mbarrier_wait(s_full + w, s_state.phase)" in softmax  # its own instance: moves every time
    assert re.search(r"mbarrier_arrive\(s_empty \+ w\)\n +s_state\.advance", softmax)


def test_packed_elements_are_passed_as_bytes(tmp_path: Path) -> None:
    text = module(tmp_path, SCALED, variant="nvfp4", target="sm_100a")
    assert 'a = as_tensor("a", a).view(torch.uint8)' in text and "a = cute.recast_tensor(a, IO)" in text
    assert "K = a.shape[2] * 2" in text and '(L, M, K // 2), "uint8", 16, 16)' in text
    assert "fake(cutlass.Uint8, (L, M, cute.sym_int()), 16, 16)" in text
