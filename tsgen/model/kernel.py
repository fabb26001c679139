"""The model of a kernel: what a spec means for one assignment of its params. Frozen; built by tsgen.spec.resolve.

Expressions stay symbolic (tsgen.model.expr) so that generated code can use the spec's names; what must be a number
(stage counts, shapes, warps) is evaluated and kept beside the expression that gave it. An entry whose `if:` is false
is absent, except a tensor, which stays in the signature with `present=False`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import PurePath
from typing import Literal

from tsgen.diagnostics.model import Span
from tsgen.frozen import frozen
from tsgen.model.expr import Expr, Placed, Ref, Scalar
from tsgen.model.steps import Schedule

Time = Literal["compile", "launch", "tile", "step"]
SymbolKind = Literal["param", "dim", "scalar", "axis", "let", "tensor", "resource", "group", "builtin"]
Scheduler = Literal["static_persistent", "clc_dynamic"]
SCHEDULERS: tuple[Scheduler, ...] = ("static_persistent", "clc_dynamic")
ResourceKind = Literal["smem", "tmem", "rmem", "work_queue", "barrier", "pdl"]
Role = Literal["producer", "consumer"]


SAME = "same"  # `numpy:` of a body that is NumPy as well


@frozen
class Symbol:
    """A global name of the kernel: what it is and when its value is known."""

    name: str
    kind: SymbolKind
    time: Time
    span: Span


@frozen
class Param:
    """A compile-time value. `written` is the expression in the spec, None after `--set` or a variant."""

    name: str
    value: Scalar
    written: Expr | None
    choices: tuple[Scalar, ...]
    tune: tuple[Scalar, ...]
    doc: str | None
    span: Span
    decided_by_caller: bool  # a dtype with choices: the caller's tensors decide, one compile for each


@frozen
class Each:
    """`each: {var: count}`: that many instances, `var` known inside."""

    var: str
    count: int


@frozen
class Assign:
    """`name = expr` of a `map`."""

    name: str
    value: Expr
    span: Span


@frozen
class CopyArg:
    """One entry of `copies`: `to` is an own field, `source` a tensor window."""

    to: Ref
    source: Ref
    multicast: str | None  # a tile axis
    span: Span
    to_span: Span
    source_span: Span


ArgValue = Placed | tuple[CopyArg, ...] | tuple[Assign, ...] | str | int


@frozen
class Work:
    """A work method of a resource or a tensor. `op`, `body`, `call`, or none of the three (role only)."""

    name: str
    owner: str
    role: Role
    op: str | None
    args: Mapping[str, ArgValue]  # the op's parameters, by their names in the registry; refs are Placed with a Ref
    takes: tuple[str, ...]
    static: tuple[str, ...]
    returns: tuple[str, ...]
    scope: Literal["task", "warp"]
    auxiliary: bool
    body: str | None
    call: str | None  # module:function
    reads: Mapping[str, Placed]  # of a body or call: name -> Ref
    writes: Mapping[str, Placed]
    engine: str | None  # `async:` of a body
    nbytes: Placed | None  # `bytes:` of a body
    numpy: str | None  # the twin's text, or SAME
    span: Span
    spans: Mapping[str, Span]  # of the keys that were written


@frozen
class Tensor:
    """An argument of the host function and a GMEM resource."""

    name: str
    dtype: Expr
    shape: tuple[Expr, ...]  # () = a scalar by value
    output: bool
    default: Placed | None
    align: int  # bytes, of the base address
    major: int  # index of the contiguous dimension
    works: Mapping[str, Work]
    present: bool
    doc: str | None
    span: Span


@frozen
class Field:
    """One stage of storage. `shape` are numbers, `dims` the expressions they came from."""

    name: str
    owner: str
    dtype: Expr
    dims: tuple[Expr, ...]
    shape: tuple[int, ...]
    swizzle: int | None  # bytes, as written
    major: int | None
    align: int | None
    columns: int | None
    rowwise: bool
    view: Ref | None  # the same bytes as another resource's field (then dtype and shape are its)
    span: Span
    spans: Mapping[str, Span]


@frozen
class Pipeline:
    """A ring of stages. None = left to derivation; `spans` has the place of each written key."""

    type: str
    num_stages: int
    stages: Expr
    num_bytes: int | None
    num_bytes_per_warp_per_cta: int | None
    producer_group: int | None
    consumer_group: int | None
    producer_signaling: str | None
    consumer_signaling: str | None
    consumer_wait_signaling: str | None
    advance_on_wait: bool | None
    advance_on_acquire: bool | None
    interleave_stride: tuple[int, int, int, int]  # acquire, commit, wait, release
    span: Span
    spans: Mapping[str, Span]


@frozen
class RasterAxis:
    axis: str
    reverse: bool


@frozen
class Queue:
    """A work queue: `raster` names every tile axis, fastest first."""

    scheduler: Scheduler
    raster: tuple[RasterAxis, ...]
    swizzle: int
    swizzle_expr: Expr
    serpentine: bool


@frozen
class Resource:
    name: str
    kind: ResourceKind
    each: Each | None
    fields: Mapping[str, Field]
    pipeline: Pipeline | None
    works: Mapping[str, Work]
    queue: Queue | None
    threads: int | None  # of a barrier, as written
    doc: str | None
    span: Span
    spans: Mapping[str, Span]


@frozen
class Group:
    name: str
    mode: Literal["merge", "fork", "fused_merge"]
    members: tuple[str, ...]
    pipeline: Pipeline | None
    span: Span


@frozen
class Edge:
    """`downstream: [upstream]` of the graph."""

    upstream: str
    downstream: str
    span: Span


@frozen
class TaskInstance:
    """One task as the hardware runs it: `index` is the value of `each`'s variable (0 without `each`)."""

    index: int
    first_warp: int
    num_warps: int
    num_registers: int | None

    @property
    def warps(self) -> range:
        return range(self.first_warp, self.first_warp + self.num_warps)


