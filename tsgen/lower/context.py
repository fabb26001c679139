"""The state of one lowering: what the module has so far, and what a task has so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from tsgen.derive.model import Derived
from tsgen.derive.storage import root
from tsgen.lower.errors import refuse
from tsgen.lower.names import RESERVED, Namer
from tsgen.lower.program import Constant, Mma, SmemField, Statement, TmaMap, View
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.tokens import ScalarToken, Spread, TileToken, Token
from tsgen.lower.tries import Answers
from tsgen.model.algebra import evaluate
from tsgen.model.dtypes import WIDENED
from tsgen.model.expr import Expr, Name, Ref, names
from tsgen.model.kernel import Field, Kernel, Resource, Task
from tsgen.model.steps import CallStep

DSL_TYPES = {
    "f64": "cutlass.Float64",
    "f32": "Float32",
    "tf32": "cutlass.TFloat32",
    "f16": "cutlass.Float16",
    "bf16": "cutlass.BFloat16",
    "f8e4m3": "cutlass.Float8E4M3FN",
    "f8e5m2": "cutlass.Float8E5M2",
    "f8e8m0": "cutlass.Float8E8M0FNU",
    "f4e2m1": "cutlass.Float4E2M1FN",
    "i64": "Int64",
    "i32": "Int32",
    "i16": "Int16",
    "i8": "cutlass.Int8",
    "u64": "cutlass.Uint64",
    "u32": "cutlass.Uint32",
    "u16": "cutlass.Uint16",
    "u8": "cutlass.Uint8",
    "bool": "cutlass.Boolean",
}


class Used(dict[str, str]):
    """Names of a scope that remembers which were looked up, in order."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self.seen: dict[str, None] = {}

    def __getitem__(self, key: str) -> str:
        self.seen[key] = None
        return super().__getitem__(key)


