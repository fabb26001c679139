"""The work queue in the TS form: TS's loop over tiles, over our order of them."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.lower.context import Builder
from tsgen.lower.program import Statement
from tsgen.lower.queue import TileCoord, queue_of
from tsgen.lower.queue_steps import next_tile, response
from tsgen.lower.ts.program import HELD
from tsgen.lower.ts.rename import renamed, words
from tsgen.lower.ts.walk import Walk
from tsgen.lower.ts.works import ResourceClass, tile_values


def queue_class(
    b: Builder, cls: ResourceClass, coord: TileCoord, names: Mapping[str, str], skipping: Walk | None
) -> Statement:
    """The queue's class. `names` says how methods read the kernel's names, `skipping` which task skips tiles."""
    rank = len(coord.axes)
    count = "nth" if coord.serpentine else coord.var
    common: dict[str, object] = {
        "name": cls.name,
        "doc": cls.doc,
        "axes": ", ".join(coord.axes),
        "rank": rank,
        "skip": _skip(coord, names, skipping),
    }
    if coord.fetched:
        queue = queue_of(b)
        assert queue is not None
        values = {
            "number": coord.var,
            "coord": renamed(coord.call or coord.var, {n: t for n, t in names.items() if n != coord.var}),
            "first": f"{HELD}.cluster",
            "response": f"{HELD}.{response(b, queue)}",
        }
        next_tile(b)
        return Statement("ts/queue_clc", common | values, cls.note)
    values = {
        "count": count,
        "first": "Int32(0)" if coord.serpentine else "held.cluster",
        "step": "1" if coord.serpentine else "held.clusters",
        "end": "held.rounds" if coord.serpentine else "held.cluster_tiles",
        "coord": renamed(coord.call or count, {**names, count: f"self.{count}"}),
    }
    return Statement("ts/queue", common | values, cls.note)


def _skip(coord: TileCoord, names: Mapping[str, str], skipping: Walk | None) -> tuple[Statement, ...] | None:
    """The body of the method that says whether a tile is skipped."""
    if skipping is None or skipping.skip_if is None:
        return None
    text = skipping.s.py(skipping.skip_if.expr)
    tile = tile_values(skipping, words([text]), coord, names, "work_tile.tile_idx")
    return (*tile, Statement("ts/line", {"text": f"return cutlass.Boolean({renamed(text, names)})"}))
