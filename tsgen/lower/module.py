"""A kernel as a module: constants, setup, tasks, launcher and host function, in the order they are printed."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import PurePath

from tsgen import __version__
from tsgen.derive.model import Derived
from tsgen.lower import host
from tsgen.lower.context import DSL_TYPES, Builder, Used
from tsgen.lower.errors import refuse
from tsgen.lower.mentions import mentions
from tsgen.lower.program import Constant, DTypeChoice, KernelArg, Launch, LayoutAtom, Module, Statement, TaskCode
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.queue import cluster_size, cluster_text, clustered, queue_of, tile_coord, tile_count
from tsgen.lower.rings import creations
from tsgen.lower.setup import lower_setup
from tsgen.lower.simplify import simplified
from tsgen.lower.task import lower_task
from tsgen.model.expr import Name, names
from tsgen.model.expr import text as expression_text
from tsgen.model.kernel import Kernel, Program

TARGETS = ("sm_90a",)


def lower(kernel: Kernel, derived: Derived, program: Program) -> Module:
    """The module of one kernel. Raises Unsupported where no code can be generated."""
    if kernel.target not in TARGETS:
        refuse(f"target {kernel.target}", kernel.spans.get("target", kernel.span))
    kernel = simplified(kernel)
    b = Builder(kernel, derived, PurePath(program.path).name)
    choices = host.dtype_choices(kernel)
    params = _params(b)
    for name in (kernel.name, f"{kernel.name}_kernel", f"{kernel.name}_launch"):
        b.names.new(name)
    b.name_globals()
    extents = _extents(b)
    queue = queue_of(b)
    coord = tile_coord(b, queue, extents) if queue is not None else None
    base = b.kernel_names()
    pipes = creations(b)
    tasks, used = [], Used(base)
    for task in kernel.tasks:
        code, seen = lower_task(b, task, base, extents, coord)
        tasks.append(code)
        used.seen.update(seen.seen)
    setup = lower_setup(b, pipes, [t.body for t in tasks], used, extents, coord, tasks)
    args = _kernel_args(b, choices, setup, tasks)
    launch = _launch(b, queue is not None)
    tensors = host.host_tensors(b)
    return Module(
        kernel=kernel.name,
        target=kernel.target,
        variant=kernel.variant,
        version=__version__,
        source=b.source,
        sha256=program.sha256,
        doc=tuple(line for p in kernel.doc.strip().split("\n") for line in (textwrap.wrap(p, 119) or [""])),
        needs=frozenset(b.needs),
        imports=tuple(sorted((n.split(":")[1], n.split(":")[2]) for n in b.needs if n.startswith("import:"))),
        meta_params=tuple(
            (p.name, f'"{p.value}"' if isinstance(p.value, str) else repr(p.value)) for p in kernel.params.values()
        ),
        params=params,
        params_note=b.note(kernel.spans["params"].line if "params" in kernel.spans else kernel.span.line, "params"),
        dtype_choices=choices,
        derived=tuple(b.derived_constants.values()),
        layouts=tuple(b.fields.values()),
        atoms=_atoms(b),
        functions=tuple(_ordered(b)),
        args=tuple(args),
        call_args=tuple(_passed(b, a.name) for a in args),
        setup=tuple(setup),
        tasks=tuple(tasks),
        maps=tuple(b.maps.values()),
        mmas=tuple(b.mmas.values()),
        launch=launch,
        tensors=tensors,
        dims=host.host_dims(b),
        optional_dims=kernel.launch.optional,
        checks=host.checks(b),
        empty=host.nothing_to_do(b),
        summary=kernel.doc.strip().split("\n")[0],
        capability=(9, 0),
    )


def _passed(b: Builder, arg: str) -> str:
    """What the launcher passes for a kernel argument."""
    for m in b.maps.values():
        if m.view == arg:
            return m.argument
    for tensor, name in b.generic.items():
        if name == arg:
            return tensor
    return arg


def _atoms(b: Builder) -> tuple[LayoutAtom, ...]:
    kinds = dict.fromkeys((f.swizzle, f.dtype) for f in b.fields.values() if f.swizzle)
    widths = [w for w, _ in kinds]
    names = {k: f"sw{k[0]}" if widths.count(k[0]) == 1 else f"sw{k[0]}_{i}" for i, k in enumerate(kinds)}
    return tuple(LayoutAtom(names[k], *k) for k in kinds)


def _params(b: Builder) -> tuple[Constant, ...]:
    """The params as module constants; those the caller decides become arguments."""
    out = []
    scope_names: dict[str, str] = {}
    for p in b.kernel.params.values():
        if p.decided_by_caller:
            b.names.new(p.name.upper())
            b.constants[p.name] = b.names.new(p.name)
            continue
        name = b.names.new(p.name.upper())
        b.constants[p.name] = name
        out.append((p, name))
    constants = []
    for p, name in out:
        known = {k: v for k, v in b.constants.items() if k in scope_names}
        if p.written is not None and names(p.written) and names(p.written) <= set(known):
            text = py(p.written, Scope(b.kernel.env, known))
        elif isinstance(p.value, str) and p.value in DSL_TYPES:
            text = DSL_TYPES[p.value]
        else:
            text = f'"{p.value}"' if isinstance(p.value, str) else repr(p.value)
        scope_names[p.name] = name
        constants.append(Constant(name, text, p.doc))
    return tuple(constants)


def _extents(b: Builder) -> dict[str, str]:
    """The kernel's names for the number of tiles along each axis: the dim or `let` value itself where it is one."""
    return {
        a.name: b.globals[a.extent.id]
        if isinstance(a.extent, Name) and a.extent.id not in b.constants
        else b.names.new(f"{a.name}_tiles")
        for a in b.kernel.launch.axes
    }


