"""Deadlocks, phases and credits: what the run of the machine says about waiting (TS4xx)."""

from __future__ import annotations

from collections.abc import Callable

from tsgen.diagnostics import Diagnostic, Finding, Related, error
from tsgen.verify.parts import balances
from tsgen.verify.story import Story


def _ends(story: Story) -> str:
    when = story.when()
    return f" {when}" if when else ""


@error("TS400", "deadlock")
def deadlock(story: Story) -> Finding:
    """Tasks wait for each other, or for something that never comes.

    The finding gives the smallest number of trips and tiles for which it happens, the chain of waits with both ends of
    each, and what every task did last. Typical causes: a stage is acquired in another order than it is released, one
    task makes a trip more than another, a ring has fewer stages than are held at once, or nobody commits.
    """
    sentences, related, span = story.cycle()
    help = _count_help(story, sentences) or _zero_help(story)
    return Finding(f"deadlock{_ends(story)}: {', '.join(sentences)}", span, help, tuple(related), story.timeline())


def _count_help(story: Story, sentences: list[str]) -> str | None:
    """What to do about a barrier that waits for more, or other, than what comes."""
    b, _, _ = story.waits_for(story.chain[0])
    pipeline = story.system.kernel.resources[story.system.barriers[b].resource].pipeline
    written = pipeline.spans if pipeline is not None else {}
    if any("expects" in s for s in sentences) and written.keys() & {"producer_group", "consumer_group"}:
        return "leave the count out: it is derived from the tasks that arrive"
    if not any("bytes" in s for s in sentences):
        return None
    if written.keys() & {"num_bytes", "num_bytes_per_warp_per_cta"}:
        return "leave `num_bytes` out: it is derived from the copies"
    return "every `acquire` announces the bytes of a stage: acquire once, fill the whole stage, then commit"


def _zero_help(story: Story) -> str | None:
    """What to say of a number that is zero, and that perhaps cannot be."""
    label = story.zero()
    return None if label is None else f"if {label} is never 0, say so by `launch.assume`"


@error("TS401", "wait-too-early")
def wait_too_early(story: Story) -> Finding:
    """A task waits for a phase of a barrier before it knows that the phase before is complete.

    Hardware tests one bit. A wait two phases ahead of the barrier sees the bit of an old phase and passes at once. Let
    the task wait for every phase, or learn of it through another barrier before it looks.
    """
    p = story.problem
    b = story.system.barriers[p.barrier]
    others = tuple(
        Related(f"{story.who(a)} completes the phase before here", story.span(r))
        for a, r, _ in story.suppliers(p.barrier, p.data[0] - 1)
        if a != p.agent
    )[:2]
    skips = tuple(
        Related(f"`{story.step(r).text}` of {story.task(p.agent)}", story.span(r))
        for r in story.steps_of(p.agent, b.resource, ("skip",))
    )
    return Finding(
        f"{story.who(p.agent)} waits for phase {p.data[0]} of {story.stage(b)}{_ends(story)}, but does not know that "
        f"phase {p.data[0] - 1} is complete: the wait can pass at once",
        story.span(p.ref),
        "put a wait for the phase before, or a barrier, in front",
        tuple(dict.fromkeys((*others, *skips, *story.meetings(p.agent)))),
        story.timeline(),
    )


@error("TS402", "phase-lapped")
def phase_lapped(story: Story) -> Finding:
    """A barrier can complete its next phase before a task has looked at the one it waits for.

    The task then sees the bit of a phase too far, and blocks or takes wrong data. It happens to a task that waits
    without ever releasing, while the others go on without it. Let it release, or signal in another way that it looked.
    """
    p = story.problem
    b = story.system.barriers[p.barrier]
    others = tuple(
        Related(f"{story.who(a)} completes the next phase here without waiting for it", story.span(r))
        for a, r, _ in story.suppliers(p.barrier, p.data[0] + 1 if p.data else 0)
        if a != p.agent
    )[:2]
    return Finding(
        f"{story.stage(b)} can complete another phase before {story.who(p.agent)} has passed its wait{_ends(story)}",
        story.span(p.ref),
        "let the waiting task release the stage, too",
        tuple(dict.fromkeys(others)),
        story.timeline(),
    )


