"""Who produces and consumes what, and the queue steps of persistent tasks (TS26x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.spread import role_only
from tsgen.derive.uses import Uses, cluster_size
from tsgen.diagnostics import Finding, Related, check
from tsgen.model.kernel import Kernel, Task
from tsgen.model.methods import QUEUE_STEPS
from tsgen.model.pipelines import PIPELINES
from tsgen.model.steps import CallStep, DomainLoop, Step, TileLoop, calls, walk

_TAKING = ("wait", "get_and_advance_work_tile", "release")
_ASKING = ("acquire", "fetch_work_tile", "commit")


@check("TS260", "wrong-resource-list")
def wrong_resource_list(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """`src_resources` or `dst_resources` is not what the steps say.

    Both lists are derived: a task consumes what it waits for, releases or reads, and produces what it acquires, commits
    or writes. Written lists are checked; leave them out where they say nothing new.
    """
    for task in kernel.tasks:
        for key, written, found in (
            ("src_resources", task.src_resources, derived.src[task.name]),
            ("dst_resources", task.dst_resources, derived.dst[task.name]),
        ):
            if written is None:
                continue
            counted = [n for n in written if n not in kernel.resources or kernel.resources[n].kind in ("smem", "tmem")]
            missing = [n for n in found if n not in counted]
            extra = [n for n in counted if n not in found]
            if not missing and not extra:
                continue
            words = [f"lacks `{n}`" for n in missing] + [f"has `{n}`, which no step of it touches so" for n in extra]
            yield Finding(
                f"`{key}` of `{task.name}` {' and '.join(words)}; expected [{', '.join(found)}]",
                task.spans.get(key, task.span),
                "write the expected list, or leave the key out",
            )


@check("TS261", "queue-steps")
def queue_steps(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """The steps that take the next tile are not `[try_wait] wait get_and_advance_work_tile release`, once a tile.

    Every persistent task moves to the next tile once in each round, at the end of its tile loop; the scheduler task
    of a dynamic queue first asks for it (`acquire fetch_work_tile commit`). Left out, the steps are derived.
    """
    for task in kernel.tasks:
        for loop in walk(task.schedule.steps):
            if isinstance(loop, TileLoop):
                yield from _tile_loop(kernel, task, loop)


def _tile_loop(kernel: Kernel, task: Task, loop: TileLoop) -> Iterator[Finding]:
    steps = [s for s in calls(loop.body) if s.kind == "queue" and s.target == loop.queue]
    taking = [s for s in steps if s.method in QUEUE_STEPS]
    asking = [s for s in steps if s.method not in QUEUE_STEPS and s.method != "try_acquire"]
    for found, expected, what in (
        ([s for s in taking if s.method != "try_wait"], _TAKING, "takes its next tile"),
        (asking, _ASKING, "asks for a tile"),
    ):
        names = tuple(s.method for s in found)
        if names != expected and (found or what == "takes its next tile"):
            odd = next((i for i, pair in enumerate(zip(names, expected, strict=False)) if pair[0] != pair[1]), None)
            at = found[odd if odd is not None else min(len(expected), len(found) - 1)].span if found else loop.span
            yield Finding(
                f"`{task.name}` {what} with {', '.join(names) or 'nothing'}; expected {', '.join(expected)}",
                at,
                "leave the four steps out: they are derived" if expected == _TAKING else None,
                tuple(Related(f"`{s.text}`", s.span) for s in found if s.span != at),
            )
    inside = {id(s) for b in walk(loop.body) if isinstance(b, DomainLoop) for s in calls(b.body)}
    for s in steps:
        if id(s) in inside:
            yield Finding(f"`{s.text}` stands in the `domain_loop`: the queue moves once a tile", s.span)
            return


@check("TS262", "not-persistent")
def not_persistent(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Some tasks loop over tiles and others do not.

    With a work queue a CTA gets many tiles, or none. A task without `work_tile_loop` would do its work once, for no
    tile in particular.
    """
    loops = {t.name: _loop_of(t.schedule.steps) for t in kernel.tasks}
    first = next((loop for loop in loops.values() if loop is not None), None)
    if first is None:
        return
    for task in kernel.tasks:
        busy = [s for s in calls(task.schedule.steps) if s.kind in ("work", "pipeline", "group")]
        if loops[task.name] is None and busy:
            yield Finding(
                f"`{task.name}` has no `work_tile_loop`, other tasks have one",
                task.schedule.span,
                "put its steps into a `work_tile_loop`",
                (Related("a tile loop", first.span),),
            )
        loop = loops[task.name]
        if loop is not None and loop.queue != first.queue:
            yield Finding(
                f"`{task.name}` takes tiles from `{loop.queue}`, other tasks from `{first.queue}`: their tiles differ",
                loop.span,
                None,
                (Related("the other queue", first.span),),
            )


