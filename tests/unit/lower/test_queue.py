"""The order of tiles: the generated function is run with plain integers."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.lower.build import function, module

CUTE = SimpleNamespace(ceil_div=lambda a, b: -(-a // b))
CUTLASS = SimpleNamespace(min=min, max=max)


def coordinates(text: str, tiles: dict[str, int], cluster: int = 1) -> list[tuple[int, ...]]:
    """What tile_coord gives for every tile number and every CTA of the cluster, in order."""
    constants = {
        n: int(v) for n, v in (x.split(" = ") for x in text.split("\n") if x.startswith(("CLUSTER_M", "SWIZZLE")))
    }
    scope: dict[str, Any] = {"cute": CUTE, "cutlass": CUTLASS, "Int32": int, **constants}
    exec(function(text, "tile_coord"), scope)
    f = scope["tile_coord"]
    count = -(-tiles["m"] // cluster) * tiles["n"] * tiles["l"]
    named = {f"{a}_tiles": n for a, n in tiles.items()}
    arguments = f.__code__.co_varnames[1 : f.__code__.co_argcount]
    out = []
    for tile, rank in product(range(count), range(cluster)):
        out.append(f(tile, *(rank if a == "cta_rank" else named[a] for a in arguments)))
    return out


@pytest.mark.parametrize("swizzle", ["1", "2", "8"])
@pytest.mark.parametrize("cluster", ["1", "2"])
@pytest.mark.parametrize("tiles", [{"m": 5, "n": 11, "l": 3}, {"m": 1, "n": 1, "l": 1}, {"m": 4, "n": 8, "l": 1}])
def test_every_tile_once(tmp_path: Path, swizzle: str, cluster: str, tiles: dict[str, int]) -> None:
    """Rounded up to clusters, each coordinate occurs exactly once, whatever bands and clusters are."""
    text = module(tmp_path, "specs/gemm.yaml", swizzle=swizzle, cluster_m=cluster)
    c = int(cluster)
    rows = -(-tiles["m"] // c) * c
    want = sorted(product(range(rows), range(tiles["n"]), range(tiles["l"])))
    assert sorted(coordinates(text, tiles, c)) == want


def test_bands(tmp_path: Path) -> None:
    """With swizzle, n is fastest within a band, then m; the last band is narrower."""
    text = module(tmp_path, "specs/gemm.yaml", swizzle="2", cluster_m="1")
    got = coordinates(text, {"m": 2, "n": 3, "l": 1})
    assert [(m, n) for m, n, _ in got] == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]


def test_raster_without_bands(tmp_path: Path) -> None:
    """Without swizzle the first axis of `raster` is fastest."""
    text = module(tmp_path, "specs/gemm.yaml", ("raster: [m, n, l]", "raster: [n, m, l]"), swizzle="1", cluster_m="1")
    got = coordinates(text, {"m": 2, "n": 3, "l": 2})
    assert got[:4] == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 0)]
    assert got[6] == (0, 0, 1)


def test_reversed_axis(tmp_path: Path) -> None:
    """`-m` runs backwards."""
    text = module(
        tmp_path,
        "specs/gemm.yaml",
        ("raster: [m, n, l]", 'raster: "[n, l, -m] if True else [m, n, l]"'),
        swizzle="1",
        cluster_m="1",
    )
    got = coordinates(text, {"m": 3, "n": 2, "l": 1})
    assert [m for m, _, _ in got] == [2, 2, 1, 1, 0, 0]


@pytest.mark.parametrize(("tiles", "clusters"), [(1, 1), (5, 5), (7, 3), (12, 4), (13, 4), (15, 4), (2, 1)])
def test_serpentine(tmp_path: Path, tiles: int, clusters: int) -> None:
    """Every other round of the grid runs backwards, and every tile has exactly one owner, in the last round, too."""
    edit = ("scheduler: static_persistent,", "scheduler: static_persistent, serpentine: true,")
    text = module(tmp_path, "specs/gemm.yaml", edit, swizzle="1")
    assert "for nth in cutlass.range(rounds, unroll=1):" in text
    scope: dict[str, Any] = {"Int32": int}
    exec(function(text, "serpentine_rounds") + "\n" + function(text, "serpentine_tile"), scope)
    owned = {
        cluster: [
            scope["serpentine_tile"](nth, cluster, clusters)
            for nth in range(scope["serpentine_rounds"](tiles, cluster, clusters))
        ]
        for cluster in range(clusters)
    }
    assert sorted(x for own in owned.values() for x in own) == list(range(tiles))
    if tiles >= 2 * clusters:
        assert owned[0][:2] == [0, 2 * clusters - 1]