@error("TS403", "arrival-in-wrong-phase")
def arrival_in_wrong_phase(story: Story) -> Finding:
    """An arrival is counted for another phase than the task means.

    An mbarrier counts whoever comes. A task that arrives before it knows that the phase before is complete, or arrives
    more often than the barrier's count allows, completes a phase for others. Every party arrives once in each phase,
    after it has waited on the other side of the ring.
    """
    p = story.problem
    b = story.system.barriers[p.barrier]
    name = f"the {b.side} barrier of {story.stage(b)}" if b.side != "named" else f"barrier {story.stage(b)}"
    if p.kind == "surplus":
        words = (
            f"{name} gets an arrival of {story.who(p.agent)} in phase {p.data[0]} that its count of {b.need} does not "
            f"allow{_ends(story)}"
        )
    else:
        words = (
            f"{story.who(p.agent)} can arrive at {name} for phase {p.data[0]} before phase {p.data[0] - 1} is "
            f"complete{_ends(story)}: nothing orders the two, and the arrival is counted there"
        )
    others = [
        Related(f"{story.task(a)} arrives at it here", story.span(r))
        for a, r, _ in story.suppliers(p.barrier, p.data[0])
        if story.span(r) != story.span(p.ref)
    ]
    resource = story.system.kernel.resources[b.resource]
    if resource.threads is not None:
        others.insert(0, Related(f"{b.need} threads are written here", resource.spans.get("threads", resource.span)))
    return Finding(words, story.span(p.ref), None, tuple(dict.fromkeys(others))[:3], story.timeline())


@error("TS404", "unbalanced")
def unbalanced(story: Story) -> Finding:
    """Stages are left over when all tasks have ended.

    What was filled must be released, and what was acquired must be committed, for every trip count, tile count and
    outcome of conditions: the producer waits for its stages before it ends, and the next tile starts where this one
    stopped. The finding names the smallest case.
    """
    p = story.problem
    if p.kind == "uncommitted":
        ring, acquired, committed = p.data
        name = story.system.rings[ring].resource
        words = f"{story.task(p.agent)} acquires {name} {_times(acquired)} and {_done('commit', committed)}"
        steps = [(p.agent, r) for r in story.steps_of(p.agent, name, ("acquire", "commit"))]
        return _left_over(story, words, steps)
    b = story.system.barriers[p.barrier]
    ring, stage = p.data
    sides = next(
        both
        for both in balances(story.system, story.system.rings[ring], story.agents)
        if p.barrier - stage in (*both[0], *both[1])
    )
    full, empty = ([story.state.done[x + stage] for x in side] for side in sides)
    filled, freed = max(full, default=0), max(empty, default=0)
    steps = [(a, r) for a in story.agents for r in story.steps_of(a, b.resource, ("release", "wait", "commit"))]
    words = f"{story.stage(b)} was filled {_times(filled)} and {_done('release', freed)} when all tasks have ended"
    if filled == freed:
        words = f"a phase of {story.stage(b)} is half complete when all tasks have ended"
        least = min((*full, *empty))
        if least < filled:
            words = f"{story.stage(b)} was filled {_times(filled)}, and that of another CTA {_times(least)}"
    return _left_over(story, words, steps)


def _left_over(story: Story, words: str, steps: list[tuple[int, int]]) -> Finding:
    places = {story.step(r).span: f"`{story.step(r).text}` of {story.system.agents[a].task.name}" for a, r in steps}
    spans = list(places) or [story.system.kernel.span]
    related = tuple(Related(places[span], span) for span in spans[1:4])
    when = story.when()
    text = f"{when + ', ' if when else ''}{words}"
    return Finding(text, spans[0], _zero_help(story), related, story.timeline())


