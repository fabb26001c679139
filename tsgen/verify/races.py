"""Races: what the run of the machine says about memory (TS5xx)."""

from __future__ import annotations

from collections.abc import Callable

from tsgen.diagnostics import Diagnostic, Finding, Related, error
from tsgen.model.steps import last_step
from tsgen.verify.machine import CP_ASYNC, CP_OPEN, ENGINE_NAMES, SYNC
from tsgen.verify.story import Story

_ENDS = {  # what completes an access of an engine, as a step to write
    "tx": "wait for the stage's full barrier",
    "bulk": "`bulk.wait_group_read(n)`",
    "bulk_write": "`bulk.wait_group(n)`",
    "cp_async": "`cp_async.wait_group(n)`",
    "cp_open": "the commit of its pipeline",
    "wgmma": "`wgmma.wait_group(n)`",
    "tcgen05": "a commit or release of a umma pipeline",
    "tcgen05_ld": "`tcgen05.wait_ld()`",
    "tcgen05_st": "`tcgen05.wait_st()`",
}
_UNITS = {
    "tx": "TMA",
    "bulk": "a bulk store",
    "bulk_write": "a bulk store",
    "cp_async": "cp.async",
    "cp_open": "cp.async",
    "wgmma": "WGMMA",
    "tcgen05": "an MMA",
}


def _access(story: Story, a: int, ref: int, write: bool, engine: int) -> str:
    name = ENGINE_NAMES[engine]
    through = f" through {_UNITS.get(name, name)}" if engine != SYNC else ""
    verb = "writes" if write else "reads"
    return f"`{story.step(ref).text}` of {story.who(a)} {verb} it{through}"


def _words(story: Story, what: str) -> Finding:
    p = story.problem
    write, other_write, engine, other_engine = p.data[:4]
    same = p.agent == p.other
    pair = f"{_access(story, p.other, p.other_ref, other_write, other_engine)} (line {story.span(p.other_ref).line})"
    mine = _access(story, p.agent, p.ref, write, engine)
    when = story.when()
    missing = "nothing orders the two"
    help: str | None = "order them with a pipeline, or with a named barrier that both tasks pass"
    mine_agent, other_agent = story.system.agents[p.agent], story.system.agents[p.other]
    siblings = mine_agent.task is other_agent.task and mine_agent.cta == other_agent.cta
    siblings = siblings and mine_agent.instance is other_agent.instance
    waited = p.data[6]
    if other_engine != SYNC and siblings and waited and not same:
        missing = f"{story.who(p.other)} has waited for the first, {story.who(p.agent)} cannot know"
        help = "put a `sync` of a named barrier between the wait and the second"
    elif other_engine != SYNC and not waited and not (siblings and not same and write and other_write):
        name = ENGINE_NAMES[other_engine]
        missing = f"the first may still be under way: it ends at {_ENDS[name]}"
        help = f"put {_ENDS[name]} in between" if same or siblings else f"{_ENDS[name]} before the stage is handed on"
        if siblings and not same:
            help += ", and a `sync` of a named barrier so that the other warps know, too"
    elif (left := story.in_flight(p.other, other_engine)) is not None:
        missing = f"`{left}` leaves the last of them under way"
        help = "wait for more of them before the stage is handed on: a smaller n"
    elif siblings:
        missing = "warps of a task are ordered with each other only by barriers and pipelines"
        help = "put a `sync` of a named barrier in between"
    return Finding(
        f"race on {what}{' ' + when if when else ''}: {pair}, {mine}; {missing}",
        story.span(p.ref),
        help,
        (Related("the other access", story.span(p.other_ref)), *story.handovers()),
        story.timeline(),
    )


@error("TS500", "race")
def race(story: Story) -> Finding:
    """Two accesses to the same memory, one of them a write, are not ordered.

    Tasks, warps of one task, and asynchronous engines (TMA, bulk stores, cp.async, WGMMA, tcgen05) run side by side. An
    access through an engine begins at its step and ends at the step that waits for the engine, not before: a stage
    released while a WGMMA still reads it is filled under its hands. Order the two accesses by a pipeline, by a named
    barrier, or by the engine's completion step.
    """
    return _words(story, story.cell(story.problem.barrier))


@error("TS501", "race-through-alias")
def race_through_alias(story: Story) -> Finding:
    """Two fields share bytes, and accesses to them are not ordered.

    Fields in different phases of a `memory.alias` start at one address. The last access to one of them must be over,
    for all tasks and engines, before the first access to the other begins, also across tiles.
    """
    cell, other = story.problem.data[4], story.problem.data[5]
    return _words(story, f"bytes that {story.cell(cell)} shares with {story.cell(other)}")


@error("TS502", "store-outlives-task")
def store_outlives_task(story: Story) -> Finding:
    """A task ends while a bulk store, or a WGMMA, still reads its shared memory, or a cp.async still writes it.

    Shared memory goes with the CTA. After the last `tma_store`, and after the tile loop, wait until the sources have
    been read; after the last `cp_async_load`, until it has been written. One that fills a stage of an async pipeline is
    waited for by whoever waits for the stage, once it is committed.
    """
    p = story.problem
    task = story.system.agents[p.agent].task
    engine = ENGINE_NAMES[p.data[0]]
    if engine == "tcgen05":
        return _unfinished(story, "the kernel can end", "shared memory")
    does = "writes" if p.data[0] in (CP_ASYNC, CP_OPEN) else "reads"
    ends = f"put `{engine}.wait_group(0)` at the end of the schedule"
    return Finding(
        f"{story.who(p.agent)} can end while `{story.step(p.ref).text}` still {does} shared memory",
        story.span(p.ref),
        "commit the stage after the copy" if p.data[0] == CP_OPEN else ends,
        tuple(
            Related(text, span)
            for text, span in (
                (f"the last step of {task.name}", last_step(task.schedule.steps).span),
                (f"the schedule of {task.name}", task.schedule.span),
            )
            if span != story.span(p.ref)
        ),
        story.timeline(),
    )


@error("TS507", "tensor-memory-freed")
def tensor_memory_freed(story: Story) -> Finding:
    """Tensor memory is freed while an MMA, or another access to it, may still be under way.

    It is freed when all tasks that move it to registers have come to their end. So one of them must know by then that
    the access is complete: that of an MMA by a `wait` for a later `commit` of its task, its own by `tcgen05.wait_ld()`
    or `tcgen05.wait_st()`.
    """
    return _unfinished(story, "tensor memory can be freed", "it")


def _unfinished(story: Story, what: str, memory: str) -> Finding:
    """An access that no task waits for."""
    p = story.problem
    name = ENGINE_NAMES[p.data[0]]
    does = "writes" if p.data[1] else "reads"
    help = f"put {_ENDS[name]} at the end of the schedule"
    if name == "tcgen05":
        help = "let a later commit of the same task, for which another task waits, stand after it"
    return Finding(
        f"{what} while `{story.step(p.ref).text}` of {story.who(p.agent)} still {does} {memory}",
        story.span(p.ref),
        help,
        (),
        story.timeline(),
    )


FINDINGS: dict[str, Callable[[Story], Diagnostic]] = {
    "race": race,
    "alias": race_through_alias,
    "unread": store_outlives_task,
    "unfreed": tensor_memory_freed,
}
