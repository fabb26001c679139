"""What callers see of a generated module: its functions' arguments, and what they check. All text in here is Python."""

from __future__ import annotations

from tsgen.frozen import frozen


@frozen
class DTypeChoice:
    """A dtype param that the caller's tensors decide: the host names of its choices and their DSL types."""

    name: str  # of the param, as an argument of compile() and the kernel
    table: str  # module constant that maps torch names to DSL types
    choices: tuple[tuple[str, str], ...]  # ("float16", "cutlass.Float16")
    default: str
    decider: str  # the first tensor that has it


@frozen
class HostTensor:
    """An argument of the host function and of the launcher. Texts are Python over dims."""

    name: str
    dtype: str  # DSL type, or the name of the DTypeChoice
    torch_dtype: str | None  # "float32"; None if the caller decides
    packed: int  # elements of a byte; more than one is passed as bytes along the last dimension
    shape: tuple[str, ...]
    fake_shape: tuple[str, ...]  # of the tensor that compile() passes
    label: str  # "[L, M, K]"
    short_label: str  # without the optional leading dim
    output: bool
    intermediate: bool  # of a chain: written by one kernel, read by a later one
    present: bool
    default: str | None
    align: int  # bytes
    stride_elements: int  # strides but the contiguous one are multiples of it
    stride_bytes: int
    optional: bool  # the first dimension may be left out
    required: bool  # must be given: an input, or an output whose shape alone gives a dim
    table: str | None  # the choice's table
    doc: str | None

    @property
    def scalar(self) -> bool:
        return self.label == "[]"

    @property
    def fake_dtype(self) -> str:
        if self.packed > 1:
            return "cutlass.Uint8"
        return f"{self.table}[{self.dtype}]" if self.table else self.dtype

    @property
    def dtype_text(self) -> str:
        """The torch dtype's name as an expression of the host function."""
        if self.packed > 1:
            return '"uint8"'
        return self.dtype if self.torch_dtype is None else f'"{self.torch_dtype}"'

    @property
    def torch_type(self) -> str:
        return f"getattr(torch, {self.dtype})" if self.torch_dtype is None else f"torch.{self.torch_dtype}"

    @property
    def shape_tuple(self) -> str:
        shape = self.shape if self.packed == 1 else (*self.shape[:-1], f"{self.shape[-1]} // {self.packed}")
        return f"({', '.join(shape)}{',' if len(self.shape) == 1 else ''})"

    @property
    def fake_sizes(self) -> tuple[str, ...]:
        """The shape of the tensor that compile() passes; of packed rows the number of bytes."""
        return self.fake_shape if self.packed == 1 else (*self.fake_shape[:-1], "cute.sym_int()")

    @property
    def multiple(self) -> int:
        """What strides are multiples of, in elements of what is passed."""
        return self.stride_elements // self.packed

    @property
    def launch_type(self) -> str:
        kind = self.dtype if self.scalar else "cute.Tensor"
        return kind if self.present else f"Optional[{kind}]"

    @property
    def absent_because(self) -> str:
        return "this variant goes without it"

    @property
    def described(self) -> str:
        """The argument in the docstring."""
        if self.packed > 1:
            rows = f"{self.label}, {self.packed} elements a byte, rows at multiples of {self.stride_bytes} bytes"
            return f"{rows}: as bytes or as torch packs them"
        kind = self.torch_dtype or "one of the dtypes of " + str(self.table)
        rows = f", rows at multiples of {self.stride_bytes} bytes" if self.stride_elements > 1 else ""
        shape = "scalar" if self.scalar else self.label + (f" or {self.short_label}" if self.optional else "")
        allocated = " (an intermediate, allocated if left out)" if self.intermediate else " (allocated if left out)"
        extra = f" ({self.default} if left out)" if self.default else "" if self.required else allocated
        return f"{shape}, {kind}{rows}{extra}" + (f"; {self.doc}" if self.doc else "")


@frozen
class HostDim:
    """How the host function learns a dim: `text` over the shape of `tensor`."""

    name: str
    tensor: str
    text: str  # in the launcher
    given: str  # over what the caller passes: bytes, where elements are packed
    label: str  # of the tensor's shape
    may_be_negative: bool  # of a shape that is less than the entry allows


@frozen
class Host:
    """The function of a kernel, or of a whole chain, with its `compile`. Texts are Python over dims and scalars."""

    name: str
    title: str  # of what is launched, in docstrings
    target: str
    capability: tuple[int, int]
    summary: str  # one line for docstrings
    compile: str  # name of the function that compiles
    compiled: str  # name of its cached form
    dtype_choices: tuple[DTypeChoice, ...]
    tensors: tuple[HostTensor, ...]
    dims: tuple[HostDim, ...]
    optional_dims: tuple[str, ...]
    checks: tuple[tuple[str, str], ...]  # condition and message of launch.assume
    empty: str | None  # condition under which there is nothing to launch

    @property
    def given(self) -> list[HostTensor]:
        return [t for t in self.tensors if t.present and not t.scalar]

    @property
    def inputs(self) -> list[HostTensor]:
        return [t for t in self.given if not t.output]

    @property
    def required(self) -> list[HostTensor]:
        return [t for t in self.given if t.required]

    @property
    def outputs(self) -> list[HostTensor]:
        return [t for t in self.given if t.output]

    @property
    def returned(self) -> list[HostTensor]:
        return [t for t in self.outputs if not t.intermediate]

    @property
    def scalars(self) -> list[HostTensor]:
        return [t for t in self.tensors if t.present and t.scalar]

    @property
    def first(self) -> str:
        """The tensor that decides device, and rank where a dim may be left out."""
        return (self.optional_of or self.inputs or self.required or self.outputs)[0].name

    @property
    def optional_of(self) -> list[HostTensor]:
        return [t for t in self.given if t.optional]

    @property
    def signature(self) -> list[str]:
        """Arguments of the function: those that must be given first."""
        must = [t.name for t in self.tensors if t.present and t.required]
        return must + [f"{t.name}=None" for t in self.tensors if t.name not in must]

    @property
    def pass_args(self) -> list[str]:
        return [t.name if t.present else "None" for t in self.tensors]

    @property
    def returns(self) -> str:
        results = []
        for t in self.returned:
            fresh = f"{t.name}[0] if left_out else {t.name}" if t.optional else t.name
            results.append(
                f"given_{t.name}" if t.required else f"given_{t.name} if given_{t.name} is not None else {fresh}"
            )
        return results[0] if len(results) == 1 else ", ".join(f"({r})" if " " in r else r for r in results)

    @property
    def returns_doc(self) -> str:
        return f"Returns {', '.join(t.name for t in self.returned)}. Runs on torch's current stream."

    @property
    def uses_ceil_div(self) -> bool:
        texts = [self.empty or "", *(c for c, _ in self.checks), *(t.shape_tuple for t in self.given)]
        return any("ceil_div(" in x for x in texts)
