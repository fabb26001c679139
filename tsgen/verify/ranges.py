"""Windows of fields at each call: with `for` written out, in each iteration of a literal loop and in each thread, they
stay inside (TS190). What has no value when the kernel is built is left to the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tsgen.derive.model import Derived
from tsgen.derive.spread import BY_THREAD, elected, written_out
from tsgen.derive.storage import find_field
from tsgen.derive.unfold import Env, Node, constant, work_env
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Diagnostic, Related, Span
from tsgen.model.expr import Expr, Index, Placed, Ref, Slice, Window, names, text
from tsgen.model.kernel import Field, Kernel, TaskInstance, Work
from tsgen.model.ops import Access
from tsgen.model.steps import CallStep, DomainLoop, Guard, When
from tsgen.spec.rules_parts import window_range
from tsgen.verify.courses import Loop

WARP = 32  # threads
_MOST, _FEW = 512, 16  # iterations that are looked at, from both ends; where each thread is, too
Holds = Callable[[Env, int], bool | None]  # whether a block runs, by names and iteration; None if that is not known


def windows_inside(kernel: Kernel, derived: Derived, uses: Uses) -> list[Diagnostic]:
    """Every window of a field in shared or tensor memory or registers, as each task instance runs its schedule."""
    found: dict[tuple[Span, str], Diagnostic] = {}
    for task, instance in kernel.instances():
        look = _Look(kernel, uses, instance)
        for d in look.nodes(uses.programs[task.name, instance.index], None, ()):
            found.setdefault((d.span, d.code), d)
    return list(found.values())


class _Asked(NamedTuple):
    """A condition around a call: the names that decide it, and whether it holds."""

    names: frozenset[str]
    holds: Holds


class _Look:
    def __init__(self, kernel: Kernel, uses: Uses, instance: TaskInstance) -> None:
        self.kernel = kernel
        self.uses = uses
        self.threads = WARP * instance.num_warps

    def nodes(self, nodes: tuple[Node, ...], loop: Loop | None, asked: tuple[_Asked, ...]) -> Iterator[Diagnostic]:
        for node in nodes:
            match node.step:
                case CallStep():
                    yield from self.call(node, loop, asked)
                    continue
                case DomainLoop() as inner:
                    loop_in = Loop.of(inner, node.env)
                    if loop_in is not None and loop_in.trips == 0:
                        continue
                    yield from self.nodes(node.body, loop_in, asked)
                    continue
                case When() as when:
                    more = (*asked, _Asked(names(when.condition.expr), _condition(when.condition.expr, when.value)))
                case Guard() as guard:
                    more = (*asked, _Asked(frozenset({loop.var} if loop is not None else ()), _guard(guard, loop)))
                case _:
                    more = asked
            yield from self.nodes(node.body, loop, more)

    def call(self, node: Node, loop: Loop | None, asked: tuple[_Asked, ...]) -> Iterator[Diagnostic]:
        step = node.step
        assert isinstance(step, CallStep)
        work = self.kernel.work(step.target, step.method) if step.kind == "work" else None
        if work is None:
            return
        where = work.args.get("where")
        if isinstance(where, Placed):
            asked = (*asked, _Asked(names(where.expr), _condition(where.expr, True)))
        for access in self.uses.accesses(work):
            field = find_field(self.kernel, access.ref)
            if field is not None and access.ref.window is not None:
                yield from self.access(work, access, field, node, loop, asked)

    def access(
        self, work: Work, access: Access, field: Field, node: Node, loop: Loop | None, asked: tuple[_Asked, ...]
    ) -> Iterator[Diagnostic]:
        ref = access.ref
        entries = written_out(ref, node)
        used = {n for parts in entries for e in parts for n in names(e)}
        deciding = used.union(*(a.names for a in asked))
        for own, env, iteration in self.places(work, node, loop, deciding):
            if not all(a.holds({**env, **own}, iteration) for a in asked):
                continue
            for i, (w, parts, extent) in enumerate(zip(ref.window or (), entries, field.shape, strict=True)):
                reason = _outside(w, parts, extent, i, {**work_env(self.kernel, node, work), **env, **own})
                if reason is not None:
                    shown = {n: v for n, v in {**env, **own}.items() if n in used and n not in self.kernel.params}
                    alone = [text(e) for e in _parts(w)]
                    with_ = " and ".join(f"{n} = {v}" for n, v in sorted(shown.items()) if n not in (*node.env, *alone))
                    yield _finding(ref, access.span, work, node, reason + (f" with {with_}" if with_ else ""))
                    return

    def places(self, work: Work, node: Node, loop: Loop | None, deciding: set[str]) -> Iterator[tuple[Env, Env, int]]:
        """Names of each thread and iteration that may touch another window, and the iteration."""
        apart = bool(deciding & BY_THREAD)
        threads = range(0, self.threads, WARP if elected(self.kernel, work) else 1) if apart else range(1)
        iterations = [0]
        if loop is not None and loop.var in deciding:
            if loop.trips is None:
                loop = None
            else:
                n, most = loop.trips, _FEW if apart else _MOST
                iterations = [*range(min(n, most)), *range(max(n - most, most), n)]
        for i in iterations:
            env = node.env if loop is None or loop.var not in deciding else loop.env(node.env, i)
            for t in threads:
                own: Env = {"thread": t, "lane": t % WARP, "warp": t // WARP} if deciding & BY_THREAD else {}
                yield {**own, "threads": self.threads}, env, i


def _condition(e: Expr, wanted: bool) -> Holds:
    def holds(env: Env, iteration: int) -> bool | None:
        value = constant(e, env)
        return None if value is None else bool(value) is wanted

    return holds


def _guard(guard: Guard, loop: Loop | None) -> Holds:
    def holds(env: Env, iteration: int) -> bool | None:
        if guard.kind == "first_iter":
            return iteration == 0
        if loop is None or loop.trips is None:
            return None
        if guard.kind == "last_iter":
            return iteration == loop.trips - 1
        return iteration >= guard.start and (iteration - guard.start) % guard.period == 0

    return holds


def _outside(w: Window, parts: tuple[Expr, ...], extent: int, i: int, env: Env) -> str | None:
    """What is wrong with one entry of a window where its names mean this."""
    values = [constant(e, env) for e in parts]
    if not parts or any(isinstance(v, bool) or not isinstance(v, int) for v in values):
        return None
    start = int(values[0] or 0)
    if isinstance(w, Index) and not 0 <= start < extent:
        return f"dimension {i} has the indices 0 to {extent - 1}, `{text(w.at)}` is {start}"
    if isinstance(w, Slice):
        end = start + int(values[1] or 0)
        if start < 0 or end > extent:
            return f"dimension {i} has {extent} elements, `{text(w.start)}:+{text(w.length)}` takes {start} to {end}"
    return None


def _finding(ref: Ref, span: Span, work: Work, node: Node, reason: str) -> Diagnostic:
    """Where an argument decides, its place is the argument's."""
    step = node.step
    assert isinstance(step, CallStep)
    used = {n for w in ref.window or () for e in _parts(w) for n in names(e)}
    taken = [step.args[n].span for n in (*work.takes, *work.static) if n in used and n in step.args]
    if taken:
        return window_range(text(ref), reason, taken[0], (Related("the window", span),))
    return window_range(text(ref), reason, span, (Related("the call", step.span),))


def _parts(w: Window) -> tuple[Expr, ...]:
    return (w.at,) if isinstance(w, Index) else (w.start, w.length) if isinstance(w, Slice) else ()
