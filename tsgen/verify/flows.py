"""Data flows of the steps: from what a work reads to what it writes, through registers and tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tsgen.derive.unfold import Node
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Span
from tsgen.model.expr import Name, Placed, names, walk
from tsgen.model.kernel import Kernel, Work
from tsgen.model.steps import CallStep, DomainLoop, Guard, TileLoop, When


class Flow(NamedTuple):
    """Data of `source`, read at `read`, reaches `target` at `span`."""

    source: str
    target: str
    read: Span
    span: Span


def flows(kernel: Kernel, uses: Uses) -> Iterator[Flow]:
    """Every flow of every task, in the order of the text."""
    for program in uses.programs.values():
        found: list[Flow] = []
        state: dict[str, dict[str, Span]] = {}  # register field or token -> origins
        _block(kernel, uses, program, state, found, False)
        yield from found


def _block(
    kernel: Kernel,
    uses: Uses,
    nodes: tuple[Node, ...],
    state: dict[str, dict[str, Span]],
    found: list[Flow],
    weak: bool,
) -> None:
    for node in nodes:
        match node.step:
            case CallStep():
                _call(kernel, uses, node, state, found, weak)
            case DomainLoop() | TileLoop():
                for _ in range(2):  # once more for what is carried from one iteration to the next
                    _block(kernel, uses, node.body, state, found, weak)
            case Guard() | When():
                _block(kernel, uses, node.body, state, found, True)
            case _:
                _block(kernel, uses, node.body, state, found, weak)


def _call(
    kernel: Kernel, uses: Uses, node: Node, state: dict[str, dict[str, Span]], found: list[Flow], weak: bool
) -> None:
    step = node.step
    assert isinstance(step, CallStep)
    work = kernel.work(step.target, step.method) if step.kind == "work" else None
    if work is None:
        return
    sources: dict[str, Span] = {}
    for access in uses.accesses(work):
        if access.mode == "read":
            ref = access.ref
            if ref.resource is not None and kernel.resources[ref.resource].kind == "rmem":
                sources.update(state.get(f"{ref.resource}.{ref.name}", {}))
            else:
                sources[ref.resource or ref.name] = step.span
    for name in _tokens(work, step):
        sources.update(state.get(name, {}))
    for access in uses.accesses(work):
        if access.mode != "write":
            continue
        ref = access.ref
        if ref.resource is not None and kernel.resources[ref.resource].kind == "rmem":
            key = f"{ref.resource}.{ref.name}"
            state[key] = {**(state.get(key, {}) if weak else {}), **sources}
        else:
            target = ref.resource or ref.name
            for source, read in sources.items():
                if source != target:
                    found.append(Flow(source, target, read, step.span))
    for token in step.results:
        state[token] = {**(state.get(token, {}) if weak else {}), **sources}


def _tokens(work: Work, step: CallStep) -> Iterator[str]:
    """Tokens whose values the work writes: those that stand in its `value` or `set`, or anywhere for bodies."""
    if work.op is None:
        for arg in step.args.values():
            yield from names(arg.expr)
        return
    stored: set[str] = set()
    for key in ("value", "set"):
        value = work.args.get(key)
        if isinstance(value, tuple):
            stored |= {n.id for a in value for n in walk(getattr(a, "value", Name(""))) if isinstance(n, Name)}
        elif isinstance(value, Placed):
            stored |= names(value.expr)
    for take, arg in step.args.items():
        if take in stored:
            yield from names(arg.expr)
