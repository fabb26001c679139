"""Tiles of one launch run at the same time, on other CTAs: two of them must not write the same elements (TS505)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.unfold import Node
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, Related, check
from tsgen.model.algebra import substitute
from tsgen.model.bounds import interval, intervals
from tsgen.model.expr import Const, Expr, Name, Ref, names, text, walk
from tsgen.model.kernel import Axis, Kernel, Task, Work
from tsgen.model.steps import CallStep, DomainLoop, Skippable, TileLoop, When
from tsgen.verify.windows import Range, apart, window


@check("TS505", "tiles-overlap")
def tiles_overlap(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Two tiles write the same elements of a tensor.

    Tiles of a launch run at the same time, or in any order, on different CTAs. A window that lacks a tile axis, or
    moves along it by less than its own length, is written by neighbouring tiles at once. Give the window the axis, let
    one tile of them write (`when_true`), or add up (`reduce: add`). Found where it is certain: in windows whose place
    depends on no data, under no condition on the tile.
    """
    known = intervals(kernel)
    axes = []
    for a in kernel.launch.axes:
        high = interval(a.extent, known, kernel.env).high
        if high is None or high > 1:
            axes.append(a)
    seen: set[tuple[str, str]] = set()
    for task in kernel.tasks:
        for program in (uses.programs[task.name, i.index] for i in task.instances):
            for work, ref, node, loop, depends in _writes(kernel, uses, task, program):
                key = (work.owner, work.name)
                if key in seen:
                    continue
                found = window(kernel, work, ref, node, loop)
                axis = None if found is None else next((a for a in axes if _meet(kernel, found, a, depends)), None)
                if found is not None and axis is not None:
                    seen.add(key)
                    yield _finding(work, ref, node, axis, found)


def _finding(work: Work, ref: Ref, node: Node, axis: Axis, found: tuple[Range, ...]) -> Finding:
    assert isinstance(node.step, CallStep)
    uses_it = any(r.start is not None and axis.name in names(r.start) for r in found)
    why = "moves along it by less than its length" if uses_it else f"does not depend on `{axis.name}`"
    return Finding(
        f"`{node.step.text}` writes `{text(ref)}` in every tile, and its place {why}: tiles that differ in "
        f"`{axis.name}` alone write the same elements",
        node.step.span,
        f"let the window depend on `{axis.name}`, or let one of the tiles write it",
        (Related("the window", work.spans.get("to", work.span)), Related(f"tiles along `{axis.name}`", axis.span)),
    )


def _writes(
    kernel: Kernel, uses: Uses, task: Task, program: tuple[Node, ...]
) -> Iterator[tuple[Work, Ref, Node, DomainLoop | None, set[str]]]:
    """Writes to tensors through ops, with the loop around them and the names that decide whether they happen."""

    def visit(
        nodes: tuple[Node, ...], loop: DomainLoop | None, depends: set[str], skip: set[str]
    ) -> Iterator[tuple[Work, Ref, Node, DomainLoop | None, set[str]]]:
        for node in nodes:
            match node.step:
                case CallStep() as step:
                    work = kernel.work(step.target, step.method) if step.kind == "work" else None
                    if work is None or work.op is None or work.args.get("where") or _adds(work):
                        continue
                    for access in uses.accesses(work):
                        if access.mode == "write" and access.ref.resource is None:
                            yield work, access.ref, node, loop, depends
                case DomainLoop() as inner:
                    yield from visit(node.body, inner, depends | set(_all_names(inner.end.expr)), skip)
                case TileLoop() as tiles:
                    skip = set() if tiles.skip_if is None else set(_all_names(tiles.skip_if.expr))
                    yield from visit(node.body, loop, depends, skip)
                case Skippable():
                    yield from visit(node.body, loop, depends | skip, skip)
                case When() as when:
                    asked = set(_all_names(when.condition.expr))
                    if loop is not None and loop.var in asked:  # the same in all tiles whose loops start alike
                        asked -= {loop.var}
                        asked |= {*_all_names(loop.start.expr), *_all_names(loop.step.expr)}
                    yield from visit(node.body, loop, depends | asked, skip)
                case _:
                    yield from visit(node.body, loop, depends, skip)

    if task.cta is None:  # tasks of one CTA of a cluster write once for all of it
        yield from visit(program, None, set(), set())


def _all_names(e: Expr) -> Iterator[str]:
    for part in walk(e):
        if isinstance(part, Name):
            yield part.id
        elif isinstance(part, Ref):
            yield part.resource or part.name


def _adds(work: Work) -> bool:
    return work.args.get("reduce", "none") != "none"


def _meet(kernel: Kernel, found: tuple[Range, ...], axis: Axis, depends: set[str]) -> bool:
    """Whether tiles 0 and 1 of an axis certainly touch common elements, all else being equal."""
    lets: dict[str, Expr] = {}
    for let in kernel.launch.lets:
        lets[let.name] = substitute(let.value, lets)
    deciding = {n for name in depends for n in (_all_names(lets[name]) if name in lets else (name,))}
    plain = {n for n, s in kernel.symbols.items() if s.kind in ("param", "dim", "scalar")}
    plain |= {a.name for a in kernel.launch.axes}
    if axis.name in deciding or not deciding <= plain:
        return False  # whether it is written depends on the axis, or on data
    return all(apart(_at(r, axis, 0), _at(r, axis, 1), kernel.env) is False for r in found)


def _at(r: Range, axis: Axis, value: int) -> Range:
    return r if r.start is None else Range(substitute(r.start, {axis.name: Const(value)}), r.length)


CHECKS = (tiles_overlap,)