def _loop_of(steps: tuple[Step, ...]) -> TileLoop | None:
    return next((s for s in walk(steps) if isinstance(s, TileLoop)), None)


@check("TS263", "scheduler-task")
def scheduler_task(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A queue is not asked for tiles by exactly one task.

    With `clc_dynamic` one task, in the first CTA of the cluster, does `acquire fetch_work_tile commit` for all CTAs:
    releases arrive at the barriers of that one, and no other could wait for them. A static queue needs no asking.
    """
    for resource in kernel.resources.values():
        if resource.queue is None:
            continue
        asking = uses.parties(resource.name, "fetch_work_tile")
        used = uses.parties(resource.name, "get_and_advance_work_tile")
        if resource.queue.scheduler == "static_persistent":
            for task, _ in asking[:1]:
                yield Finding(
                    f"`{resource.name}` is static: `{task.name}` need not ask it for tiles", _fetch(task).span
                )
        elif used and len(asking) != 1:
            names = ", ".join(f"`{t.name}`" for t, _ in asking)
            span = _fetch(asking[1][0]).span if asking else resource.span
            yield Finding(
                f"`{resource.name}` is asked for tiles by {names or 'no task'}; expected one task",
                span,
                None if asking else "add a task that does `acquire`, `fetch_work_tile`, `commit` on it",
            )
        elif asking and _clustered(kernel) and not _first_cta_only(kernel, uses, asking[0][0]):
            task = asking[0][0]
            where = "every CTA" if task.cta is None else "each leader" if task.cta == "leader" else f"CTA {task.cta}"
            yield Finding(
                f"`{task.name}` asks for tiles in {where} of the cluster; expected `cta: 0`",
                task.span,
                "write `cta: 0`: one answer goes to all CTAs",
            )


def _first_cta_only(kernel: Kernel, uses: Uses, task: Task) -> bool:
    return task.cta == 0 or (task.cta == "leader" and bool(uses.pair) and cluster_size(kernel) == 2)


def _clustered(kernel: Kernel) -> bool:
    return any(a.cluster > 1 for a in kernel.launch.axes)


def _fetch(task: Task) -> CallStep:
    return next(s for s in calls(task.schedule.steps) if s.method == "fetch_work_tile")


@check("TS264", "released-before-use")
def released_before_use(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A stage is released before the work that it feeds.

    `d: [u]` in the graph says that d is made from u. The tensor core reads u while it makes d, so at least one work
    on d must stand before each release of u. Works with an `op` say what they read and are checked exactly.
    """
    for edge in kernel.graph:
        u, d = kernel.resources.get(edge.upstream), kernel.resources.get(edge.downstream)
        if u is None or u.pipeline is None or u.queue is not None or edge.upstream == edge.downstream:
            continue
        if PIPELINES[u.pipeline.type].consumer != "umma":
            continue
        works = d.works if d is not None else kernel.tensors[edge.downstream].works if d is None else {}
        groups = {g.name for g in kernel.groups.values() if edge.upstream in g.members}
        for task in kernel.tasks:
            steps = list(calls(task.schedule.steps))
            made = [i for i, s in enumerate(steps) if s.kind == "work" and s.target == edge.downstream]
            if not made or not all(role_only(works[steps[i].method]) for i in made if steps[i].method in works):
                continue
            for i, s in enumerate(steps):
                if s.method == "release" and s.target in (edge.upstream, *groups) and not any(m < i for m in made):
                    yield Finding(
                        f"`{s.text}` frees `{edge.upstream}` before any work on `{edge.downstream}`, which is made "
                        "from it",
                        s.span,
                        f"release after `{steps[made[0]].text}`",
                        (Related("the first work that uses it", steps[made[0]].span), Related("the graph", edge.span)),
                    )
                    break


CHECKS = (wrong_resource_list, released_before_use)
CAUSES = (queue_steps, not_persistent, scheduler_task)  # the run would stumble over them, too
