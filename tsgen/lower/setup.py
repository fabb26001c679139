"""What every thread does before the tasks, and what the kernel is passed."""

from __future__ import annotations

from collections.abc import Sequence

from tsgen.lower import host, tmem
from tsgen.lower.context import Builder, Used
from tsgen.lower.errors import refuse
from tsgen.lower.mentions import mentions
from tsgen.lower.program import Statement, TaskCode, assign
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.queue import TileCoord, cluster_ranks, cluster_text, clustered, queue_of, tile_numbers
from tsgen.lower.queue_steps import response
from tsgen.lower.signs import least
from tsgen.lower.smem import aliased, pool_bytes
from tsgen.lower.tmem_works import cta_group
from tsgen.model.expr import Expr, Name


def lower_setup(
    b: Builder,
    pipes: list[Statement],
    bodies: list[tuple[Statement, ...]],
    used: Used,
    extents: dict[str, str],
    coord: TileCoord | None,
    tasks: Sequence[TaskCode],
) -> list[Statement]:
    """What every thread does before the tasks: indices, sizes, shared memory, pipelines, windows, synchronisation."""
    conditions = [f"{t.outer} {t.inner}" for t in tasks]
    windows = list(b.windows.values())
    here = Used({}) if by_task(b, coord) else used
    values = values_of(b, here, extents, coord, [windows, pipes] if by_task(b, coord) else [bodies, windows, pipes])
    out: list[Statement] = []
    after = [*bodies, *windows, *values, conditions]
    pair = tmem.used(b) and cta_group(b.kernel) == 2
    grouped = any(p.template == "setup/group" for p in pipes)
    if mentions(after, "tid"):
        out.append(assign("tid", "cute.arch.thread_idx()[0]"))
    if b.maps or grouped or pair or mentions(after, "warp_idx"):
        out.append(assign("warp_idx", "cute.arch.make_warp_uniform(cute.arch.warp_idx())"))
    if b.maps:
        out.append(Statement("setup/prefetch", {"maps": [m.name for m in b.maps.values()]}))
    out += values
    if b.fields or pipes:
        arrays: list[tuple[object, str, object, int, str | None]] = [
            (p.values["barriers"], "Int64", p.values["count"], 8, None) for p in pipes
        ]
        queue = queue_of(b)
        if queue is not None and queue.pipeline is not None:
            stages = py(queue.pipeline.stages, Scope(b.kernel.env, b.constants))
            arrays.insert(0, (response(b, queue), "Int128", stages, 16, None))
        if tmem.used(b):
            if pair:
                arrays.append(("tmem_free", "Int64", "1", 8, "the other CTA of the pair is done with tensor memory"))
            arrays.append(("tmem_slot", "Int32", "1", 4, "the address of tensor memory"))
        note = b.note(
            b.kernel.spans["resources"].line if "resources" in b.kernel.spans else b.kernel.span.line, "resources"
        )
        dtypes = {f.dtype for f in b.fields.values() if f.swizzle}
        passed = [p.name for p in b.kernel.params.values() if p.decided_by_caller and b.constants[p.name] in dtypes]
        values_ = {
            "fields": list(b.fields.values()),
            "placed": sorted(b.fields.values(), key=lambda f: -f.align),  # no padding between them, as derived
            "arrays": arrays,
            "layouts": f"{b.function_name('smem_layouts')}({', '.join(passed)})",
            "pool": pool_bytes(b) if b.fields and aliased(b) else None,
        }
        out.append(Statement("setup/smem", values_, note))
    out += pipes
    if pair:
        out.append(Statement("setup/tmem_free"))
    shape = f"({', '.join(_cluster_shape(b))})" if clustered(b) else None
    if pipes:
        out.append(Statement("setup/init_arrive", {"cluster": shape}))
    out += windows
    if pipes:
        out.append(Statement("setup/init_wait", {"cluster": shape}))
    return out


def _cluster_shape(b: Builder) -> list[str]:
    sizes = [cluster_text(b, a) for a in b.kernel.launch.axes if a.cluster > 1]
    return [*sizes, "1"][:2] if len(sizes) < 3 else [" * ".join(sizes), "1"]


