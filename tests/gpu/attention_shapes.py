"""Shapes for attention: edges of both tiles, one trip and many, groups of heads, rows that see no key."""

from __future__ import annotations

from itertools import product
from random import Random

Shape = dict[str, int]
HEADS = ((1, 1), (4, 2), (6, 2), (8, 1))  # of q, of k and v


def shape(b: int, sq: int, sk: int, hq: int, hk: int) -> Shape:
    return {"B": b, "Sq": sq, "Sk": sk, "Hq": hq, "Hk": hk}


def edges(tile_m: int, tile_n: int) -> list[Shape]:
    """Every combination of the edges of a tile of rows and of a block of keys, with 1:1 to 8:1 heads in turn."""
    rows = (1, 63, 64, 65, tile_m - 1, tile_m, tile_m + 1, 2 * tile_m + 5)
    keys = (1, 2, tile_n - 1, tile_n, tile_n + 1, 2 * tile_n, 3 * tile_n + 77)
    found = []
    for i, (sq, sk) in enumerate(product(rows, keys)):
        hq, hk = HEADS[i % len(HEADS)]
        found.append(shape(1 + i % 2, sq, sk, hq, hk))
    return sorted(found, key=lambda s: s["B"] * s["Sq"] * s["Sk"] * s["Hq"])


MANY = [  # more tiles than multiprocessors, in even and odd rounds
    shape(2, 2048, 2048, 8, 4),
    shape(4, 1111, 777, 12, 4),
    shape(4, 777, 1111, 12, 12),
    shape(3, 1000, 1000, 6, 2),
    shape(140, 60, 130, 2, 1),
]
FEW = [shape(1, 1, 1, 1, 1), shape(2, 200, 333, 4, 2), shape(1, 333, 200, 2, 1)]
PACKED = [  # of variable length: rows of all sequences, keys of all
    shape(1, 200, 333, 4, 2),
    shape(3, 100, 100, 2, 1),
    shape(5, 1000, 400, 3, 3),
    shape(5, 400, 1000, 4, 1),
    shape(17, 64, 17, 2, 2),
    shape(33, 3000, 5000, 2, 1),
    shape(64, 1000, 1000, 8, 2),
]


def some(source: Random, *, packed: bool) -> Shape:
    """Any small shape."""
    hq, hk = source.choice(HEADS)
    most = source.choice((1, 64, 300, 600))
    b = source.randint(1, 12) if packed else source.randint(1, 3)
    return shape(b, source.randint(1, most), source.randint(1, source.choice((1, 130, 600))), hq, hk)
