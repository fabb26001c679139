"""Rules about schedules and tasks as text (codes TS220 to TS259): what may stand where, with what arguments."""

from __future__ import annotations

from tsgen.diagnostics import Finding, Related, Span, error
from tsgen.spec.rules_names import listed


def _near(near: str | None) -> str | None:
    return f"did you mean `{near}`?" if near else None


@error("TS220", "second-domain-loop")
def second_domain_loop(span: Span, first: Span, nested: bool) -> Finding:
    """A schedule has more than one `domain_loop`.

    A schedule is prologue, one loop and epilogue; one loop is what makes the proof hold for every trip count. Use
    `for` for loops of compile-time length, guards inside the loop, or another task.
    """
    what = "inside another one" if nested else "besides another one"
    return Finding(f"a `domain_loop` stands {what}", span, related=(Related("the other domain loop", first),))


@error("TS221", "tile-loop-place")
def tile_loop_place(reason: str, span: Span, first: Span | None = None) -> Finding:
    """A `work_tile_loop` stands where it cannot.

    It is the outermost loop of a persistent task: at most one, inside nothing but `if`.
    """
    return Finding(reason, span, related=(Related("the other tile loop", first),) if first else ())


@error("TS222", "outside-tile-loop")
def outside_tile_loop(what: str, span: Span) -> Finding:
    """A step of a persistent task stands outside its `work_tile_loop`.

    Before and after all tiles only `if`, `for`, barrier, pdl and completion steps, `skip`, and works that are auxiliary
    or belong to rmem are possible: a pipeline step there would not be balanced for zero tiles.
    """
    return Finding(f"{what} cannot stand outside `work_tile_loop`", span, help="move it into the loop")


@error("TS223", "skippable-place")
def skippable_place(reason: str, span: Span) -> Finding:
    """A `skippable` block stands where nothing can be skipped.

    It is left out on tiles for which `skip_if` of the enclosing `work_tile_loop` holds; such blocks do not nest.
    """
    return Finding(reason, span)


@error("TS224", "loop-not-skippable")
def loop_not_skippable(span: Span, skip: Span) -> Finding:
    """A tile loop has `skip_if`, but its `domain_loop` is not in a `skippable` block.

    A skipped tile runs no iteration, so the loop must be among what is skipped.
    """
    return Finding(
        "the `domain_loop` of a tile loop with `skip_if` must stand in a `skippable` block",
        span,
        related=(Related("tiles are skipped here", skip),),
    )


@error("TS225", "guard-place")
def guard_place(block: str, span: Span) -> Finding:
    """A guard stands outside a `domain_loop`.

    `first_iter`, `last_iter`, `every`, `when_true` and `when_false` choose iterations of the domain loop.
    """
    return Finding(f"`{block}` stands outside a `domain_loop`", span, help="for compile-time conditions write `if:`")


@error("TS226", "guard-nested")
def guard_nested(block: str, outer: str, span: Span, first: Span) -> Finding:
    """A guard stands inside another guard.

    Guards do not nest. Conditions can be joined with `and`, or the blocks written one after the other.
    """
    return Finding(f"`{block}` stands inside `{outer}`", span, related=(Related(f"the outer `{outer}`", first),))


@error("TS227", "queue-step-skippable")
def queue_step_skippable(span: Span) -> Finding:
    """A step of the work queue stands in a `skippable` block.

    The queue advances on every tile, skipped or not.
    """
    return Finding("queue steps cannot be skipped", span, help="move it out of `skippable`")


@error("TS228", "not-a-queue")
def not_a_queue(name: str, near: str | None, span: Span) -> Finding:
    """`work_tile_loop` names something that is not a work queue.

    Its `queue` is a resource of kind `work_queue`.
    """
    return Finding(f"`{name}` is not a work queue", span, help=_near(near))


@error("TS229", "other-queue")
def other_queue(name: str, loop: str | None, span: Span) -> Finding:
    """A queue step outside the loop over that queue.

    Steps of a work queue stand in the `work_tile_loop` that takes its tiles.
    """
    if loop is None:
        return Finding(f"`{name}` is used outside a `work_tile_loop`", span)
    return Finding(f"`{name}` is used in the loop over `{loop}`", span)


@error("TS230", "unknown-target")
def unknown_step_target(name: str, near: str | None, span: Span) -> Finding:
    """A step calls something that does not exist.

    Before the dot stands a resource, tensor or group, or one of the engines `wgmma`, `bulk`, `cp_async` and `tcgen05`.
    """
    return Finding(f"there is no resource, tensor or group `{name}`", span, help=_near(near))


@error("TS231", "unknown-method")
def unknown_method(
    target: str, method: str, known: tuple[str, ...], near: str | None, span: Span, why: str = ""
) -> Finding:
    """A step calls a method that its target does not have.

    Pipelined resources have the pipeline's steps and their works; resources without a pipeline have their works only.
    """
    help = _near(near) or (f"it has {listed(known)}" if known else None)
    return Finding(f"`{target}` has no step `{method}`{why}", span, help=help)


@error("TS232", "step-argument")
def step_argument(reason: str, span: Span, help: str | None = None) -> Finding:
    """A step that is not a work has the wrong arguments.

    `skip(n)` and `wait_group(n)` take one number by position, other steps of pipelines, queues and barriers none.
    """
    return Finding(reason, span, help=help)


@error("TS233", "missing-argument")
def missing_argument(work: str, name: str, span: Span, declared: Span) -> Finding:
    """A call leaves out an argument of the work.

    Every name in `takes` and `static` is given at each call, by keyword.
    """
    return Finding(
        f"`{work}` needs the argument `{name}`",
        span,
        help=f"write `{name}=...`",
        related=(Related("declared here", declared),),
    )