def by_task(b: Builder, coord: TileCoord | None) -> bool:
    """Whether each task computes the sizes that it uses: what lives across setmaxnreg in several may be spilled."""
    return coord is not None and tmem.used(b)


def values_of(
    b: Builder, used: Used, extents: dict[str, str], coord: TileCoord | None, code: list[object]
) -> list[Statement]:
    """Sizes and coordinates that the kernel's code uses, each after what it is computed from."""
    kernel = b.kernel
    scope_names = Used(b.kernel_names())
    scope_names.seen.update(used.seen)
    scope = Scope(kernel.env, scope_names, extents, least=least(kernel))
    lets = []
    passed = host.scalar_lets(b)
    for let in reversed(kernel.launch.lets):
        if let.time in ("compile", "launch") and let.name in scope_names.seen and let.name not in passed:
            lets.append(assign(b.globals[let.name], py(let.value, scope), b.note(let.span.line, let.name)))
    lets.reverse()
    tail: list[Statement] = []
    if coord is not None:
        if not by_task(b, coord) or mentions(code, "cluster"):
            tail += tile_numbers(b, coord, extents)
    else:
        for i, a in enumerate(kernel.launch.axes):
            if a.name in scope_names.seen:
                tail.append(assign(b.globals[a.name], f"cute.arch.block_idx()[{i}]"))
    if clustered(b):
        used_ranks = {f"cta_{axis}": text for axis, text in cluster_ranks(b).items()}
        ranks = [assign(name, text) for name, text in used_ranks.items() if mentions(code, name)]
        if mentions([code, ranks], "cta_rank"):
            tail.append(assign("cta_rank", "cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())"))
        tail += ranks
    sizes = []
    for i, a in enumerate(kernel.launch.axes):
        if isinstance(a.extent, Name) and b.globals.get(a.extent.id) == extents[a.name]:
            if mentions([code, tail], extents[a.name]):
                scope_names.seen[a.extent.id] = None
        elif mentions([code, tail, lets], extents[a.name]):
            if coord is None and a.cluster == 1 and len(kernel.launch.axes) <= 3:
                sizes.append(assign(extents[a.name], f"cute.arch.grid_dim()[{i}]"))
            else:
                sizes.append(assign(extents[a.name], py(a.extent, scope)))
    return [*_dims(b, scope_names), *sizes, *lets, *tail]


def _dims(b: Builder, used: Used) -> list[Statement]:
    """Dims out of the shapes of the tensors that the kernel has, a tensor at a time where that reads well."""
    missing = [d for d in b.kernel.dims if d in used.seen]
    out: list[Statement] = []
    have: list[tuple[str, list[Expr]]] = []
    divided: dict[str, int] = {}
    for v, name in b.views.items():
        have.append((name, [b.kernel.tensors[v.tensor].shape[m] for m in v.modes]))
        if v.divided is not None:
            divided[name] = v.divided[0]
    for tensor, name in b.generic.items():
        have.append((name, list(b.kernel.tensors[tensor].shape)))
    for name, shape in have:
        plain = [e.id for e in shape if isinstance(e, Name) and e.id in b.kernel.dims]
        new = [d for d in plain if d in missing]
        whole = len(plain) == len(shape) and name not in divided
        if whole and len(set(plain)) == len(plain) and len(new) == len(plain) > 1:
            out.append(assign(", ".join(b.globals[d] for d in plain), f"{name}.shape"))
            missing = [d for d in missing if d not in plain]
            continue
        for i, e in enumerate(shape):
            for d in list(missing):
                size = f"cute.size({name}, mode=[{i}])" if divided.get(name) == i else f"{name}.shape[{i}]"
                solved = host.solve(b.kernel, e, d, size)
                if solved is not None:
                    out.append(assign(b.globals[d], solved))
                    missing.remove(d)
    if missing:
        refuse(f"dim `{missing[0]}`, which no tensor that the kernel uses gives", b.kernel.span)
    return out
