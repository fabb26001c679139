"""How a kernel is launched: grid, cluster, block."""

from __future__ import annotations

from tsgen.lower import host
from tsgen.lower.context import Builder, Used
from tsgen.lower.errors import refuse
from tsgen.lower.program import Launch
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.queue import cluster_size, cluster_text, clustered, tile_count
from tsgen.lower.signs import least
from tsgen.model.algebra import canonical
from tsgen.model.kernel import Resource


def lower_launch(b: Builder, queue: Resource | None) -> Launch:
    """Grid and block. A static queue deals the tiles to as many clusters as there is room for."""
    kernel = b.kernel
    threads = 32 * b.derived.block_warps
    used = Used(b.kernel_names())
    scope = Scope(kernel.env, used, least=least(kernel))
    extents = {a.name: py(a.extent, scope) for a in kernel.launch.axes}
    size = cluster_size(b)
    values: list[tuple[str, str]] = []
    if queue is not None and queue.queue is not None:
        parts = {n: f"({t})" if (" " in t and not t.startswith("cute.ceil_div")) else t for n, t in extents.items()}
        values.append(("cluster_tiles", tile_count(b, parts)))
        size_text = f"({size})" if " " in size else size
        clusters = "cluster_tiles"  # those that run take over the tiles of those that have not started
        if queue.queue.scheduler == "static_persistent":
            room = f"sms // {size_text}" if clustered(b) else "sms"
            clusters = "clusters"
            values.append((clusters, f"cutlass.min({room}, cluster_tiles)"))
        grid = (f"{clusters} * {size_text}" if clustered(b) else clusters, "1", "1")
        cluster = (size, "1", "1") if clustered(b) else None
    else:
        if len(kernel.launch.axes) > 3:
            refuse("more than three tile axes without a work queue", kernel.launch.span)
        sizes = []
        for a in kernel.launch.axes:
            n = extents[a.name]
            c = cluster_text(b, a)
            whole = canonical(a.extent, kernel.env).multiple_of(a.cluster)
            sizes.append(n if whole else f"cute.round_up({n}, {c})")
        grid = tuple([*sizes, "1", "1"][:3])  # type: ignore[assignment]
        cluster = tuple([*(cluster_text(b, a) for a in kernel.launch.axes), "1", "1"][:3]) if clustered(b) else None  # type: ignore[assignment]
    lets: list[tuple[str, str]] = []
    for let in reversed(kernel.launch.lets):
        if let.name in used.seen:
            lets.append((b.globals[let.name], py(let.value, scope)))
    wanted = {b.globals[n] for n in used.seen if n in b.globals}
    dims = [(d.name, d.text) for d in host.host_dims(b) if d.name in wanted]
    return Launch(
        grid=grid,
        cluster=cluster,
        threads=b.constant("THREADS", str(threads), _threads_comment(b)),
        min_blocks=kernel.launch.min_blocks,
        pdl=kernel.launch.pdl,
        values=(*dims, *lets[::-1], *values),
    )


def _threads_comment(b: Builder) -> str | None:
    padding = sum(len(p) for p in b.derived.padding.values())
    return f"{padding} padding warps fill up a warpgroup: setmaxnreg speaks to whole warpgroups" if padding else None
