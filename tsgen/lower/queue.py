"""Tiles: coordinates from blockIdx, or the static persistent queue as a loop and a function of the tile's number."""

from __future__ import annotations

from tsgen.frozen import frozen
from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.program import Statement, assign
from tsgen.lower.pyexpr import Scope, py
from tsgen.model.expr import Const
from tsgen.model.kernel import Axis, RasterAxis, Resource


def cluster_text(b: Builder, a: Axis) -> str:
    """CTAs of a cluster along an axis, as Python."""
    return (
        str(a.cluster)
        if a.cluster_expr == Const(a.cluster) or a.cluster == 1
        else py(a.cluster_expr, Scope(b.kernel.env, b.constants))
    )


def cluster_size(b: Builder) -> str:
    """CTAs of a cluster, as Python."""
    return " * ".join(cluster_text(b, a) for a in b.kernel.launch.axes if a.cluster > 1) or "1"


def clustered(b: Builder) -> bool:
    return any(a.cluster > 1 for a in b.kernel.launch.axes)


def queue_of(b: Builder) -> Resource | None:
    return next((r for r in b.kernel.resources.values() if r.kind == "work_queue"), None)


@frozen
class TileCoord:
    """How a tile's number becomes coordinates: the call of the module's function."""

    call: str | None  # None: the number is the coordinate
    var: str  # the loop's variable
    axes: tuple[str, ...]
    serpentine: bool  # tiles are counted round by round of the grid, every other one backwards
    fetched: bool = False  # the hardware hands out the tiles, one after another

    def loop(self, first: str, stride: str) -> str:
        """The head of the loop over every so many-th of this CTA's tiles."""
        if self.serpentine:
            bounds = "rounds" if (first, stride) == ("0", "1") else f"{first}, rounds, {stride}"
            return f"nth in cutlass.range({bounds}, unroll=1)"
        start = "cluster" if first == "0" else f"cluster + {first} * clusters"
        step = "clusters" if stride == "1" else f"{stride} * clusters"
        return f"{self.var} in cutlass.range({start}, cluster_tiles, {step}, unroll=1)"


def tile_var(b: Builder) -> str:
    """The variable with a tile's number: the coordinate itself, where the tile space has one axis in its order."""
    queue = queue_of(b)
    assert queue is not None and queue.queue is not None
    q = queue.queue
    if len(b.kernel.launch.axes) == 1 and not (clustered(b) or q.serpentine or q.raster[0].reverse):
        return b.globals[q.raster[0].axis]
    return "tile"


def tile_coord(b: Builder, queue: Resource, extents: dict[str, str]) -> TileCoord:
    """Makes the module's function for a queue. `extents` are the kernel's names for the numbers of tiles."""
    q = queue.queue
    assert q is not None
    fetched = q.scheduler == "clc_dynamic"
    if fetched and q.serpentine:
        refuse("`serpentine` with tiles that the hardware hands out", queue.spans.get("serpentine", queue.span))
    axes = {a.name: a for a in b.kernel.launch.axes}
    if tile_var(b) != "tile":
        return TileCoord(None, tile_var(b), tuple(axes), False, fetched)
    order = [(r, axes[r.axis]) for r in q.raster]
    lines: list[str] = []
    counts: list[str] = []
    for _, a in order:
        count = f"{a.name}_tiles"
        if a.cluster > 1:
            lines.append(f"{a.name}_clusters = cute.ceil_div({count}, {cluster_text(b, a)})")
            count = f"{a.name}_clusters"
        counts.append(count)
    banded = q.swizzle > 1 and len(order) > 1
    swizzle = py(q.swizzle_expr, Scope(b.kernel.env, b.constants))
    lines += _banded(order, counts, swizzle) if banded else _plain(order, counts)
    names = [a.name for a in b.kernel.launch.axes]
    ranks = _ranks(b)
    results = [
        f"{a.name} * {cluster_text(b, a)} + {ranks[a.name]}" if a.cluster > 1 else a.name for a in b.kernel.launch.axes
    ]
    params = [f"{a.name}_tiles: Int32" for a in b.kernel.launch.axes if any(f"{a.name}_tiles" in x for x in lines)]
    passed = [extents[a.name] for a in b.kernel.launch.axes if any(f"{a.name}_tiles" in x for x in lines)]
    if clustered(b):
        params.append("cta_rank: Int32")
        passed.append("cta_rank")
    order_text = ", then ".join(("-" if r.reverse else "") + r.axis for r in q.raster)
    doc = f"{', '.join(names)} of the tile with this number: fastest {order_text}."
    if banded:
        bands = f"bands of {swizzle} along {q.raster[1].axis}, fastest in a band; then {q.raster[0].axis}"
        doc = f"{', '.join(names)} of the tile with this number: {bands}."
    values = {"params": ["tile: Int32", *params], "lines": lines, "results": results, "doc": doc, "names": names}
    function = b.function_name("tile_coord")
    values["function"] = function
    b.functions["tile_coord"] = Statement("functions/tile_coord", values, b.note(queue.span.line, queue.name))
    number = "tile"
    if q.serpentine:
        b.functions["serpentine"] = Statement("functions/serpentine")
        number = "serpentine_tile(nth, cluster, clusters)"
    return TileCoord(
        f"{function}({number}{''.join(', ' + p for p in passed)})", "tile", tuple(names), q.serpentine, fetched
    )