def _done(verb: str, n: int) -> str:
    past = {"commit": "commits it", "release": "released"}[verb]
    never = {"commit": "never commits it", "release": "never released"}[verb]
    return f"{past} {_times(n)}" if n else never


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


@error("TS405", "stage-not-held")
def stage_not_held(story: Story) -> Finding:
    """A work, a commit or a release happens while the task does not hold the stage.

    A producer works on a stage between its `acquire` and its `commit`, a consumer between `wait` and `release`. Guards
    count: a `wait` in `first_iter` opens one stage in the first iteration only. A task without a wait of its own must
    have learned of the stage through another pipeline.
    """
    p = story.problem
    step = story.step(p.ref)
    name = story.ring(p.data[0])
    side, help = {
        "unacquired": (f"the stage of {name} is not acquired", "acquire it first"),
        "unwaited": (f"the stage of {name} has not been waited for", "wait for it first"),
        "unfilled": (
            f"nothing tells it that the stage of {name} has been filled",
            "wait for the stage, or for something that its producer signals after filling it",
        ),
        "unemptied": (
            f"nothing tells it that the stage of {name} has been released",
            "acquire the stage before filling it",
        ),
    }[p.kind]
    methods = ("acquire", "commit") if p.kind in ("unacquired", "unemptied") else ("wait", "release")
    last = story.last_step(p.agent, p.data[0], methods) if p.kind in ("unacquired", "unwaited") else None
    if last is not None and last.method == methods[1] and last.span != step.span:
        past, verb = {"commit": ("committed", "commit"), "release": ("released", "release")}[methods[1]]
        side = f"the stage of {name} has been {past} at line {last.span.line}"
        help = f"{verb} a stage when all is done with it" + (", and once" if step.method == methods[1] else "")
    return Finding(
        f"`{step.text}` of {story.task(p.agent)}{_ends(story)}: {side}",
        step.span,
        help,
        story.places(p.agent, p.data[0], methods, step.span) + story.signals(p.agent),
        story.timeline(),
    )


@error("TS406", "answer-of-some-waits")
def answer_of_some_waits(story: Story) -> Finding:
    """An `acquire` or `wait` has the answer of a try in some iterations, and none in others.

    The answer of a try serves one blocking step: the next on that side of the resource in the same task, be it in the
    next iteration. A try in `first_iter` alone looks as if it served the whole loop (and in NVIDIA's Task Scheduling
    its answer does, long after it is out of date); a try at the end of an iteration leaves the first step of the loop
    without one, so let another stand before the loop.
    """
    p = story.problem
    step = story.step(p.ref)
    tries = (f"try_{step.method}",)
    assert step.resource is not None
    places = [story.step(r) for r in story.steps_of(p.agent, step.resource, tries)]
    related = tuple(Related(f"`{s.text}` of {story.task(p.agent)}", s.span) for s in places)
    return Finding(
        f"`{step.text}` of {story.who(p.agent)} has the answer of `{step.resource}.{tries[0]}()` in some iterations "
        f"only{_ends(story)}",
        step.span,
        "let a try go before it every time, or never",
        related,
        story.timeline(),
    )


FINDINGS: dict[str, Callable[[Story], Diagnostic]] = {
    "deadlock": deadlock,
    "early": wait_too_early,
    "late": phase_lapped,
    "lap": phase_lapped,
    "surplus": arrival_in_wrong_phase,
    "attribution": arrival_in_wrong_phase,
    "unbalanced": unbalanced,
    "uncommitted": unbalanced,
    "unacquired": stage_not_held,
    "unwaited": stage_not_held,
    "unfilled": stage_not_held,
    "unemptied": stage_not_held,
    "answer": answer_of_some_waits,
}
