"""Schedules: trees of steps (docs/language.md section 7), names and expressions as written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from tsgen.diagnostics.model import Span
from tsgen.frozen import field, frozen
from tsgen.model.expr import Expr, Placed

CallKind = Literal["pipeline", "group", "work", "completion", "queue", "barrier", "pdl"]


@frozen
class CallStep:
    """`[results =] target[instance].method(args)`.

    `kind` says what the target is: a pipelined resource (acquire, commit, wait, release, try_*, skip), a group, a work
    of a resource or tensor, an engine's completion (target wgmma, bulk, cp_async or tcgen05), a queue, a barrier, PDL.
    `args` are the keyword arguments; the one positional argument of `skip(n)` and `wait_group(n)` is named "n".
    """

    kind: CallKind
    target: str
    instance: Expr | None
    method: str
    args: Mapping[str, Placed]
    results: tuple[str, ...]
    text: str  # as written
    span: Span
    derived: bool = False  # a queue step that the spec left out


@frozen
class DomainLoop:
    var: str
    start: Placed
    end: Placed
    step: Placed
    unroll: int | None
    body: tuple[Step, ...]
    span: Span


@frozen
class TileLoop:
    queue: str
    skip_if: Placed | None
    first: Placed
    stride: Placed
    body: tuple[Step, ...]
    span: Span


@frozen
class Skippable:
    body: tuple[Step, ...]
    span: Span


@frozen
class Guard:
    """`first_iter`, `last_iter` or `every` of the enclosing domain loop; period, start are 1, 0 for the others.

    `options` are the expressions that period and start came from, where the spec has them.
    """

    kind: Literal["first_iter", "last_iter", "every"]
    period: int
    start: int
    body: tuple[Step, ...]
    span: Span
    options: Mapping[str, Expr] = field(default_factory=dict)


@frozen
class When:
    """`when_true` (value True) or `when_false`. `key` says what is decided, in words; where the spec wrote it
    (`keyed`), blocks of equal keys have equal outcomes in all tasks."""

    value: bool
    condition: Placed
    key: str
    body: tuple[Step, ...]
    span: Span
    keyed: bool = False


@frozen
class StaticFor:
    """Unrolled at compile time over `values`; `count` is the expression if the spec wrote a number of iterations."""

    var: str
    count: Expr | None
    values: tuple[int, ...]
    body: tuple[Step, ...]
    span: Span


@frozen
class StaticIf:
    """A compile-time choice; it may depend on `each` and `for` indices, so it stays in the tree."""

    condition: Placed
    body: tuple[Step, ...]
    orelse: tuple[Step, ...]
    span: Span


Block = DomainLoop | TileLoop | Skippable | Guard | When | StaticFor | StaticIf
Step = CallStep | Block


@frozen
class Schedule:
    name: str
    steps: tuple[Step, ...]
    span: Span


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Every step and block, in the order of the text."""
    for s in steps:
        yield s
        if not isinstance(s, CallStep):
            yield from walk(s.body)
        if isinstance(s, StaticIf):
            yield from walk(s.orelse)


def calls(steps: tuple[Step, ...]) -> Iterator[CallStep]:
    """Every call step, in the order of the text."""
    return (s for s in walk(steps) if isinstance(s, CallStep))


def last_step(steps: tuple[Step, ...]) -> Step:
    """The written step that stands last in the text."""
    return max((s for s in walk(steps) if not (isinstance(s, CallStep) and s.derived)), key=lambda s: s.span)


def step_text(step: Step) -> str:
    """A call as written; of a block, its name in the spec."""
    match step:
        case CallStep():
            return step.text
        case TileLoop():
            return "work_tile_loop"
        case DomainLoop():
            return "domain_loop"
        case Skippable():
            return "skippable"
        case Guard():
            return step.kind
        case When():
            return "when_true" if step.value else "when_false"
        case StaticFor():
            return f"for {step.var}"
    return "if"
