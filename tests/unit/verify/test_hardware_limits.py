"""What the hardware cannot do: rows out of a warp's reach, boxes of odd sizes, memory that a block cannot have."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tests.support.kernels import LANGUAGE
from tests.unit.verify.test_spreads import SPEC

COPY = (LANGUAGE / "copy_tma.yaml").read_text()
GEMM = (LANGUAGE / "sm100_gemm.yaml").read_text()
STORE = "num_warps: 4, num_registers: 160"


def codes(text: str, *edits: tuple[str, str]) -> list[str]:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    report = check_text(text)
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics]


@pytest.mark.parametrize(("warps", "found"), [("4", []), ("2", ["TS614"]), ("1", ["TS614"]), ("3", ["TS614"])])
def test_each_warp_reaches_32_rows_of_tensor_memory(warps: str, found: list[str]) -> None:
    assert codes(GEMM, (STORE, STORE.replace("4", warps))) == found


@pytest.mark.parametrize(
    ("tile_n", "dtype", "found"),
    [("8", "f16", []), ("4", "f16", ["TS323"]), ("12", "f16", ["TS323"]), ("4", "f32", []), ("6", "f32", ["TS323"])],
)
def test_a_row_of_a_box_is_a_multiple_of_16_bytes(tile_n: str, dtype: str, found: list[str]) -> None:
    assert codes(COPY, ("tile_n: 64", f"tile_n: {tile_n}"), ("io: f16", f"io: {dtype}")) == found


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("smem_capacity", "232448", []),
        ("smem_capacity", "232449", ["TS138"]),
        ("smem_capacity", "40000", []),
        ("smem_capacity", "30000", ["TS600"]),
        ("tmem_capacity", "513", ["TS138"]),
    ],
)
def test_a_capacity_is_at_most_that_of_the_target(key: str, value: str, found: list[str]) -> None:
    assert codes(COPY, ("graph:", f"memory: {{{key}: {value}}}\ngraph:")) == found


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ("buf.cp(), cp_async.wait_group(0)", []),
        ("buf.cp(), cp_async.wait_group(1)", ["TS502"]),
        ("buf.cp()", ["TS502"]),
    ],
)
def test_a_task_waits_for_its_own_copies(steps: str, found: list[str]) -> None:
    """An async pipeline would wait for them; without one nobody does."""
    text = SPEC.replace("put: {op: store, takes: [k], value: VALUE", "cp: {op: cp_async_load, copies: [{COPY}]}")
    copy = 'to: "t[1]", from: "x[b, :, :]"'
    head, tail = text.split("schedules:\n")
    head = head.replace("{COPY}", "{" + copy + "}").replace(', to: "PUT"}', "").replace("TAKE", LOAD)
    tasks = tail[tail.index("tasks:") :]
    schedule = f"schedules:\n  turn: [regs.load(), buf.all(s=0), {steps}, y.write()]\n"
    found_codes = [c for c in codes(head + schedule + tasks) if c[:4] not in ("TS27", "TS34")]
    assert found_codes == found


LOAD = 'op: load, static: [s], from: "buf.t[s]", to: v'


@pytest.mark.parametrize(("columns", "found"), [("16", ["TS602"]), ("32", [])])
def test_scale_factors_take_four_columns_for_each_block(columns: str, found: list[str]) -> None:
    text = (LANGUAGE / "sm100_gemm_nvfp4.yaml").read_text(encoding="utf-8")
    assert "columns: 32" in text
    report = check_text(text.replace("columns: 32", f"columns: {columns}"))
    assert sorted({d.code for d in report.diagnostics}) == found