@dataclass
class Builder:
    """What lowering collects for the module. Everything is made once and found again by its key."""

    kernel: Kernel
    derived: Derived
    source: str
    names: Namer = field(default_factory=Namer)
    prefix: str = ""  # of the module's names that belong to this kernel, in a chain
    needs: set[str] = field(default_factory=set)
    globals: dict[str, str] = field(default_factory=dict)  # dims, axes, `let` values, scalars -> Python text
    constants: dict[str, str] = field(default_factory=dict)  # param -> Python text
    derived_constants: dict[str, Constant] = field(default_factory=dict)
    fields: dict[tuple[str, str], SmemField] = field(default_factory=dict)
    maps: dict[object, TmaMap] = field(default_factory=dict)
    views: dict[View, str] = field(default_factory=dict)
    mmas: dict[object, Mma] = field(default_factory=dict)
    functions: dict[str, Statement] = field(default_factory=dict)
    function_names: dict[str, str] = field(default_factory=dict)
    windows: dict[object, Statement] = field(default_factory=dict)  # partitions in the setup
    generic: dict[str, str] = field(default_factory=dict)  # tensors passed as they are -> name
    scalars: dict[str, str] = field(default_factory=dict)
    vectors: dict[str, int] = field(default_factory=dict)  # tensor -> elements of the widest access

    def name_globals(self) -> None:
        """Gives dims, axes, `let` values and scalars their names."""
        scalars = [t.name for t in self.kernel.tensors.values() if not t.shape]
        axes = [a.name for a in self.kernel.launch.axes]
        for name in (*self.kernel.dims, *axes, *(x.name for x in self.kernel.launch.lets), *scalars):
            self.globals[name] = self.names.new(name)

    def kernel_names(self) -> dict[str, str]:
        """What the names that every task knows are called."""
        return {**self.constants, **self.globals, "sms": "sms"}

    def note(self, line: int, text: str) -> str:
        """The comment that names the spec's line."""
        return f"{self.source}:{line} {text}".rstrip()

    def dtype(self, e: Expr) -> str:
        """A dtype as Python: the constant of its param, the deciding argument, or the DSL's type."""
        if isinstance(e, Name) and e.id in self.constants:
            return self.constants[e.id]
        return DSL_TYPES[str(evaluate(e, self.kernel.env))]

    def dtype_word(self, e: Expr) -> str:
        return str(evaluate(e, self.kernel.env))

    def constant(self, wish: str, text: str, comment: str | None = None) -> str:
        """A derived module constant; the same wish and text give the same name."""
        have = self.derived_constants.get(wish)
        if have is not None and have.text == text:
            return have.name
        name = self.names.new(f"{self.prefix}{wish}".upper())
        self.derived_constants[wish] = Constant(name, text, comment)
        return name

    def function_name(self, wish: str) -> str:
        """The name of a function of the module; in a chain it begins with the kernel's."""
        if wish not in self.function_names:
            fixed = not self.prefix and wish in RESERVED
            self.function_names[wish] = wish if fixed else self.names.new(self.prefix + wish)
        return self.function_names[wish]

    def tensor(self, name: str) -> str:
        """A tensor that the kernel gets as it is (not in TMA coordinates)."""
        if name not in self.generic:
            taken = any(v.tensor == name for v in self.views)
            self.generic[name] = self.names.new(f"{name}_gmem" if taken else name)
        return self.generic[name]

    def resource(self, name: str) -> Resource:
        return self.kernel.resources[name]

    def field(self, ref: Ref) -> Field:
        """The field a reference names, views resolved."""
        assert ref.resource is not None
        return root(self.kernel, self.kernel.resources[ref.resource].fields[ref.name])

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster."""
        return prod(a.cluster for a in self.kernel.launch.axes)

    def is_tensor(self, ref: Ref) -> bool:
        return ref.resource is None

    def kind(self, ref: Ref) -> str:
        return "tensor" if ref.resource is None else self.kernel.resources[ref.resource].kind


@dataclass
class TaskState:
    """What lowering knows inside one task."""

    builder: Builder
    task: Task
    names: Namer
    scope: Scope
    used: Used
    lasts: dict[str, Expr] = field(default_factory=dict)  # largest values of axes and loop variables
    lows: dict[str, Expr] = field(default_factory=dict)  # smallest values of loop variables
    prelude: dict[object, Statement] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    spreads: dict[object, Spread] = field(default_factory=dict)  # by shape of tile
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    simple: dict[tuple[str, str], bool] = field(default_factory=dict)
    stages: dict[tuple[str, str], str] = field(default_factory=dict)  # (resource, side) -> text of the work stage
    answers: dict[tuple[str, str], Answers] = field(default_factory=dict)  # (target, try) -> where its answers go
    answer_names: dict[tuple[str, str], str] = field(default_factory=dict)
    mma_threads: dict[str, str] = field(default_factory=dict)
    deferred: dict[int, tuple[CallStep, str, str]] = field(
        default_factory=dict
    )  # store -> map before it, loop, columns
    fragments: dict[tuple[str, str], str] = field(default_factory=dict)  # rmem field -> name
    positions: dict[str, str] = field(default_factory=dict)  # row, col -> name of the thread's first one in a fragment
    guards: dict[int, str] = field(default_factory=dict)  # when block -> its outcome in a part of a split loop
    tile_windows: dict[object, Statement] = field(default_factory=dict)  # TMA windows that move with the tile

    def py(self, e: Expr) -> str:
        """An expression over single values as Python."""
        for name in names(e):
            if isinstance(self.tokens.get(name), TileToken):
                refuse(f"the tile `{name}` where one value is wanted", self.task.span)
        return py(e, self.scope)

    def define(self, name: str, text: str) -> None:
        """A name of the spec that is known from here on: a loop variable, an argument."""
        dict.__setitem__(self.used, name, text)

    def thread_position(self, which: str) -> str:
        """The name of the first row or column (`row`, `col`) of a WGMMA fragment that this thread owns part of."""
        if which not in self.positions:
            self.positions[which] = self.names.new(f"thread_{which}")
        return self.positions[which]

    def is_fixed(self, name: str) -> bool:
        """Whether a name keeps its value while the task works on one tile."""
        symbol = self.builder.kernel.symbols.get(name)
        if symbol is None:
            return self.task.each is not None and name == self.task.each.var
        return symbol.time != "step"

    def scalar_token(self, name: str, word: str | None) -> str:
        """The Python name of a token that each thread has one value of; conditions and windows may name it, too."""
        text = self.names.new(name)
        self.tokens[name] = ScalarToken(text, word)
        self.define(name, widened(text, word))
        return text

    def note(self, step: CallStep) -> str:
        return self.builder.note(step.span.line, step.text)

    @property
    def num_warps(self) -> int:
        return self.task.instances[0].num_warps

    @property
    def threads(self) -> int:
        return 32 * self.num_warps

    @property
    def lead_warp(self) -> str | None:
        """The condition that picks the warp whose elected thread issues; None for a task of one warp."""
        if self.num_warps == 1:
            return None
        first = [i.first_warp for i in self.task.instances]
        if all(f % self.num_warps == 0 for f in first):
            return f"warp_idx % {self.num_warps} == 0"
        if len(first) == 1:
            return f"warp_idx == {first[0]}"
        return f"{self.scope.names['warp']} == 0"


def widened(text: str, word: str | None) -> str:
    """A single value of a dtype as conditions and indices calculate with it: unsigned and short types wrap around."""
    wide = WIDENED.get(word or "")
    return text if wide is None else f"{DSL_TYPES[wide]}({text})"


def join(parts: Iterable[str]) -> str:
    return ", ".join(parts)
