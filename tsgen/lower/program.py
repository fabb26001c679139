"""What the emitter reads: a module as typed values, its code as trees of statements. All text in here is Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tsgen.frozen import frozen
from tsgen.lower.interface import DTypeChoice, Host


@frozen
class Statement:
    """A piece of code, rendered by `template` (a path below templates/) over `values`; nested code is in `body`."""

    template: str
    values: Mapping[str, object] = field(default_factory=dict)
    note: str | None = None  # the spec's line and text: "gemm.yaml:100 ab.acquire()"
    body: tuple[Statement, ...] = ()


def assign(name: str, text: str, note: str | None = None) -> Statement:
    """`name = text`."""
    return Statement("setup/assign", {"name": name, "text": text}, note)


@frozen
class Constant:
    """A module-level constant."""

    name: str
    text: str
    comment: str | None = None


@frozen
class SmemField:
    """A field in shared memory. `shape` ends with the mode that counts stages and leading dimensions."""

    name: str  # of the tensor in the kernel
    layout: str  # of its layout
    label: str  # resource.field
    dtype: str
    shape: tuple[str, ...]
    swizzle: int  # bytes
    align: int  # bytes
    note: str
    at: str | None = None  # constant with its offset in bytes, where fields share memory


@frozen
class View:
    """A tensor in TMA coordinates: its dimensions in this order, the rows of one mode divided into chunks."""

    tensor: str
    modes: tuple[int, ...]
    divided: tuple[int, int] | None


@frozen
class TmaMap:
    """A TMA descriptor and the tensor in its coordinates."""

    name: str
    view: str  # the tensor in TMA coordinates, in the kernel
    tensor: str  # the host's tensor
    modes: tuple[int, ...]  # order of the tensor's dimensions: those of the box first
    box: tuple[str, ...]
    smem_layout: str  # of the box in shared memory
    op: str  # DSL copy op
    multicast: str | None  # number of CTAs
    divided: tuple[int, int] | None = None  # the mode whose rows are divided into chunks of so many elements

    @property
    def arrangements(self) -> list[tuple[str, str]]:
        """What the launcher makes of the tensor: its dimensions in the map's order, its rows in chunks."""
        out, tensor = list[tuple[str, str]](), self.tensor
        if self.modes != tuple(range(len(self.modes))):
            modes = ", ".join(map(str, self.modes))
            text = f"cute.make_tensor({tensor}.iterator, cute.select({tensor}.layout, mode=[{modes}]))"
            tensor = f"{self.view}_modes"
            out.append((tensor, text))
        if self.divided is not None:
            out.append((f"{self.view}_chunks", f"cute.logical_divide({tensor}, {self.chunks(len(self.modes))})"))
        return out

    def chunks(self, rank: int) -> str:
        """The tiler that divides the rows of something of this rank."""
        assert self.divided is not None
        mode, chunk = self.divided
        return f"({', '.join(str(chunk) if i == mode else 'None' for i in range(rank))})"

    @property
    def source(self) -> str:
        """The launcher's tensor as the map sees it."""
        return self.arrangements[-1][0] if self.arrangements else self.tensor

    @property
    def argument(self) -> str:
        """The launcher's name of the tensor in TMA coordinates."""
        return f"{self.name.removeprefix('tma_')}_tma"


@frozen
class Mma:
    """A tiled MMA, and how the launcher makes it."""

    name: str
    make: Statement


@frozen
class KernelArg:
    name: str
    annotation: str
    comment: str | None = None


@frozen
class TaskCode:
    """One task: the warps that run it, its registers, its code."""

    title: str
    outer: str | None  # condition of the task's warps and their padding warps; None: all warps
    inner: str | None  # condition of the task's own warps, where padding warps share its registers
    registers: str | None  # the setmaxregister call
    body: tuple[Statement, ...]


@frozen
class TaskGroup:
    """A task by itself, or those that share warpgroups: they set their registers together."""

    title: str | None  # of several tasks
    condition: str | None  # that picks the warps of all, None: all warps of the block
    registers: str | None
    tasks: tuple[TaskCode, ...]

    @staticmethod
    def alone(task: TaskCode) -> TaskGroup:
        return TaskGroup(None, None, None, (task,))


@frozen
class Launch:
    grid: tuple[str, str, str]
    cluster: tuple[str, str, str] | None
    threads: str
    min_blocks: int
    pdl: bool
    values: tuple[tuple[str, str], ...]  # names the grid needs, in order


@frozen
class LayoutAtom:
    """A swizzled shared memory layout: its name in smem_layouts()."""

    name: str
    swizzle: int  # bytes
    dtype: str
    module: str  # of the DSL


@frozen
class KernelCode:
    """One kernel of a module: its constants and functions, its device code, its launcher."""

    name: str
    params: tuple[Constant, ...]
    params_note: str
    meta_params: tuple[tuple[str, str], ...]
    tables: tuple[DTypeChoice, ...]  # dtype choices that stand here: in a chain, those of no kernel before
    derived: tuple[Constant, ...]
    layouts: tuple[SmemField, ...]
    layouts_function: str
    atoms: tuple[LayoutAtom, ...]
    functions: tuple[Statement, ...]
    args: tuple[KernelArg, ...]
    call_args: tuple[str, ...]  # what the launcher passes
    setup: tuple[Statement, ...]
    groups: tuple[TaskGroup, ...]
    maps: tuple[TmaMap, ...]
    mmas: tuple[Mma, ...]
    launch: Launch
    host: Host

    @property
    def tasks(self) -> tuple[TaskCode, ...]:
        return tuple(t for g in self.groups for t in g.tasks)

    @property
    def atom_of(self) -> dict[str, str]:
        """The atom of each swizzled field, by its label."""
        names = {(a.swizzle, a.dtype): a.name for a in self.atoms}
        return {f.label: names[(f.swizzle, f.dtype)] for f in self.layouts if f.swizzle}

    @property
    def layout_params(self) -> list[str]:
        """Dtypes that the caller decides and the function of the layouts needs."""
        used = {f.dtype for f in self.layouts if f.swizzle}
        return [c.name for c in self.host.dtype_choices if c.name in used]

    @property
    def arrangements(self) -> list[tuple[str, str]]:
        """Tensors as the launcher arranges them for TMA: names and texts, in order."""
        return list(dict.fromkeys(a for m in self.maps for a in m.arrangements))


@frozen
class ChainLaunch:
    """The launch of one kernel of a chain: its launcher's arguments, and when this grid alone is empty."""

    kernel: str
    args: tuple[str, ...]
    empty: str | None


@frozen
class Module:
    """A generated module, top to bottom: one kernel, or a chain of them with a launcher and a function for all."""

    host: Host  # of the kernel, or of the whole chain
    variant: str | None
    version: str
    source: str  # name of the spec's file
    sha256: str
    doc: tuple[str, ...]
    imports: tuple[tuple[str, str], ...]  # of `call:` works: module, function
    kernels: tuple[KernelCode, ...]
    launches: tuple[ChainLaunch, ...]  # of a chain

    @property
    def hosts(self) -> list[Host]:
        """The functions that the module offers, in the order they are printed."""
        return [self.host] if not self.launches else [*(k.host for k in self.kernels), self.host]
