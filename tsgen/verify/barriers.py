"""Named barriers (TS34x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, Span, check
from tsgen.model.kernel import Kernel
from tsgen.model.steps import calls

MOST = 15  # ids 1 to 15; 0 is the CTA's own barrier


@check("TS340", "too-many-barriers")
def too_many_barriers(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """The kernel uses more named barriers than the hardware has.

    A CTA has 16, id 0 is its own; tensor memory takes two more, to publish its address and before it is freed.
    """
    most = MOST - (2 if any(r.kind == "tmem" for r in kernel.resources.values()) else 0)
    if len(derived.barriers) > most:
        name, _ = list(derived.barriers)[most]
        yield Finding(
            f"{len(derived.barriers)} named barriers are declared, {most} are there", kernel.resources[name].span
        )


@check("TS341", "barrier-threads")
def barrier_threads(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """`threads` of a named barrier is not the number of threads that take part in a phase.

    All threads of the tasks that arrive or wait count, in whole warps. A barrier that expects more never opens.
    """
    for (name, index), barrier in derived.barriers.items():
        resource = kernel.resources[name]
        parties = uses.barriers.get((name, index), [])
        expected = sum(32 * i.num_warps for _, i in parties)
        shown = name if resource.each is None else f"{name}[{index}]"
        if resource.threads is not None and barrier.threads % 32:
            yield Finding(f"barrier `{shown}`: {barrier.threads} threads are no whole warps", _threads(kernel, name))
        elif resource.threads is not None and barrier.threads > expected:
            names = " + ".join(f"{32 * i.num_warps} of {t.name}" for t, i in parties)
            yield Finding(
                f"barrier `{shown}` has `threads: {barrier.threads}`, expected {expected} = {names}",
                _threads(kernel, name),
                f"write {expected}, or leave it out",
            )


def _threads(kernel: Kernel, name: str) -> Span:
    resource = kernel.resources[name]
    return resource.spans.get("threads", resource.span)


@check("TS343", "unused-barrier")
def unused_barrier(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A named barrier is declared and no step uses it. Remove it, or add the step that was meant."""
    for name, index in derived.barriers:
        if not uses.barriers.get((name, index)):
            shown = name if kernel.resources[name].each is None else f"{name}[{index}]"
            yield Finding(f"no step uses barrier `{shown}`", kernel.resources[name].span, "remove it")


@check("TS342", "barrier-without-wait")
def barrier_without_wait(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A named barrier is arrived at, and nobody waits for it.

    An arrival alone orders nothing.
    """
    for name in dict.fromkeys(n for n, _ in derived.barriers):
        steps = [s for t in kernel.tasks for s in calls(t.schedule.steps) if s.kind == "barrier" and s.target == name]
        if steps and all(s.method == "arrive" for s in steps):
            yield Finding(f"nobody waits at barrier `{name}`", steps[0].span, "add `wait()` or `sync()`, or remove it")


CAUSES = (too_many_barriers, barrier_threads, barrier_without_wait)
CHECKS = (unused_barrier,)