def _plain(order: list[tuple[RasterAxis, Axis]], counts: list[str]) -> list[str]:
    lines = []
    for i, ((r, a), count) in enumerate(zip(order, counts, strict=True)):
        last = i == len(order) - 1
        lines.append(f"{a.name} = {_from_end(r, count)}tile" + ("" if last else f" % {count}"))
        if not last:
            lines.append(f"tile = tile // {count}")
    return lines


def _from_end(r: RasterAxis, count: str) -> str:
    return f"{count} - 1 - " if r.reverse else ""


def _banded(order: list[tuple[RasterAxis, Axis]], counts: list[str], swizzle: str) -> list[str]:
    first, second = order[0][1].name, order[1][1].name
    lines = []
    if len(order) > 2:
        lines += [f"plane = {counts[0]} * {counts[1]}", "rest = tile // plane", "tile = tile % plane"]
        for i, (_, a) in enumerate(order[2:], 2):
            last = i == len(order) - 1
            lines.append(f"{a.name} = rest" if last else f"{a.name} = rest % {counts[i]}")
            if not last:
                lines.append(f"rest = rest // {counts[i]}")
    lines += [
        f"band = tile // ({counts[0]} * {swizzle})",
        f"tile = tile % ({counts[0]} * {swizzle})",
        f"width = cutlass.min({counts[1]} - band * {swizzle}, {swizzle})",
        f"{first} = tile // width",
        f"{second} = band * {swizzle} + tile % width",
    ]
    back = [(r, c) for r, c in zip((r for r, _ in order), counts, strict=True) if r.reverse]
    return lines + [f"{r.axis} = {count} - 1 - {r.axis}" for r, count in back]


def _ranks(b: Builder) -> dict[str, str]:
    """This CTA's rank in its cluster along each clustered axis, first axis fastest."""
    shared = [a for a in b.kernel.launch.axes if a.cluster > 1]
    out: dict[str, str] = {}
    stride = ""
    for i, a in enumerate(shared):
        text = "cta_rank" if not stride else f"cta_rank // ({stride})" if " " in stride else f"cta_rank // {stride}"
        if i < len(shared) - 1:
            text = f"{text} % {cluster_text(b, a)}"
        out[a.name] = text
        stride = f"{stride} * {cluster_text(b, a)}" if stride else cluster_text(b, a)
    return out


def cluster_ranks(b: Builder) -> dict[str, str]:
    """Text of the CTA's rank along each clustered axis."""
    return _ranks(b)


def tile_numbers(b: Builder, coord: TileCoord, extents: dict[str, str]) -> list[Statement]:
    """Which tiles a CTA takes of a queue: the number of its cluster, and those of all clusters and tiles."""
    size = cluster_size(b)
    per = f" // {f'({size})' if ' ' in size else size}" if clustered(b) else ""
    cluster = assign("cluster", f"cute.arch.block_idx()[0]{per}")
    if coord.fetched:
        return [cluster]
    out = [
        assign("cluster_tiles", tile_count(b, extents)),
        cluster,
        assign("clusters", f"cute.arch.grid_dim()[0]{per}"),
    ]
    if coord.serpentine:
        out.append(assign("rounds", "serpentine_rounds(cluster_tiles, cluster, clusters)"))
    return out


def tile_count(b: Builder, extents: dict[str, str]) -> str:
    """Number of cluster tiles of the queue, as Python."""
    parts = []
    for a in b.kernel.launch.axes:
        n = extents[a.name]
        parts.append(f"cute.ceil_div({n}, {cluster_text(b, a)})" if a.cluster > 1 else n)
    return " * ".join(parts)