@error("TS234", "unknown-argument")
def unknown_argument(work: str, name: str, near: str | None, span: Span) -> Finding:
    """A call gives an argument that the work does not have.

    The arguments are the names in the work's `takes` and `static`.
    """
    return Finding(f"`{work}` has no argument `{name}`", span, help=_near(near))


@error("TS235", "positional-argument")
def positional_argument(work: str, names: tuple[str, ...], span: Span) -> Finding:
    """A call of a work gives an argument by position.

    Arguments of works are given by keyword, so that the line says what they are.
    """
    shown = ", ".join(f"{n}=..." for n in names)
    return Finding(
        f"`{work}` takes its arguments by keyword", span, help=f"write `({shown})`" if names else "remove it"
    )


@error("TS236", "result-count")
def result_count(work: str, declared: int, given: int, span: Span) -> Finding:
    """A call assigns more or fewer results than the work returns.

    Results are assigned in the order of the work's `returns`.
    """
    return Finding(f"`{work}` returns {declared} value{'s' if declared != 1 else ''}, {given} assigned", span)


@error("TS237", "group-step")
def group_step(target: str, method: str, group: str, mode: str, on_group: tuple[str, ...], span: Span) -> Finding:
    """A step of a pipeline group stands on the wrong side of it.

    The shared side of a group is stepped once, on the group: `release` of a merge group, `commit` of a fork group,
    `try_wait`, `wait` and `release` of a fused_merge group. Everything else is stepped on the members.
    """
    if target == group:
        return Finding(
            f"`{method}` of the {mode} group `{group}` stands on its members",
            span,
            help=f"the group has {listed(on_group)}",
        )
    return Finding(
        f"`{method}` of `{target}` belongs to the {mode} group `{group}`", span, help=f"write `{group}.{method}()`"
    )


@error("TS238", "scope-of-token")
def token_scope(name: str, span: Span, assigned: Span) -> Finding:
    """A token is used where it may not have a value.

    A token assigned inside a loop, guard or skippable block is known to the end of that block only.
    """
    return Finding(
        f"`{name}` is assigned in a block that may not run before this",
        span,
        related=(Related("assigned here", assigned),),
    )


@error("TS239", "token-before")
def token_later(name: str, span: Span, assigned: Span) -> Finding:
    """A token is used before the step that assigns it.

    Tokens have a value from the step that assigns them on; values of an earlier iteration are kept in rmem.
    """
    return Finding(f"`{name}` is used before it is assigned", span, related=(Related("assigned here", assigned),))


@error("TS240", "block-option")
def block_option(block: str, reason: str, span: Span) -> Finding:
    """An option of a block has a value that it cannot have.

    `period` is at least 1 and `start` of `every` at least 0; both fit into 31 bits. A `step` is not 0.
    """
    return Finding(f"`{block}`: {reason}", span)


@error("TS241", "task-schedule")
def task_schedule(task: str, name: str | None, near: str | None, span: Span) -> Finding:
    """A task has no schedule.

    A task runs the schedule of its own name, or the one that `schedule` names, or the only one there is.
    """
    if name is not None:
        return Finding(f"there is no schedule `{name}`", span, help=_near(near))
    return Finding(f"task `{task}` has no schedule of its name", span, help="write `schedule: name`")


@error("TS242", "schedule-unused")
def schedule_unused(name: str, span: Span) -> Finding:
    """A schedule belongs to no task.

    Every schedule is run by a task, else its steps never happen. Remove it or add the task.
    """
    return Finding(f"no task runs the schedule `{name}`", span)


@error("TS243", "task-cta")
def task_cta(value: int, size: int, span: Span) -> Finding:
    """`cta` is a rank that the cluster does not have.

    Ranks count from 0 along the cluster; `leader` is the first CTA of each pair.
    """
    return Finding(f"`cta` is {value}, the cluster has the ranks 0 to {size - 1}", span)


@error("TS244", "loop-in-for")
def step_in_static_for(what: str, span: Span) -> Finding:
    """A loop of the kernel stands inside a `for`.

    `for` is unrolled at compile time, so a loop in it would appear several times.
    """
    return Finding(f"a `{what}` cannot stand inside `for`", span)


@error("TS245", "no-pipeline")
def no_pipeline(target: str, method: str, span: Span) -> Finding:
    """A pipeline step is called on a resource that has no pipeline.

    Without `pipeline` a resource has no stages to acquire or wait for; its accesses are ordered by barriers.
    """
    return Finding(
        f"`{target}` has no pipeline, so it has no `{method}`", span, help="give it a `pipeline`, or use a barrier"
    )


@error("TS246", "divergent")
def divergent(step: str, block: str, span: Span, cause: Span) -> Finding:
    """Threads of a task would part ways around a step that they must perform together.

    A loop whose bounds depend on `thread`, `warp`, `lane`, a token or a register runs a different number of times in
    each thread, so it may hold only works that every thread does for itself: loads, stores, maps, bodies. The same
    holds for blocks whose condition depends on the thread.
    """
    return Finding(
        f"`{step}` is done by all threads together, but this {block} differs between them",
        span,
        related=(Related(f"the {block} differs between threads", cause),),
    )


@error("TS248", "unused-token", "warning")
def unused_token(step: str, tokens: tuple[str, ...], span: Span) -> Finding:
    """A step assigns results that nothing uses.

    The value is read and thrown away: a later step or condition was to have it, or the work need not be called.
    """
    return Finding(f"nothing uses {listed(tokens)} of `{step}`", span)
