"""The register budget: what each warpgroup has at launch and after `setmaxnreg`, against the register file."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tsgen.derive.model import Derived
from tsgen.derive.storage import bits
from tsgen.model.kernel import Kernel, Task
from tsgen.model.ops import accesses
from tsgen.model.steps import calls
from tsgen.show.memory import table_lines

WARPGROUP = 4
REGISTER_FILE = 65536  # registers of a multiprocessor


@dataclass(frozen=True, slots=True)
class WarpgroupBudget:
    """Four warps that change their registers together. `registers` is per thread; padding warps have no task."""

    first_warp: int
    warps: int
    tasks: tuple[str, ...]
    padding: tuple[int, ...]
    registers: int
    written: bool  # by setmaxnreg; else as launched
    total: int


@dataclass(frozen=True, slots=True)
class FieldRegisters:
    """Registers that one field of a task takes in each thread, spread evenly over the task's threads."""

    task: str
    field: str
    registers: int


@dataclass(frozen=True, slots=True)
class RegisterBudget:
    kernel: str
    target: str
    variant: str | None
    block_threads: int
    min_blocks: int
    launch_registers: int
    warpgroups: tuple[WarpgroupBudget, ...]
    total: int
    capacity: int  # of one block: the register file by the blocks that share it
    fields: tuple[FieldRegisters, ...]


def register_budget(kernel: Kernel, derived: Derived) -> RegisterBudget:
    """The budget of a kernel's block."""
    groups = tuple(
        _warpgroup(kernel, derived, first, min(WARPGROUP, derived.block_warps - first))
        for first in range(0, derived.block_warps, WARPGROUP)
    )
    return RegisterBudget(
        kernel.name,
        kernel.target,
        kernel.variant,
        derived.block_warps * 32,
        kernel.launch.min_blocks,
        derived.launch_registers,
        groups,
        sum(g.total for g in groups),
        REGISTER_FILE // max(1, kernel.launch.min_blocks),
        tuple(_fields(kernel)),
    )


def _warpgroup(kernel: Kernel, derived: Derived, first: int, warps: int) -> WarpgroupBudget:
    here = range(first, first + warps)
    inside = [(t, i) for t, i in kernel.instances() if any(w in here for w in i.warps)]
    names = tuple(t.name if t.each is None else f"{t.name}[{i.index}]" for t, i in inside)
    written = next((i.num_registers for _, i in inside if i.num_registers is not None), None)
    taken = {w for _, i in inside for w in i.warps}
    registers = written if written is not None else derived.launch_registers
    padding = tuple(w for w in here if w not in taken)
    return WarpgroupBudget(first, warps, names, padding, registers, written is not None, registers * warps * 32)


def _fields(kernel: Kernel) -> list[FieldRegisters]:
    """The rmem fields that each task touches; those held by rows take a register or two and are left out."""
    found = []
    for task in kernel.tasks:
        threads = 32 * max((i.num_warps for i in task.instances), default=1)
        for name in sorted(_touched(kernel, task)):
            for f in kernel.resources[name].fields.values():
                if not f.rowwise and f.shape[-1:] != (1,):
                    per_thread = -(-prod(f.shape) * bits(kernel, f.dtype) // (32 * threads))
                    found.append(FieldRegisters(task.name, f"{name}.{f.name}", per_thread))
    return found


def _touched(kernel: Kernel, task: Task) -> set[str]:
    """The rmem resources whose fields the works of a task read or write."""
    works = (kernel.work(s.target, s.method) for s in calls(task.schedule.steps) if s.kind == "work")
    refs = (a.ref.resource for w in works if w is not None for a in accesses(w))
    return {r for r in refs if r is not None and r in kernel.resources and kernel.resources[r].kind == "rmem"}


def registers_text(b: RegisterBudget) -> str:
    """The budget as a table."""
    rows = [("warps", "tasks", "registers/thread", "registers")]
    for g in b.warpgroups:
        last = g.first_warp + g.warps - 1
        tasks = ", ".join(g.tasks) + (f" (padding: {_warps(g.padding)})" if g.padding else "")
        rows.append(
            (
                f"{g.first_warp}-{last}",
                tasks or "none",
                f"{g.registers}" + ("" if g.written else " (launch)"),
                f"{g.total}",
            )
        )
    terms = " + ".join(str(g.total) for g in b.warpgroups)
    out = [
        f"block: {b.block_threads} threads, {b.launch_registers} registers each at launch "
        f"({b.launch_registers} x {b.block_threads} = {b.launch_registers * b.block_threads})",
        *table_lines(rows, "<<>>"),
        f"sum: {terms} = {b.total} of {b.capacity}, {b.capacity - b.total} free",
    ]
    out += [f"{f.task}: {f.field} takes {f.registers} registers of each thread" for f in b.fields]
    return "\n".join(out) + "\n"


def _warps(warps: tuple[int, ...]) -> str:
    return f"warp {warps[0]}" if len(warps) == 1 else f"warps {warps[0]}-{warps[-1]}"
