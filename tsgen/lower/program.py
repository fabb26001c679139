"""What the emitter reads: a module as typed values, its code as trees of statements. All text in here is Python."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tsgen.frozen import frozen


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
class DTypeChoice:
    """A dtype param that the caller's tensors decide: the host names of its choices and their DSL types."""

    name: str  # of the param, as an argument of compile() and the kernel
    table: str  # module constant that maps torch names to DSL types
    choices: tuple[tuple[str, str], ...]  # ("float16", "cutlass.Float16")
    default: str
    decider: str  # the first tensor that has it


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

    @property
    def permuted(self) -> bool:
        return self.modes != tuple(range(len(self.modes)))

    @property
    def source(self) -> str:
        """The launcher's tensor in the map's order of dimensions."""
        return f"{self.view}_modes" if self.permuted else self.tensor

    @property
    def argument(self) -> str:
        """The launcher's name of the tensor in TMA coordinates."""
        return f"{self.name.removeprefix('tma_')}_tma"


@frozen
class Mma:
    """A tiled WGMMA."""

    name: str
    dtype: str
    n: str
    a_source: str  # SMEM or RMEM
    a_major: str  # K or MN
    b_major: str
    warpgroups: int


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
class HostTensor:
    """An argument of the host function and of the launcher. Texts are Python over dims."""

    name: str
    dtype: str  # DSL type, or the name of the DTypeChoice
    torch_dtype: str | None  # "float32"; None if the caller decides
    shape: tuple[str, ...]
    fake_shape: tuple[str, ...]  # of the tensor that compile() passes
    label: str  # "[L, M, K]"
    short_label: str  # without the optional leading dim
    output: bool
    present: bool
    default: str | None
    align: int  # bytes
    stride_elements: int  # strides but the contiguous one are multiples of it
    stride_bytes: int
    optional: bool  # the first dimension may be left out
    decided: bool  # by the caller: `dtype` names the choice
    table: str | None  # the choice's table
    doc: str | None

    @property
    def scalar(self) -> bool:
        return self.label == "[]"

    @property
    def fake_dtype(self) -> str:
        return f"{self.table}[{self.dtype}]" if self.table else self.dtype

    @property
    def dtype_text(self) -> str:
        """The torch dtype's name as an expression of the host function."""
        return self.dtype if self.torch_dtype is None else f'"{self.torch_dtype}"'

    @property
    def torch_type(self) -> str:
        return f"getattr(torch, {self.dtype})" if self.torch_dtype is None else f"torch.{self.torch_dtype}"

    @property
    def shape_tuple(self) -> str:
        return f"({', '.join(self.shape)}{',' if len(self.shape) == 1 else ''})"

    @property
    def launch_type(self) -> str:
        if self.scalar:
            return self.dtype
        return "cute.Tensor" if self.present else "Optional[cute.Tensor]"

    @property
    def absent_because(self) -> str:
        return "this variant goes without it"

    @property
    def described(self) -> str:
        """The argument in the docstring."""
        kind = self.torch_dtype or "one of the dtypes of " + str(self.table)
        rows = f", rows at multiples of {self.stride_bytes} bytes" if self.stride_elements > 1 else ""
        shape = "scalar" if self.scalar else self.label + (f" or {self.short_label}" if self.optional else "")
        extra = f" ({self.default} if left out)" if self.default else " (allocated if left out)" if self.output else ""
        return f"{shape}, {kind}{rows}{extra}" + (f"; {self.doc}" if self.doc else "")


@frozen
class HostDim:
    """How the host function learns a dim: `text` over the shape of `tensor`."""

    name: str
    tensor: str
    text: str


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


@frozen
class Module:
    """A generated module, top to bottom."""

    kernel: str
    target: str
    variant: str | None
    version: str
    source: str  # name of the spec's file
    sha256: str
    doc: tuple[str, ...]
    needs: frozenset[str]
    imports: tuple[tuple[str, str], ...]  # of `call:` works: module, function
    meta_params: tuple[tuple[str, str], ...]
    params: tuple[Constant, ...]
    params_note: str
    dtype_choices: tuple[DTypeChoice, ...]
    derived: tuple[Constant, ...]
    layouts: tuple[SmemField, ...]
    atoms: tuple[LayoutAtom, ...]
    functions: tuple[Statement, ...]
    args: tuple[KernelArg, ...]
    call_args: tuple[str, ...]  # what the launcher passes
    setup: tuple[Statement, ...]
    tasks: tuple[TaskCode, ...]
    maps: tuple[TmaMap, ...]
    mmas: tuple[Mma, ...]
    launch: Launch
    tensors: tuple[HostTensor, ...]
    dims: tuple[HostDim, ...]
    optional_dims: tuple[str, ...]
    checks: tuple[tuple[str, str], ...]  # condition and message of launch.assume
    empty: str | None  # condition under which there is nothing to launch
    summary: str  # one line for docstrings
    capability: tuple[int, int]

    @property
    def reductions(self) -> bool:
        return any(f.template == "functions/fragments" and f.values["reductions"] for f in self.functions)

    @property
    def atom_of(self) -> dict[str, str]:
        """The atom of each swizzled field, by its label."""
        names = {(a.swizzle, a.dtype): a.name for a in self.atoms}
        return {f.label: names[(f.swizzle, f.dtype)] for f in self.layouts if f.swizzle}

    @property
    def layout_params(self) -> list[str]:
        """Dtypes that the caller decides and smem_layouts() needs."""
        used = {f.dtype for f in self.layouts if f.swizzle}
        return [c.name for c in self.dtype_choices if c.name in used]

    @property
    def permutations(self) -> list[tuple[str, str, tuple[int, ...]]]:
        """Tensors that the launcher reorders for TMA: new name, tensor, order."""
        return list(dict.fromkeys((m.source, m.tensor, m.modes) for m in self.maps if m.permuted))

    @property
    def launch_layouts(self) -> bool:
        return bool(self.maps)

    @property
    def given(self) -> list[HostTensor]:
        return [t for t in self.tensors if t.present and not t.scalar]

    @property
    def inputs(self) -> list[HostTensor]:
        return [t for t in self.given if not t.output]

    @property
    def outputs(self) -> list[HostTensor]:
        return [t for t in self.given if t.output]

    @property
    def scalars(self) -> list[HostTensor]:
        return [t for t in self.tensors if t.present and t.scalar]

    @property
    def first(self) -> str:
        """The tensor that decides device, and rank where a dim may be left out."""
        return (self.optional_of or self.inputs or self.outputs)[0].name

    @property
    def optional_of(self) -> list[HostTensor]:
        return [t for t in self.given if t.optional]

    @property
    def signature(self) -> list[str]:
        """Arguments of the host function: those that must be given first."""
        must = [t.name for t in self.tensors if t.present and not t.output and t.default is None]
        return must + [f"{t.name}=None" for t in self.tensors if t.name not in must]

    @property
    def pass_args(self) -> list[str]:
        return [t.name if t.present else "None" for t in self.tensors]

    @property
    def returns(self) -> str:
        results = []
        for t in self.outputs:
            fresh = f"{t.name}[0] if left_out else {t.name}" if t.optional else t.name
            results.append(f"given_{t.name} if given_{t.name} is not None else {fresh}")
        return results[0] if len(results) == 1 else ", ".join(f"({r})" for r in results)

    @property
    def returns_doc(self) -> str:
        return f"Returns {', '.join(t.name for t in self.outputs)}. Runs on torch's current stream."

    @property
    def uses_ceil_div(self) -> bool:
        return "ceil_div(" in (self.empty or "") or any("ceil_div(" in c for c, _ in self.checks)
