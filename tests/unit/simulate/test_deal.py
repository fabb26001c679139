"""Tiles are dealt out to warps: each element to one of them, as the instructions do where they say."""

from __future__ import annotations

import numpy as np
import pytest

from tsgen.simulate.deal import Deal, Mode, ids, tidy


def owners(deal: Deal, rows: int, cols: int) -> np.ndarray:
    """How many warps have each element."""
    count = np.zeros((rows, cols), int)
    for warp in range(deal.warps):
        own = deal.own(rows, cols, warp)
        count[np.ix_(ids(own.rows), ids(own.cols))] += 1
    return count


@pytest.mark.parametrize(
    ("mode", "warps", "rows", "cols"),
    [
        ("fragment", 4, 64, 8),
        ("fragment", 8, 128, 8),
        ("fragment", 4, 128, 8),
        ("fragment", 8, 64, 6),  # no WGMMA tile of this task
        ("lanes", 4, 128, 8),
        ("lanes", 8, 128, 8),
        ("lanes", 8, 256, 8),
        ("rows", 4, 16, 3),
        ("rows", 3, 16, 8),
        ("rows", 4, 2, 8),
        ("rows", 4, 1, 2),
        ("columns", 8, 4, 64),
        ("columns", 8, 4, 8),
    ],
)
def test_every_element_has_one_owner(mode: Mode, warps: int, rows: int, cols: int) -> None:
    assert (owners(Deal(mode, warps, 0, frozenset()), rows, cols) == 1).all()


def test_wgmma_gives_a_warp_sixteen_rows_of_each_sixty_four() -> None:
    deal = Deal("fragment", 8, 0, frozenset())
    assert ids(deal.own(256, 8, 5).rows).tolist() == [*range(144, 160), *range(208, 224)]


def test_tensor_memory_gives_a_warp_the_lanes_of_its_place_in_the_warpgroup() -> None:
    assert ids(Deal("lanes", 4, 6, frozenset()).own(128, 8, 1).rows).tolist() == list(range(96, 128))


def test_a_vector_that_goes_with_rows_is_whole_for_each_warp() -> None:
    deal = Deal("rows", 4, 0, frozenset({64}))
    assert ids(deal.own(1, 64, 2).cols).size == 64 and ids(deal.own(1, 32, 2).cols).size == 8


def test_row_values_are_whole() -> None:
    own = Deal("columns", 8, 0, frozenset()).own(4, 16, 3, whole_rows=True)
    assert ids(own.rows).size == 4 and ids(own.cols).size == 16


def test_even_steps_become_slices() -> None:
    assert tidy(np.array([1, 3, 5])) == slice(1, 6, 2)
    assert isinstance(tidy(np.array([0, 1, 5])), np.ndarray)
    assert tidy(np.array([], int)) == slice(0, 0, 1)