def _ordered(b: Builder) -> list[Statement]:
    """Functions before those that call them."""
    first = ("serpentine", "tile_coord", "mma", "erf", "relu", "gelu", "silu", "sigmoid", "gelu_tanh", "fragments")
    known = [b.functions[k] for k in first if k in b.functions]
    return known + [v for k, v in b.functions.items() if k not in first]


def _kernel_args(
    b: Builder, choices: tuple[DTypeChoice, ...], setup: list[Statement], tasks: Sequence[TaskCode]
) -> list[KernelArg]:
    args: list[KernelArg] = []
    seen: set[str] = set()
    for m in b.maps.values():
        args.append(KernelArg(m.name, "cute.CopyAtom"))
        if m.view not in seen:
            seen.add(m.view)
            shape = ", ".join(expression_text(b.kernel.tensors[m.tensor].shape[i]) for i in m.modes)
            args.append(KernelArg(m.view, "cute.Tensor", f"({shape})"))
    for tensor, name in b.generic.items():
        shape = ", ".join(expression_text(e) for e in b.kernel.tensors[tensor].shape)
        args.append(KernelArg(name, "cute.Tensor", f"({shape})"))
    code = [setup, [t.body for t in tasks]]
    for t in b.kernel.tensors.values():
        if t.present and not t.shape and mentions(code, t.name):
            args.append(KernelArg(t.name, DSL_TYPES[b.dtype_word(t.dtype)]))
    if mentions(code, "sms"):
        args.append(KernelArg("sms", "Int32"))
    for m2 in b.mmas.values():
        args.append(KernelArg(m2.name, "cute.TiledMma"))
    for c in choices:
        if b.fields or mentions(code, c.name):
            args.append(KernelArg(c.name, "cutlass.Constexpr"))
    return args


def _launch(b: Builder, persistent: bool) -> Launch:
    kernel = b.kernel
    threads = 32 * b.derived.block_warps
    used = Used(b.kernel_names())
    scope = Scope(kernel.env, used)
    extents = {a.name: py(a.extent, scope) for a in kernel.launch.axes}
    size = cluster_size(b)
    values: list[tuple[str, str]] = []
    if persistent:
        parts = {n: f"({t})" if (" " in t and not t.startswith("cute.ceil_div")) else t for n, t in extents.items()}
        values.append(("cluster_tiles", tile_count(b, parts)))
        size_text = f"({size})" if " " in size else size
        values.append(
            (
                "clusters",
                f"cutlass.min(sms // {size_text}, cluster_tiles)"
                if clustered(b)
                else "cutlass.min(sms, cluster_tiles)",
            )
        )
        grid = (f"clusters * {size_text}" if clustered(b) else "clusters", "1", "1")
        cluster = (size, "1", "1") if clustered(b) else None
    else:
        if len(kernel.launch.axes) > 3:
            refuse("more than three tile axes without a work queue", kernel.launch.span)
        sizes = []
        for a in kernel.launch.axes:
            n = extents[a.name]
            c = cluster_text(b, a)
            sizes.append(f"cute.round_up({n}, {c})" if a.cluster > 1 else n)
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
