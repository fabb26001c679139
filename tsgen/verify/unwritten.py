"""Reads of what nobody wrote (TS503, TS504), and stages that nobody reads (TS508)."""

from __future__ import annotations

from collections.abc import Callable

from tsgen.diagnostics import Diagnostic, Finding, Related, Span, error
from tsgen.verify.machine import ACCESS, Item, System
from tsgen.verify.passing import PASSED_OVER
from tsgen.verify.spans import Box
from tsgen.verify.story import PLACES, Story
from tsgen.verify.written import gaps


def _related(story: Story) -> tuple[Related, ...]:
    """Who writes the memory, how many stages it has, and where the reader gets its stage from."""
    p = story.problem
    system = story.system
    cell = p.data[0]
    found: dict[Span, str] = {}
    for a, r in story.writers(cell):
        found.setdefault(story.span(r), f"`{story.step(r).text}` of {story.task(a)} writes it")
    resource = system.kernel.resources[system.fields[system.cell_field[cell]].resource]
    if resource.pipeline is not None:
        n = resource.pipeline.num_stages
        place = resource.pipeline.spans.get("num_stages", resource.pipeline.span)
        found.setdefault(place, f"{resource.name} has {n} stage{'s' if n > 1 else ''}")
        for r in story.steps_of(p.agent, resource.name, ("acquire", "wait")):
            found.setdefault(story.span(r), f"`{story.step(r).text}` of {story.task(p.agent)}")
    found.pop(story.span(p.ref), None)
    return tuple(Related(text, span) for span, text in found.items())[:PLACES]


@error("TS503", "read-of-nothing")
def read_of_nothing(story: Story) -> Finding:
    """Memory is read that nobody has written: shared memory, tensor memory or registers.

    A stage of a ring is written anew in each turn: what is read of it was written since its `acquire`, by the producer
    or in place, or it is left from the turn before. Where data are meant to stay from turn to turn (ping-pong), the
    graph says so: `buf: [buf]`. Then, and in memory without a pipeline, what is read must have been written at some
    time before, for every trip count and outcome of conditions.
    """
    p = story.problem
    system = story.system
    cell, _, position, _ = p.data
    when = story.when()
    head = f"`{story.step(p.ref).text}` of {story.task(p.agent)}{' ' + when if when else ''} reads {story.cell(cell)}"
    name = system.fields[system.cell_field[cell]].resource
    if cell in system.turning and position >= system.rings[system.turning[cell]].stages:
        words = f"{head}, which nobody has written in this turn: what is there is left from the turn before"
        help = f"write it in each turn; if data stay from turn to turn, the graph says `{name}: [{name}]`"
    else:
        others = sorted({story.cell(c) for c in system.aliases.get(cell, ())})
        since = f" since {' or '.join(others[:2])} was written over it" if others and _before(story, cell) else ""
        words = f"{head}, which nobody has written{since}"
        help = "write it before, or read what was written"
    return Finding(words, story.span(p.ref), help, _related(story), story.timeline())


@error("TS504", "read-of-gaps", "warning")
def read_of_gaps(story: Story) -> Finding:
    """Part of what is read of shared or tensor memory was never written.

    It holds whatever was there before. That is right only where nothing that is made from it is used, as in rows that
    pad a tile.
    """
    p = story.problem
    cell, box, _, boxes = p.data
    gap = gaps(story.system, cell, boxes, box)[0]
    return Finding(
        f"`{story.step(p.ref).text}` of {story.task(p.agent)} reads {story.cell(cell)}, but nobody has written "
        f"[{_window(gap)}] of it",
        story.span(p.ref),
        "write all of it, or read less",
        _related(story),
        story.timeline(),
    )


def _before(story: Story, cell: int) -> bool:
    """Whether something was written to a cell in the run that is told, before it was lost."""
    return story.state.written[cell].turn >= 0


def _window(box: Box) -> str:
    return ", ".join(str(a) if b == a + 1 else f"{a}:+{b - a}" for a, b in box)


@error("TS508", "stage-passed-over")
def stage_passed_over(story: Story) -> Finding:
    """A task waits for a stage of a ring, and waits for the next, or ends, without reading it.

    A work reads the stage that was waited for last. Whoever waits twice before a read never sees the first of the two:
    what stands in it is lost. Let a read come between two waits.
    """
    p = story.problem
    name = story.ring(p.data[0])
    when = story.when()
    resource = story.system.rings[p.data[0]].resource
    reads = {
        story.span(ins[-1]): f"`{story.step(ins[-1]).text}` reads it"
        for ins in story.system.agents[p.agent].code
        if ins[0] == ACCESS and any(_reads(story.system, i, p.data[0]) for i in ins[1])
    }
    others = {story.span(r): f"`{story.step(r).text}`" for r in story.steps_of(p.agent, resource, ("wait", "release"))}
    places = {s: text for s, text in {**reads, **others}.items() if s != story.span(p.ref)}
    return Finding(
        f"`{story.step(p.ref).text}` of {story.task(p.agent)}{' ' + when if when else ''}: a stage of {name} is waited "
        "for and never read",
        story.span(p.ref),
        "let a read come between two waits: a work reads the stage that was waited for last",
        tuple(Related(text, span) for span, text in places.items())[:PLACES],
        story.timeline(),
    )


def _reads(system: System, item: Item, ring: int) -> bool:
    return item.slot >= 0 and not item.write and system.slot_ring[item.slot] == ring


FINDINGS: dict[str, Callable[[Story], Diagnostic]] = {
    "unwritten": read_of_nothing,
    "partly": read_of_gaps,
    PASSED_OVER: stage_passed_over,
}
