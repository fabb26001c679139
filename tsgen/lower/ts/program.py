"""What the walk over a schedule finds: calls that TS records, in blocks, and works that become methods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tsgen.lower.positions import Side
from tsgen.lower.program import Statement

OWN_STAGE, OFFSET = "stage_info.stage_idx", "stage_info.loop_offset"
GET_DOMAIN, SKIP_IF = "<domain>", "<skip>"  # in a block's head: methods of classes that have no name yet
KEY = "<key>"  # in a block's head: `key`, which is no code
HELD = "held"  # the kernel's values in a method


def line(text: str) -> Statement:
    """A line of code as it stands."""
    return Statement("ts/line", {"text": text})


@dataclass(frozen=True)
class Instance:
    """One of a resource's instances with pipelines, each a resource of TS: its index as Python, and what it may be."""

    index: str
    covers: tuple[int, ...]


def owners(resource: str, instance: Instance | None) -> list[str]:
    """The resources of TS that stand for a resource, or for those of its instances that a step may be about."""
    return [resource] if instance is None else [f"{resource}[{i}]" for i in instance.covers]


def base(owner: str) -> str:
    """The resource of the spec that a resource of TS stands for."""
    return owner.split("[")[0]


@dataclass
class Step:
    """A pipeline, queue or PDL step: recorded as it is. `waits` are the rings that it opens for reading."""

    target: str
    method: str
    note: str | None
    waits: tuple[str, ...] = ()
    instance: Instance | None = None


@dataclass
class Result:
    """A value that a work leaves for later steps: its text at the work's end; its type, if TS can carry it."""

    dtype: str | None
    text: str


@dataclass
class WorkCall:
    """A step that runs code: a method of the resource `owner`.

    `results` are the names of values for later steps; `statics` what the call passes for compile-time parameters;
    `loop` is the domain loop's variable.
    """

    owner: str
    wish: str  # of the method's name
    side: Side
    auxiliary: bool
    statements: list[Statement]
    note: str | None
    results: dict[str, Result] = field(default_factory=dict)
    statics: dict[str, str] = field(default_factory=dict)
    loop: str | None = None
    about: str = ""  # the work's own line in the spec
    instance: Instance | None = None
    reads: dict[str, Instance] = field(default_factory=dict)  # rings with instances, and which of theirs it is about


@dataclass
class Block:
    """`with head:` or, for what Python unrolls, `head:`."""

    head: str
    note: str | None
    body: list[Item]
    condition: WorkCall | None = None  # gives the value that the block asks for
    key: str = ""  # of a condition


Item = Step | WorkCall | Block


def every(items: Iterable[Item]) -> Iterator[Item]:
    """Steps, works and blocks, in the order of the schedule; the work of a condition before its block."""
    for x in items:
        if isinstance(x, Block) and x.condition is not None:
            yield x.condition
        yield x
        if isinstance(x, Block):
            yield from every(x.body)


@dataclass
class Variable:
    """A value that TS carries from a work to the works that it is passed to."""

    slot: str
    name: str
    dtype: str


@dataclass
class Method:
    name: str
    side: Side
    auxiliary: bool
    params: tuple[str, ...]
    returns: tuple[str, ...]  # slots
    body: tuple[Statement, ...]
    about: str

    def same(self, other: Method) -> bool:
        """Whether two methods do the same."""
        return (self.side, self.auxiliary, self.params, self.returns, self.body) == (
            other.side,
            other.auxiliary,
            other.params,
            other.returns,
            other.body,
        )
