"""Tensor memory in the TS form: TS allocates none, so the kernel does, before and after it runs TS's tasks."""

from __future__ import annotations

from dataclasses import replace

from tsgen.lower import tmem
from tsgen.lower.budgets import in_warps
from tsgen.lower.context import Builder, TaskState
from tsgen.lower.program import Statement
from tsgen.lower.ts.walk import Walk


def around(b: Builder, walks: list[Walk]) -> tuple[list[Statement], list[Statement]]:
    """What stands before everything that uses tensor memory, and what after TS's tasks: of each task in its warps."""
    if not tmem.used(b):
        return [], []
    states = {w.task.name: w.s for w in walks}
    before = [x for s in states.values() for x in _in_its_warps(b, s, tmem.enter(s))]
    after = [x for s in states.values() for x in _in_its_warps(b, s, tmem.leave(s))]
    # a value of every thread: only those that have passed the barrier use it
    address = next(x for s in states.values() for x in tmem.enter(s) if x.values.get("name") == "tmem")
    return [*before, address], after


def _in_its_warps(b: Builder, s: TaskState, statements: list[Statement]) -> list[Statement]:
    body = tuple(x for x in statements if x.values.get("name") != "tmem")
    if not body:
        return []
    warps = sorted(w for i in s.task.instances for w in i.warps)
    condition = in_warps(b, warps[0], warps[-1])
    note = b.note(s.task.span.line, s.task.name)
    if condition is None:
        return [replace(body[0], note=note), *body[1:]]
    return [Statement("blocks/if", {"condition": condition}, note, body)]
