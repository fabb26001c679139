"""Programmatic dependent launch: what the run of the machine says about it (TS70x)."""

from __future__ import annotations

from collections.abc import Callable

from tsgen.diagnostics import Diagnostic, Finding, error
from tsgen.verify.story import Story


@error("TS700", "launch-before-wait")
def launch_before_wait(story: Story) -> Finding:
    """`launch_griddep` can run before any task has waited for the kernels before this one.

    The next kernel would then start while the kernel before this one still runs, and its own wait covers this kernel
    only. Wait first, in the same task or in one that it follows.
    """
    p = story.problem
    return Finding(
        f"{story.who(p.agent)} launches the next kernel before the kernels before this one are known to be complete",
        story.span(p.ref),
        "put `wait_griddep()` before it",
        story.signals(p.agent),
        story.timeline(),
    )


@error("TS701", "touched-before-wait")
def touched_before_wait(story: Story) -> Finding:
    """A tensor that the graph puts behind the PDL wait is touched before the wait.

    `x: [pdl]` in the graph says that x comes from, or is still used by, a kernel before this one. Every access to it
    must follow a `wait_griddep`, in its own task or through a pipeline from a task that waited.
    """
    p = story.problem
    return Finding(
        f"`{story.step(p.ref).text}` of {story.who(p.agent)} touches `{p.data[0]}`, which depends on the kernel before "
        "this one, and no `wait_griddep` comes first",
        story.span(p.ref),
        "wait in this task, or let a task that has waited signal it",
        story.signals(p.agent),
        story.timeline(),
    )


FINDINGS: dict[str, Callable[[Story], Diagnostic]] = {"launch": launch_before_wait, "grid": touched_before_wait}