@frozen
class Task:
    name: str
    each: Each | None
    warp_idx: Placed
    num_warps: Placed
    num_registers: Placed | None
    schedule: Schedule
    cta: str | int | None  # "leader" or a rank
    src_resources: tuple[str, ...] | None  # as written
    dst_resources: tuple[str, ...] | None
    instances: tuple[TaskInstance, ...]
    doc: str | None
    span: Span
    spans: Mapping[str, Span]


@frozen
class Axis:
    """One axis of the tile space, fastest first: `extent` tiles, in clusters of `cluster` CTAs."""

    name: str
    extent: Expr
    cluster: int
    cluster_expr: Expr
    span: Span


@frozen
class Let:
    name: str
    value: Expr
    time: Time
    span: Span


@frozen
class Launch:
    axes: tuple[Axis, ...]
    optional: tuple[str, ...]
    lets: tuple[Let, ...]
    assume: tuple[Placed, ...]
    pdl: bool
    min_blocks: int
    span: Span


@frozen
class AliasMember:
    resource: str
    field: str | None
    span: Span


@frozen
class Alias:
    """Phases that start at the same address; the members of one phase lie one after another."""

    name: str
    phases: tuple[tuple[AliasMember, ...], ...]
    span: Span


@frozen
class Memory:
    aliases: tuple[Alias, ...] = ()
    smem_capacity: int = 0  # bytes that a block may have: those of the target
    tmem_capacity: int = 512  # columns


@frozen
class Reference:
    """What `run` and `simulate` compare with. Its expressions may call functions unknown elsewhere."""

    values: Mapping[str, Placed]
    inputs: Mapping[str, Placed]
    shapes: tuple[Mapping[str, int], ...]
    rtol: float | None
    atol: float | None
    span: Span


@frozen
class Kernel:
    """One kernel of a spec, for one target and one assignment of params."""

    name: str
    target: str
    targets: tuple[str, ...]
    doc: str
    variant: str | None
    params: Mapping[str, Param]
    variants: Mapping[str, Mapping[str, Scalar]]
    tensors: Mapping[str, Tensor]
    dims: tuple[str, ...]  # in order of appearance in the tensors
    launch: Launch
    resources: Mapping[str, Resource]
    groups: Mapping[str, Group]
    graph: tuple[Edge, ...]
    schedules: Mapping[str, Schedule]
    tasks: tuple[Task, ...]
    memory: Memory
    reference: Reference | None
    symbols: Mapping[str, Symbol]
    span: Span
    spans: Mapping[str, Span] = field(default_factory=dict)  # of the top-level keys
    roots: Mapping[str, Span] = field(default_factory=dict)  # names of the graph that nothing flows into: `y: []`

    @property
    def env(self) -> dict[str, Scalar]:
        """The params' values: what `tsgen.model.algebra` needs to fold compile-time expressions."""
        return {p.name: p.value for p in self.params.values()}

    def instances(self) -> Iterator[tuple[Task, TaskInstance]]:
        """Every task as the hardware runs it."""
        for task in self.tasks:
            for instance in task.instances:
                yield task, instance

    def work(self, owner: str, name: str) -> Work | None:
        """The work `owner.name` of a resource or a tensor."""
        if owner in self.resources:
            return self.resources[owner].works.get(name)
        return self.tensors[owner].works.get(name) if owner in self.tensors else None


@frozen
class Program:
    """A spec file: one kernel, or a chain launched in order. `sha256` is of the file's bytes."""

    path: str
    sha256: str
    kernels: tuple[Kernel, ...]

    @property
    def name(self) -> str:
        """Of the function that launches all of it: the kernel's name, or, for a chain, the file's."""
        if len(self.kernels) == 1:
            return self.kernels[0].name
        stem = re.sub(r"\W", "_", PurePath(self.path).stem, flags=re.ASCII)
        return stem if stem.isidentifier() else f"chain_{stem}"
