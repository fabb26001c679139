"""A kernel as a module: constants, setup, tasks, launcher and host function, in the order they are printed."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath

from tsgen import __version__
from tsgen.derive.model import Derived
from tsgen.lower import budgets, chain, host
from tsgen.lower.context import DSL_TYPES, Builder, Used
from tsgen.lower.interface import DTypeChoice
from tsgen.lower.launch import lower_launch
from tsgen.lower.mentions import mentions
from tsgen.lower.names import Namer
from tsgen.lower.program import Constant, KernelArg, KernelCode, LayoutAtom, Module, Statement, TaskCode
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.queue import queue_of, tile_coord
from tsgen.lower.rings import creations
from tsgen.lower.setup import by_task, lower_setup, values_of
from tsgen.lower.simplify import simplified
from tsgen.lower.task import lower_task
from tsgen.model.chain import whole
from tsgen.model.expr import Name, names
from tsgen.model.expr import text as expression_text
from tsgen.model.kernel import Program
from tsgen.model.targets import TARGETS

# What runs on the GPU: the kernel's setup, and the code of its tasks where each has its own branch.
DeviceCode = Callable[[Builder, dict[str, str], dict[str, str]], tuple[list[Statement], list[TaskCode]]]


def lower(program: Program, derived: Sequence[Derived], device: DeviceCode | None = None) -> Module:
    """The module of a program: of its one kernel, or of a chain. Raises Unsupported where no code can be generated.

    `derived` has what follows from each kernel, in order; `device` writes the device side, in CuTe if left out.
    """
    chained = len(program.kernels) > 1
    source = PurePath(program.path).name
    builders, kernels = [], list[KernelCode]()
    for kernel, d in zip(program.kernels, derived, strict=True):
        b = Builder(simplified(kernel), d, source, Namer(_taken(kernels)), prefix=f"{kernel.name}_" if chained else "")
        kernels.append(_kernel_code(b, {c.name for k in kernels for c in k.tables}, device or _cute))
        builders.append(b)
    doc = whole(program).doc
    needs = {n for b in builders for n in b.needs if n.startswith("import:")}
    return Module(
        host=chain.chain_host(program, builders, kernels) if chained else kernels[0].host,
        variant=program.kernels[0].variant,
        version=__version__,
        source=source,
        sha256=program.sha256,
        doc=tuple(line for p in doc.strip().split("\n") for line in (textwrap.wrap(p, 119) or [""])),
        imports=tuple(sorted((n.split(":")[1], n.split(":")[2]) for n in needs)),
        kernels=chain.share_functions(kernels) if chained else tuple(kernels),
        launches=chain.launches(kernels) if chained else (),
    )


def _taken(kernels: Sequence[KernelCode]) -> set[str]:
    """The names that kernels have in their module."""
    out: set[str] = set()
    for k in kernels:
        out |= {k.name, f"{k.name}_kernel", f"{k.name}_launch", k.layouts_function}
        out |= {c.name for c in (*k.params, *k.derived)} | {str(f.values.get("name")) for f in k.functions}
    return out


def _kernel_code(b: Builder, tables: set[str], device: DeviceCode) -> KernelCode:
    """One kernel of a module. `tables` are the dtype choices that the module has already."""
    kernel = b.kernel
    choices = host.dtype_choices(kernel)
    params = _params(b)
    for name in (kernel.name, f"{kernel.name}_kernel", f"{kernel.name}_launch"):
        b.names.new(name)
    b.name_globals()
    setup, tasks = device(b, b.kernel_names(), _extents(b))
    args = _kernel_args(b, choices, setup, tasks)
    return KernelCode(
        name=kernel.name,
        params=params,
        params_note=b.note(kernel.spans["params"].line if "params" in kernel.spans else kernel.span.line, "params"),
        meta_params=tuple(
            (p.name, f'"{p.value}"' if isinstance(p.value, str) else repr(p.value)) for p in kernel.params.values()
        ),
        tables=tuple(c for c in choices if c.name not in tables),
        launch=lower_launch(b, queue_of(b)),
        derived=tuple(b.derived_constants.values()),
        layouts=tuple(b.fields.values()),
        layouts_function=b.function_name("smem_layouts"),
        atoms=_atoms(b),
        functions=tuple(_ordered(b)),
        args=tuple(args),
        call_args=tuple(_passed(b, a.name) for a in args),
        setup=tuple(setup),
        groups=budgets.grouped(b, tasks) if tasks else (),
        maps=tuple(b.maps.values()),
        mmas=tuple(b.mmas.values()),
        host=host.interface(b, host.nothing_to_do(b)),
    )


def _cute(b: Builder, base: dict[str, str], extents: dict[str, str]) -> tuple[list[Statement], list[TaskCode]]:
    queue = queue_of(b)
    coord = tile_coord(b, queue, extents) if queue is not None else None
    pipes = creations(b)
    tasks, used, seen = list[TaskCode](), Used(base), list[Used]()
    for task in b.kernel.tasks:
        code, names = lower_task(b, task, base, extents, coord)
        tasks.append(code)
        seen.append(names)
        used.seen.update(names.seen)
    if by_task(b, coord):
        for i, (code, names) in enumerate(zip(tasks, seen, strict=True)):
            tasks[i] = replace(code, body=(*values_of(b, names, extents, coord, [code.body]), *code.body))
    return lower_setup(b, pipes, [t.body for t in tasks], used, extents, coord, tasks), tasks


def _passed(b: Builder, arg: str) -> str:
    """What the launcher passes for a kernel argument."""
    for m in b.maps.values():
        if m.view == arg:
            return m.argument
    for tensor, name in b.generic.items():
        if name == arg:
            return tensor
    for let in host.scalar_lets(b).values():
        if b.globals[let.name] == arg:
            return py(let.value, Scope(b.kernel.env, b.kernel_names()))
    return arg


def _atoms(b: Builder) -> tuple[LayoutAtom, ...]:
    kinds = dict.fromkeys((f.swizzle, f.dtype) for f in b.fields.values() if f.swizzle)
    widths = [w for w, _ in kinds]
    names = {k: f"sw{k[0]}" if widths.count(k[0]) == 1 else f"sw{k[0]}_{i}" for i, k in enumerate(kinds)}
    return tuple(LayoutAtom(names[k], *k, TARGETS[b.kernel.target].layouts) for k in kinds)


def _params(b: Builder) -> tuple[Constant, ...]:
    """The params as module constants; those the caller decides become arguments."""
    out = []
    scope_names: dict[str, str] = {}
    for p in b.kernel.params.values():
        if p.decided_by_caller:
            b.names.new(p.name.upper())  # the table of its choices
            b.constants[p.name] = b.names.new(p.name)
            continue
        name = b.names.new(f"{b.prefix}{p.name}".upper())
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
    elementwise = ("erf", "relu", "gelu", "silu", "sigmoid", "gelu_tanh")
    first = (
        "serpentine",
        "tile_coord",
        "next_tile",
        "mma_operand",
        "mma",
        *elementwise,
        "fragments",
        "pack",
        "reductions",
        "vector",
    )
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
    for let in host.scalar_lets(b).values():
        if mentions(code, b.globals[let.name]):
            args.append(KernelArg(b.globals[let.name], "Float32", b.note(let.span.line, let.name)))
    if mentions(code, "sms"):
        args.append(KernelArg("sms", "Int32"))
    for m2 in b.mmas.values():
        args.append(KernelArg(m2.name, "cute.TiledMma"))
    for c in choices:
        if b.fields or mentions(code, c.name):
            args.append(KernelArg(c.name, "cutlass.Constexpr"))
    return args
