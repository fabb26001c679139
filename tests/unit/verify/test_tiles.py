"""Tiles that write the same elements of a tensor: found where it is certain, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernels import kernel
from tsgen.derive import derive
from tsgen.verify import verify

WINDOW = "y[m*tile_m:+tile_m, j*tile_n:+tile_n]"
TILES = 'launch: {tiles: {m: "ceil_div(M, tile_m)"}}'
WRITE = "        - y.write(j=j, v=v)\n"


def launch(tiles: str, **more: str) -> tuple[str, str]:
    rest = "".join(f", {k}: {v}" for k, v in more.items())
    return TILES, f"launch: {{tiles: {{{tiles}}}{rest}}}"


def found(tmp_path: Path, *edits: tuple[str, str]) -> list[str]:
    k = kernel(tmp_path, "copy_tma", *edits)
    return [d.message for d in verify(k, derive(k)).diagnostics if d.code == "TS505"]


@pytest.mark.parametrize(
    ("tiles", "window", "axis"),
    [
        ('m: "ceil_div(M, tile_m)"', WINDOW, None),
        ('m: "ceil_div(M, tile_m)", n: P', WINDOW, "n"),
        ('m: "ceil_div(M, tile_m)", n: 1', WINDOW, None),
        ('m: "ceil_div(M, tile_m)", n: 4', WINDOW, "n"),
        ('m: "ceil_div(M, tile_m)"', "y[m*tile_m // 2:+tile_m, j*tile_n:+tile_n]", "m"),
        ('m: "ceil_div(M, tile_m)"', "y[m*2*tile_m:+tile_m, j*tile_n:+tile_n]", None),
        ('m: "ceil_div(M, tile_m)"', "y[m // 2*tile_m:+tile_m, j*tile_n:+tile_n]", "m"),
        ('m: "ceil_div(M, tile_m)"', "y[m % 2*tile_m:+tile_m, j*tile_n:+tile_n]", None),  # tiles 0 and 2 alone
        ('m: "ceil_div(M, tile_m)"', "y[0:+tile_m, j*tile_n:+tile_n]", "m"),
        ('m: "ceil_div(M, tile_m)", n: P', "y[(m + n)*tile_m:+tile_m, j*tile_n:+tile_n]", None),  # not by one axis
        ('m: "ceil_div(M, tile_m)", n: P', "y[m*tile_m:+tile_m, (j + n)*tile_n:+tile_n]", None),  # not in one trip
        ('m: "ceil_div(M, tile_m)"', "y[lens[m]:+tile_m, j*tile_n:+tile_n]", None),  # up to the data
    ],
)
def test_a_window_has_every_axis(tmp_path: Path, tiles: str, window: str, axis: str | None) -> None:
    tensors = ("tensors:\n", "tensors:\n  lens: {dtype: i32, shape: [M]}\n  p: {dtype: i32, shape: [N]}\n")
    messages = found(tmp_path, tensors, launch(tiles.replace("P", "N")), (WINDOW, window))
    assert len(messages) == (axis is not None)
    assert axis is None or f"differ in `{axis}` alone" in messages[0]


@pytest.mark.parametrize(
    ("guard", "certain"),
    [
        ("n == 0", False),
        ("j == 0", True),  # the same in all tiles
        ("N > 64", True),
        ("half == 0", False),
    ],
)
def test_a_condition_may_choose_the_tile(tmp_path: Path, guard: str, certain: bool) -> None:
    tiles = launch('m: "ceil_div(M, tile_m)", n: 4', let='{half: "n // 2"}')
    guarded = f'        - when_true: {{cond: "{guard}"}}\n          steps:\n    ' + WRITE
    assert bool(found(tmp_path, tiles, (WRITE, guarded))) is certain


def test_what_is_chosen_by_element_or_added_up_may_overlap(tmp_path: Path) -> None:
    tiles = launch('m: "ceil_div(M, tile_m)", n: 4')
    assert found(tmp_path, tiles, (f'to: "{WINDOW}"', f'to: "{WINDOW}", where: n == 0')) == []
    ring = (
        "work: {write: {op: store, takes: [j, v], value: v",
        "work: {write: {op: tma_store, takes: [j, v], from: ring.t",
    )
    add = (f'to: "{WINDOW}"}}', f'to: "{WINDOW}", reduce: add}}')
    assert found(tmp_path, tiles, ring, add) == []
    assert found(tmp_path, tiles, ring) != []


def test_a_let_carries_the_axis(tmp_path: Path) -> None:
    window = (WINDOW, "y[row:+tile_m, j*tile_n:+tile_n]")
    tiles = 'm: "ceil_div(M, tile_m)", n: 4'
    assert found(tmp_path, launch(tiles, let='{row: "(4*m + n)*tile_m"}'), window) == []
    assert found(tmp_path, launch(tiles, let='{row: "m*tile_m"}'), window) != []
