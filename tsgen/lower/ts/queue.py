"""The work queue in the TS form: TS's loop over tiles, over our order of them."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.program import Statement, assign
from tsgen.lower.queue import TileCoord, queue_of
from tsgen.lower.queue_steps import next_tile, response
from tsgen.lower.ts.program import HELD
from tsgen.lower.ts.rename import renamed, words
from tsgen.lower.ts.skips import left_out
from tsgen.lower.ts.walk import Walk
from tsgen.lower.ts.works import ResourceClass, tile_values

_TILE = "<tile>"


def queue_class(
    b: Builder, cls: ResourceClass, coord: TileCoord, names: Mapping[str, str], skipping: Walk | None
) -> Statement:
    """The queue's class. `names` says how methods read the kernel's names, `skipping` which task skips tiles."""
    count = "nth" if coord.serpentine else coord.var
    common: dict[str, object] = {
        "name": cls.name,
        "doc": cls.doc,
        "axes": ", ".join(coord.axes),
        "coordinates": ", ".join([*coord.axes, *["Int32(0)"] * (3 - len(coord.axes))]),  # TS has three
        "skip": None if left_out(b) else _skip(coord, names, skipping),
    }
    if coord.fetched:
        if left_out(b):
            refuse("tiles of a tile query that are skipped whole, in TS", b.kernel.resources[cls.owner].span)
        queue = queue_of(b)
        assert queue is not None
        tile = renamed(coord.call or coord.var, {n: t for n, t in names.items() if n != coord.var})
        values: dict[str, object] = {
            "number": coord.var,
            "coord": tile,
            "coord_held": f"{HELD}." in tile,
            "first": f"{HELD}.cluster",
            "response": f"{HELD}.{response(b, queue)}",
        }
        next_tile(b)
        return Statement("ts/queue_clc", common | values, cls.note)
    common["left_out"] = _left_out(coord, count, names, skipping) if left_out(b) else None
    step = "1" if coord.serpentine else "held.clusters"
    first, following = "Int32(0)" if coord.serpentine else "held.cluster", f"self.{count} + {step}"
    if left_out(b):
        first, following = f"self.from_here({first})", f"self.from_here({following})"
    values = {
        "count": count,
        "first": first,
        "first_held": not coord.serpentine,
        "following": following,
        "step": step,
        "step_held": not coord.serpentine,
        "end": "held.rounds" if coord.serpentine else "held.cluster_tiles",
        "coord": renamed(coord.call or count, {**names, count: f"self.{count}"}),
    }
    return Statement("ts/queue", common | values, cls.note)


def _left_out(coord: TileCoord, count: str, names: Mapping[str, str], skipping: Walk | None) -> tuple[Statement, ...]:
    """The lines that say whether the tile with a number is left out."""
    assert skipping is not None and skipping.skip_if is not None
    own = {n: t for n, t in names.items() if n != count}
    condition = skipping.s.py(skipping.skip_if.expr)
    tile = tile_values(skipping, words([condition]), coord, own, _TILE)
    rank = assign(", ".join(coord.axes), renamed(coord.call or count, own))
    left = Statement("ts/line", {"text": f"skipped = cutlass.Boolean({renamed(condition, own)})"})
    return (rank, *(x for x in tile if x.values.get("text") != _TILE), left)


def _skip(coord: TileCoord, names: Mapping[str, str], skipping: Walk | None) -> tuple[Statement, ...] | None:
    """The body of the method that says whether a tile is skipped."""
    if skipping is None or skipping.skip_if is None:
        return None
    text = skipping.s.py(skipping.skip_if.expr)
    tile = tile_values(skipping, words([text]), coord, names, "work_tile.tile_idx")
    return (*tile, Statement("ts/line", {"text": f"return cutlass.Boolean({renamed(text, names)})"}))
