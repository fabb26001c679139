"""What attention asks of lowering beyond GEMM, in the text of its module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.lower.build import module
from tsgen.lower import Unsupported

ATTENTION = "specs/attention.yaml"


def words(text: str) -> str:
    return " ".join(text.split())


def test_q_from_registers_or_from_shared_memory(tmp_path: Path) -> None:
    """With q in registers a warp syncs before a lane releases what ldmatrix has read, and nobody takes turns."""
    text = module(tmp_path, ATTENTION, variant="full")
    assert "warpgroup.OperandSource.RMEM,\n            OperandMajorMode.K,\n            OperandMajorMode.K," in text
    assert "mma(qk_mma, acc_s, acc_q, qk_b[None, None, None, k_ring_state.index], True)" in text
    release = (
        "cute.arch.sync_warp()  # every lane is done before one lane releases\n            q_tile.consumer_release"
    )
    assert release in text and "TURN" not in text.split("\n# derived\n")[1]
    text = module(tmp_path, ATTENTION, variant="full", q_in_registers="false")
    assert "cute.local_tile(q_tile_q, (64, HEAD_DIM), (w, 0, None))" in text
    assert "sync_warp" not in text and "LdMatrix" not in text
    assert "if w == WARPGROUPS - 1:\n" in text and "barrier_arrive(barrier_id=TURN, number_of_threads=256)" in text
    assert "barrier_id=TURN + (w + 1) % WARPGROUPS" in text


def test_two_products(tmp_path: Path) -> None:
    """Each wgmma has its tiled MMA; v is read transposed: the rows of the stage are K, its columns N."""
    text = module(tmp_path, ATTENTION, variant="causal")
    assert re.findall(r"(\w+) = cute.make_tiled_mma", text) == ["qk_mma", "pv_mma"]
    assert "cute.make_ordered_layout((HEAD_DIM, TILE_N, KV_STAGES), order=(1, 0, 2))" in text
    assert "i == 1)" in text and "blocks == 1)" in text


def test_scalars_are_scaled_once(tmp_path: Path) -> None:
    """`log2_scale` follows from an argument alone: the launcher computes it."""
    text = module(tmp_path, ATTENTION, variant="full")
    kernel, launcher = text.split("def attention_launch(")
    assert "    log2_scale: Float32,  # attention.yaml:" in kernel and "scale * 1.44" not in kernel
    assert "scale * 1.4426950408889634" in launcher


def test_windows_of_sequences(tmp_path: Path) -> None:
    """Packed rows start anywhere: the windows' origin moves with the tile. Without packing they are boxes of a grid."""
    text = module(tmp_path, ATTENTION, variant="varlen")
    for name, start in (("q", "q0"), ("k", "k0"), ("v", "k0")):
        assert f"cute.domain_offset(({start}, 0, 0, 0), {name})" in text
    assert "skipped = row0 >= len_q" in text and text.count("if not skipped:") == 2
    text = module(tmp_path, ATTENTION, variant="causal")
    assert (
        "domain_offset" not in text and "skipped" not in text and "cu_q" not in text.split("def attention_launch(")[0]
    )
    assert "load_q_gmem[None, m, 0, b, h]" in words(text)


def test_tile_values_are_computed_where_they_are_used(tmp_path: Path) -> None:
    """The load task needs the key head, the others the rows; neither computes what only the other needs."""
    attend, load = module(tmp_path, ATTENTION, variant="full").split(" task attend:")[1].split(" task load:")
    assert "hk = " in load and "hk = " not in attend
    assert "row0 = " not in load and "row0 = " not in attend, "full: no mask looks at rows, boxes are counted"
    assert attend.index("mma(qk_mma") < attend.index("tile_coord("), "under the first product"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("where: row0 + w*64 + rows(acc.o) < len_q", "where: cols(acc.o) < 64", "`where: cols(acc.o) < 64`"),
        ('from: "q_tile.q[w*64:+64, :]"', 'from: "q[seq, q0 + row0 + w*64:+64, h, :]"', "A operand of a WGMMA"),
    ],
)
def test_what_cannot_be_emitted_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(Unsupported) as e:
        module(tmp_path, ATTENTION, (old, new), variant="varlen")
    assert message in e.value.diagnostic.message
