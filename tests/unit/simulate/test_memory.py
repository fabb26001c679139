"""Poisoned memory: what is read was written, and accesses that overlap in time do not touch the same elements."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.simulate.test_barriers import WHO
from tsgen.simulate.faults import Fault
from tsgen.simulate.memory import Alias, Cell, Region, whole


def cell(shape: tuple[int, ...] = (8, 4), dtype: str = "f32") -> Cell:
    return Cell("ring.t", shape, dtype, True)


def rows(c: Cell, start: int, stop: int, step: int = 1) -> Region:
    return Region(c.shape, (slice(start, stop, step), slice(0, c.shape[1], 1)))


def fails(kind: str, said: str) -> pytest.RaisesExc[Fault]:
    return pytest.raises(Fault, match=said, check=lambda e: e.kind == kind)


def test_unwritten_elements_cannot_be_read() -> None:
    c = cell()
    c.write(rows(c, 0, 4), np.ones((4, 4), np.float32), WHO)
    assert c.read(rows(c, 1, 3), WHO).tolist() == np.ones((2, 4)).tolist()
    with fails("unwritten", "nothing has been written"):
        c.read(rows(c, 3, 5), WHO)


def test_values_are_rounded_to_the_dtype_when_they_are_written() -> None:
    c = cell((1, 2), "bf16")
    c.write(whole(c.shape), np.array([[1.00390625, 1.01171875]], np.float32), WHO)
    assert c.read(whole(c.shape), WHO).tolist() == [[1.0, 1.015625]]  # ties to even


def test_what_has_been_read_stays_what_it_was() -> None:
    c = cell()
    c.write(whole(c.shape), np.zeros(c.shape, np.float32), WHO)
    before = c.read(whole(c.shape), WHO)
    c.write(whole(c.shape), np.ones(c.shape, np.float32), WHO)
    assert not before.any()


def test_a_write_under_way_excludes_everything_else_there() -> None:
    c = cell()
    access = c.open(rows(c, 0, 4), True, WHO, "TMA", None, reads=False)
    with fails("race", "reads ring.t while .* still writes it through TMA"):
        c.read(rows(c, 3, 8), WHO)
    with fails("race", "writes ring.t while"):
        c.write(rows(c, 3, 8), np.zeros((5, 4), np.float32), WHO)
    c.write(rows(c, 4, 8), np.zeros((4, 4), np.float32), WHO)
    c.close(access, np.full((4, 4), 2.0, np.float32))
    assert c.read(whole(c.shape), WHO).sum() == 32


def test_reads_under_way_exclude_writes_alone() -> None:
    c = cell()
    c.write(whole(c.shape), np.zeros(c.shape, np.float32), WHO)
    access = c.open(rows(c, 0, 8, 2), False, WHO, "WGMMA", None, reads=True)
    c.read(whole(c.shape), WHO)
    c.write(rows(c, 1, 8, 2), np.ones((4, 4), np.float32), WHO)
    with fails("race", "writes ring.t while"):
        c.write(rows(c, 2, 3), np.ones((1, 4), np.float32), WHO)
    c.close(access)
    c.write(whole(c.shape), np.ones(c.shape, np.float32), WHO)


def test_operations_of_one_queue_follow_each_other() -> None:
    c, queue = cell(), object()
    first = c.open(whole(c.shape), True, WHO, "tcgen05", queue, reads=False)
    second = c.open(whole(c.shape), True, WHO, "tcgen05", queue, reads=True)  # accumulates what the first writes
    c.close(first, np.ones(c.shape, np.float32))
    c.close(second, c.data + 1)
    assert c.read(whole(c.shape), WHO).max() == 2
    third = c.open(whole(c.shape), True, WHO, "tcgen05", queue, reads=True)
    with fails("race", "reads ring.t while"):
        c.read(whole(c.shape), WHO)
    c.close(third, c.data)


def test_a_stage_that_is_handed_back_holds_nothing() -> None:
    c = cell()
    c.write(whole(c.shape), np.zeros(c.shape, np.float32), WHO)
    c.poison("has been handed back")
    with fails("unwritten", "it has been handed back"):
        c.read(rows(c, 0, 1), WHO)


def test_what_an_engine_still_reads_stays_until_it_is_written_over() -> None:
    c = cell()
    c.write(whole(c.shape), np.zeros(c.shape, np.float32), WHO)
    c.open(rows(c, 0, 1), False, WHO, "WGMMA", None, reads=True)
    c.poison("has been handed back")
    c.write(rows(c, 1, 8), np.ones((7, 4), np.float32), WHO)
    with fails("race", "writes ring.t while .* still reads"):
        c.open(rows(c, 0, 1), True, WHO, "TMA", None, reads=False)
    unfinished = cell()
    unfinished.open(whole(c.shape), True, WHO, "TMA", None, reads=False)
    with fails("race", "handed back while .* still writes"):
        unfinished.poison("has been handed back")


def test_a_write_takes_what_shares_its_bytes() -> None:
    a, b = cell(), Cell("tile.c", (32,), "f32", True)
    a.aliases.append(Alias(b, lambda mask: mask.reshape(-1)))
    b.write(whole(b.shape), np.zeros(32, np.float32), WHO)
    a.write(rows(a, 0, 1), np.zeros((1, 4), np.float32), WHO)
    with fails("unwritten", "has written ring.t over it"):
        b.read(Region(b.shape, (slice(0, 4, 1),)), WHO)
    reading = b.open(Region(b.shape, (slice(4, 8, 1),)), False, WHO, "a bulk store", None, reads=True)
    with fails("race", "shares bytes with tile.c"):
        a.write(rows(a, 1, 2), np.zeros((1, 4), np.float32), WHO)
    b.close(reading)


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ((slice(0, 4, 1), slice(0, 2, 1)), (slice(3, 8, 1), slice(1, 4, 1)), True),
        ((slice(0, 4, 1), slice(0, 2, 1)), (slice(3, 8, 1), slice(2, 4, 1)), False),
        ((slice(0, 8, 2), slice(0, 4, 1)), (slice(1, 8, 2), slice(0, 4, 1)), False),
        ((slice(0, 8, 2), slice(0, 4, 1)), (slice(2, 3, 1), slice(0, 1, 1)), True),
        ((np.array([0, 1]), np.array([0, 1])), (slice(0, 1, 1), slice(1, 2, 1)), False),  # an element for each lane
        ((np.array([0, 1]), np.array([0, 1])), (slice(1, 2, 1), slice(1, 2, 1)), True),
    ],
)
def test_overlap(one: tuple[object, ...], other: tuple[object, ...], overlap: bool) -> None:
    a, b = Region((8, 4), one), Region((8, 4), other)  # type: ignore[arg-type]
    assert a.overlaps(b) is overlap and b.overlaps(a) is overlap
