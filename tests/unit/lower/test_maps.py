"""Maps and stores over WGMMA fragments: the generated functions are run on 128 lanes and compared with whole tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.lower import lanes
from tests.unit.lower.build import function, module
from tests.unit.lower.lanes import LANES, fragment, functions, gather, gather_rows, row_values, scatter

ATTENTION = "specs/attention.yaml"
FIRST_ROW = LANES // 32 * 16 + LANES % 32 // 4
FIRST_COL = LANES % 4 * 2
PLACE = {"thread": LANES, "thread_row": FIRST_ROW, "thread_col": FIRST_COL}


def run(scope: dict[str, Any], name: str, **values: object) -> None:
    """Calls a function with what its parameters are named after."""
    f = scope[name]
    with np.errstate(all="ignore"):
        f(*({**PLACE, **values}[p] for p in f.__code__.co_varnames[: f.__code__.co_argcount]))


def tile(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, columns), np.float32)


def softmax_step(s: np.ndarray, top: np.ndarray, total: np.ndarray, scale: float) -> tuple[np.ndarray, ...]:
    """One block of an online softmax on whole rows: new s, maximum, sum, and the correction of what came before."""
    new = np.maximum(top, s.max(1))
    base = np.where(new == -np.inf, 0, new) * scale
    corr = np.exp2(top * scale - base)
    s = np.exp2(s * scale - base[:, None])
    return s, new, total * corr + s.sum(1), corr


@pytest.mark.parametrize("variant", ["full", "causal"])
@pytest.mark.parametrize(("len_q", "len_k"), [(300, 300), (300, 77), (77, 300), (1, 1), (640, 129)])
def test_mask(tmp_path: Path, variant: str, len_q: int, len_k: int) -> None:
    """`col < end` solved for the column: every block, every row, both orders of lengths."""
    scope = functions(module(tmp_path, ATTENTION, variant=variant))
    for row0, w, j in [(0, 0, 0), (128, 1, 0), (256, 0, 2), (0, 1, 1), (512, 1, 0)]:
        before = tile(64, 128)
        acc = scatter(before)
        run(scope, "acc_mask", acc_s=acc, row0=row0, w=w, j=j, Sk=len_k, Sq=len_q)
        row, col = row0 + 64 * w + np.arange(64)[:, None], 128 * j + np.arange(128)
        end = np.minimum(len_k, row + 1 + len_k - len_q) if variant == "causal" else len_k
        assert np.array_equal(gather(acc, 64, 128), np.where(col < end, before, -np.inf))


def test_softmax_over_blocks(tmp_path: Path) -> None:
    """Reset, three blocks (one without any column for some rows), and the end: equal to a softmax of the whole."""
    scope = functions(module(tmp_path, ATTENTION, variant="varlen"))
    scale = 0.3
    registers = {n: row_values(64) for n in ("acc_row_max", "acc_row_sum", "acc_corr", "acc_lse")}
    run(scope, "acc_reset", **registers)
    blocks = [tile(64, 128, i) * 5 for i in range(3)]
    blocks[0][:40] = -np.inf
    blocks[1][:20] = -np.inf
    blocks[2][:3] = -np.inf
    top, total = np.full(64, -np.inf, np.float32), np.zeros(64, np.float32)
    acc_o = scatter(np.zeros((64, 128), np.float32))
    for i, block in enumerate(blocks):
        acc = scatter(block)
        run(scope, "acc_softmax", acc_s=acc, log2_scale=scale * math.log2(math.e), **registers)
        with np.errstate(all="ignore"):
            s, top, total, corr = softmax_step(block, top, total, scale * math.log2(math.e))
        np.testing.assert_allclose(gather(acc, 64, 128), s, rtol=1e-5, atol=1e-7)
        assert np.array_equal(gather_rows(registers["acc_row_max"]), top)
        np.testing.assert_allclose(gather_rows(registers["acc_row_sum"], shares=True), total, rtol=1e-5)
        np.testing.assert_allclose(gather_rows(registers["acc_corr"]), corr, rtol=1e-5)
        run(scope, "acc_rescale", acc_o=acc_o, **registers)
        acc_o.data += acc.data * (i + 1)  # stands for p v
    run(scope, "acc_finish", acc_o=acc_o, **registers)
    run(scope, "acc_log_sum", scale=scale, **registers)
    whole = np.concatenate(blocks, 1)
    with np.errstate(all="ignore"):
        p = np.exp(scale * (whole - np.where(whole.max(1) == -np.inf, 0, whole.max(1))[:, None]))
        lse = scale * np.where(whole.max(1) == -np.inf, 0, whole.max(1)) + np.log(p.sum(1))
        p = np.nan_to_num(p / p.sum(1)[:, None])
    want = p[:, :128] + 2 * p[:, 128:256] + 3 * p[:, 256:]
    np.testing.assert_allclose(gather(acc_o, 64, 128), want, rtol=1e-4, atol=1e-6)
    assert not gather(acc_o, 64, 128)[:3].any(), "rows without columns are zeros"
    np.testing.assert_allclose(gather_rows(registers["acc_lse"]), lse, rtol=1e-5)


def test_pack(tmp_path: Path) -> None:
    """The A operand holds a thread's elements in the accumulator's order."""
    scope = functions(module(tmp_path, ATTENTION, variant="full"))
    before = tile(64, 128)
    to = fragment(64, 128)
    scope["pack"](to, scatter(before))
    assert np.array_equal(gather(to, 64, 128), before)


@pytest.mark.parametrize("act", ["none", "relu", "silu"])
def test_bias_and_activation_by_slices(tmp_path: Path, act: str) -> None:
    """The GEMM's map, done for the slices that its epilogue stores; columns past the edge read the last bias."""
    scope = functions(module(tmp_path, "specs/gemm.yaml", has_bias="true", act=act))
    before, n, width = tile(64, 256), 1, 300
    bias = tile(1, width)[0]
    acc = scatter(before)
    bias_tensor = lanes.Tensor(bias, (width,), (1,))
    for s in range(4):
        columns = range(s * 64 // 4, (s + 1) * 64 // 4)
        with np.errstate(all="ignore"):
            bias_lanes = BiasOfLanes(bias_tensor)
            run(scope, "acc_finish", acc_c=acc, bias=bias_lanes, n=n, N=width, part=columns)
    x = before + bias[np.minimum(n * 256 + np.arange(256), width - 1)]
    want = {"none": x, "relu": np.maximum(x, 0), "silu": x / (1 + np.exp(-x))}[act]
    np.testing.assert_allclose(gather(acc, 64, 256), want, rtol=1e-5, atol=1e-6)


class BiasOfLanes:
    """A global tensor that each lane indexes for itself."""

    def __init__(self, x: lanes.Tensor) -> None:
        self.x = x

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        return self.x.data[index]


@pytest.mark.parametrize(("q0", "len_q", "rows"), [(0, 128, 128), (5, 100, 400), (300, 64, 364), (0, 0, 10), (7, 1, 8)])
def test_stores_from_registers(tmp_path: Path, q0: int, len_q: int, rows: int) -> None:
    """Rows of the sequence are written, all others left alone, whatever lies beyond them."""
    text = module(tmp_path, ATTENTION, variant="varlen")
    bound = " ".join(text[text.index("                store_pairs(") :].split())
    assert "cutlass.min(Sq - (q0 + row0 + w * 64), len_q - row0 - w * 64), HEAD_DIM" in bound
    scope = functions(text, lanes=False)
    heads, h = 3, 2
    o, lse = np.full(rows * heads * 128, 7.0, np.float32), np.full(heads * rows, 7.0, np.float32)
    lse_tensor = lanes.Tensor(lse, (1, heads, rows), (heads * rows, rows, 1))
    values, sums = tile(128, 128), tile(128, 1)[:, 0]
    for w in range(2):
        acc, row = scatter(values[64 * w :][:64]), row_values(64)
        for i in range(2):
            row.data[i] = sums[64 * w + FIRST_ROW + 8 * i]
        left = min(rows - (q0 + w * 64), len_q - w * 64)
        for t in range(128):
            mine = {n: int(x[t]) for n, x in PLACE.items()}
            at = {"q0": q0, "row0": 0, "w": w, "h": h, "Sq": rows, "len_q": len_q, **mine}
            run(scope, "lse_write", lse=lse_tensor, acc_lse=one_lane(row, t), **at)
            start = (q0 + w * 64) * heads * 128 + h * 128
            to = partition(lanes.Tensor(o, (), (), start), heads * 128, mine)
            run(scope, "store_pairs", x=one_lane(acc, t), to=to, at=Coordinates(mine), rows=left, cols=128)
    want_o, want_lse = np.full((rows, heads, 128), 7.0, np.float32), np.full((heads, rows), 7.0, np.float32)
    want_o[q0 : q0 + len_q, h] = values[:len_q]
    want_lse[h, q0 : q0 + len_q] = sums[:len_q]
    assert np.array_equal(o.reshape(rows, heads, 128), want_o)
    assert np.array_equal(lse.reshape(heads, rows), want_lse)


def partition(x: lanes.Tensor, row: int, thread: dict[str, int]) -> lanes.Tensor:
    """A thread's part of a 64x128 tile of a global tensor, in the fragment's modes."""
    start = x.start + thread["thread_row"] * row + thread["thread_col"]
    return lanes.Tensor(x.data, ((2, 2, 16), 1, 1), ((1, 8 * row, 8), 0, 0), start)


@dataclass(frozen=True)
class Coordinates:
    """A thread's part of the tile's coordinates."""

    thread: dict[str, int]

    def __getitem__(self, index: Any) -> tuple[int, int]:
        (e, half, n), _, _ = index
        return self.thread["thread_row"] + 8 * half, self.thread["thread_col"] + 8 * n + e


def one_lane(x: lanes.Tensor, t: int) -> lanes.Tensor:
    return lanes.Tensor(x.data[:, t].copy(), x.shape, x.stride)


def test_limits_are_computed_once_for_each_row(tmp_path: Path) -> None:
    """A comparison with a column costs one instruction for each element: a constant against a register of the row."""
    mask = function(module(tmp_path, ATTENTION, variant="causal"), "acc_mask")
    assert "if col_of(c) < limit else" in mask
    assert mask.index("limit = ") < mask.index("for c in")
    full = function(module(tmp_path, ATTENTION, variant="full"), "acc_mask")
    assert full.index("limit = ") < full.index("for r in") and "row" not in full.split('"""')[2].replace("by_row", "")


def test_temporaries_of_earlier_loops(tmp_path: Path) -> None:
    """A temporary of elements is computed again after a reduction has ended its loop over columns."""
    edit = (
        "          - s = exp2(s * log2_scale - base)",
        "          - x = s * log2_scale\n          - s = exp2(x - base)",
    )
    early = (
        "          - top = max(row_max, rowmax(s))",
        "          - x = s * log2_scale\n          - top = max(row_max, rowmax(s))",
    )
    late = ("          - s = exp2(s * log2_scale - base)", "          - s = exp2(x - base)")
    plain = functions(module(tmp_path, ATTENTION, variant="full"))
    for edits in ((edit,), (early, late)):
        changed = functions(module(tmp_path, ATTENTION, *edits, variant="full"))
        results = []
        for scope in (plain, changed):
            registers = {n: row_values(64) for n in ("acc_row_max", "acc_row_sum", "acc_corr")}
            run(scope, "acc_reset", **registers)
            acc = scatter(tile(64, 128))
            run(scope, "acc_softmax", acc_s=acc, log2_scale=1.5, **registers)
            results.append(gather(acc, 64, 128))
        assert np.array_equal(*results)
