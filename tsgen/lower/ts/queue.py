"""The work queue in the TS form: TS's loop over tiles, over our order of them."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.lower.program import Statement
from tsgen.lower.queue import TileCoord
from tsgen.lower.ts.rename import renamed, words
from tsgen.lower.ts.walk import Walk
from tsgen.lower.ts.works import ResourceClass, tile_values


def queue_class(cls: ResourceClass, coord: TileCoord, names: Mapping[str, str], skipping: Walk | None) -> Statement:
    """The queue's class. `names` says how methods read the kernel's names, `skipping` which task skips tiles."""
    rank = len(coord.axes)
    count = "nth" if coord.serpentine else coord.var
    values: dict[str, object] = {
        "name": cls.name,
        "doc": cls.doc,
        "axes": ", ".join(coord.axes),
        "count": count,
        "first": "Int32(0)" if coord.serpentine else "held.cluster",
        "step": "1" if coord.serpentine else "held.clusters",
        "end": "held.rounds" if coord.serpentine else "held.cluster_tiles",
        "coord": renamed(coord.call or count, {**names, count: f"self.{count}"}),
        "rank": rank,
        "skip": None,
    }
    if skipping is not None and skipping.skip_if is not None:
        text = skipping.s.py(skipping.skip_if.expr)
        tile = tile_values(skipping, words([text]), coord, names, "work_tile.tile_idx")
        values["skip"] = (*tile, Statement("ts/line", {"text": f"return cutlass.Boolean({renamed(text, names)})"}))
    return Statement("ts/queue", values, cls.note)
