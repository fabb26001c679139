"""The device side of a module in the TS form: setup, resource classes, and the function that hands them to TS."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from tsgen.derive.model import Derived
from tsgen.lower.context import Builder, Used
from tsgen.lower.errors import refuse
from tsgen.lower.module import lower
from tsgen.lower.program import Module, Statement, TaskCode, assign
from tsgen.lower.queue import TileCoord, queue_of, tile_coord
from tsgen.lower.rings import creations
from tsgen.lower.setup import by_task, lower_setup, values_of
from tsgen.lower.task import indices
from tsgen.lower.tmem_works import cta_group
from tsgen.lower.ts.manager import manager_function
from tsgen.lower.ts.program import line
from tsgen.lower.ts.rename import given, renamed
from tsgen.lower.ts.tasks import per_instance, shared_budgets
from tsgen.lower.ts.tmem import around
from tsgen.lower.ts.walk import Walk
from tsgen.model.kernel import Program


def lower_ts(program: Program, derived: Sequence[Derived]) -> Module:
    """The module of a program against TS. Raises Unsupported for what TS cannot say."""
    return lower(program, derived, _kernel)


def _kernel(b: Builder, base: dict[str, str], extents: dict[str, str]) -> tuple[list[Statement], list[TaskCode]]:
    queue = queue_of(b)
    coord = tile_coord(b, queue, extents) if queue is not None else None
    if coord is not None and len(coord.axes) > 3:
        refuse("more than three axes of tiles in TS", b.kernel.launch.span, "TS counts tiles in three dimensions")
    pipes = [replace(p, template="setup/pipeline") for p in creations(b)]
    walks = []
    for task in b.kernel.tasks:
        walks += [Walk(b, task, i, base, extents) for i in per_instance(b, task)]
    shared = _preludes(b, walks)
    used = _used(b, walks, base)
    enter, leave = around(b, walks)
    lets = [] if coord is not None else _tile_lets(b, walks)
    code = [x for w in walks for x in w.code()] + [*enter, *leave, *shared_budgets(b)]
    if leave and cta_group(b.kernel) == 2:
        code.append(line("cta_rank"))
    if coord is not None:
        code += [line(coord.call or ""), line("cluster" if coord.fetched else coord.loop("0", "1"))]
    setup = lower_setup(b, pipes, [tuple(code), (*shared, *lets)], used, extents, coord, [])
    if by_task(b, coord):  # there the CuTe form computes them anew
        setup += [x for x in values_of(b, used, extents, coord, [code, shared, lets]) if x not in setup]
    init = {x.template: x for x in setup if x.template in _INIT}
    names = _kernel_names(b, coord)
    manager, values = manager_function(b, walks, coord, names)
    run = Statement("ts/run", {"manager": manager})
    after = [run, *(init[t] for t in _INIT if t in init), *shared_budgets(b), line("manager.run()"), *leave]
    kept = [x for x in setup if x.template not in (*_INIT, "setup/pipeline")]
    return [*kept, *enter, *lets, *shared, _held(values), *after], []


_INIT = ("setup/init_arrive", "setup/init_wait")


def _held(values: list[str]) -> Statement:
    text = ", ".join(f"{v}={v}" for v in values) + ","
    return Statement("ts/held", {"lines": textwrap.wrap(text, 108, break_long_words=False)})


def _used(b: Builder, walks: list[Walk], base: dict[str, str]) -> Used:
    """The kernel's names that the walks have looked up, those behind values of the tile included."""
    used = Used(base)
    for w in walks:
        for let in reversed(b.kernel.launch.lets):
            if let.time == "tile" and let.name in w.s.used.seen:
                w.s.py(let.value)
        if w.skip_if is not None:
            w.s.py(w.skip_if.expr)
        used.seen.update(w.s.used.seen)
    return used


def _tile_lets(b: Builder, walks: list[Walk]) -> list[Statement]:
    """Values of the tile where a CTA has one tile: computed once."""
    out: dict[str, Statement] = {}
    for let in b.kernel.launch.lets:
        for w in walks:
            if let.time == "tile" and let.name in w.s.used.seen:
                note = b.note(let.span.line, let.name)
                out.setdefault(let.name, assign(b.globals[let.name], w.s.py(let.value), note))
    return list(out.values())


def _preludes(b: Builder, walks: list[Walk]) -> list[Statement]:
    """What the tasks compute before they start, by all warps; a name that means two things is told apart."""
    made: dict[str, Statement] = {}
    out: list[Statement] = []
    for w in walks:
        prelude = list(w.s.prelude.values())
        own = w.s.names.given - b.names.given
        new: dict[str, str] = {}
        known: set[str] = set()
        for statement in [*indices(w.s, [*prelude, *w.code()]), *prelude]:
            defined = [n for n in dict.fromkeys(given([statement])) if n in own and n not in known]
            known |= set(defined)
            statement = renamed(statement, new)
            if statement in out:
                continue
            for n in defined:
                while new.get(n, n) in made:  # the kernel's scope does not know the names of tasks
                    new[n] = b.names.new(n)
            statement = renamed(statement, new)
            made |= {new.get(n, n): statement for n in defined}
            out.append(statement)
        w.rename(new)
        w.held = {new.get(n, n) for n in known}
    return out


def _kernel_names(b: Builder, coord: TileCoord | None) -> set[str]:
    """The names of the kernel's scope: those that a method reads from what the kernel holds for it."""
    scope = {"tid", "warp_idx", "cta_rank", "cluster", "clusters", "cluster_tiles", "rounds", "sms"}
    scope |= {f"cta_{a.name}" for a in b.kernel.launch.axes} | b.names.given | set(b.globals.values())
    module = {c.name for c in b.derived_constants.values()} | set(b.constants.values())
    module |= {name for key, name in b.scalars.items() if key.startswith("ring:")}  # TS has the pipelines
    module |= {str(f.values["name"]) for f in b.functions.values() if "name" in f.values}
    choices = {b.constants[p.name] for p in b.kernel.params.values() if p.decided_by_caller}
    local = set() if coord is None else {b.globals[a] for a in coord.axes}
    if coord is not None:
        local |= {b.globals[x.name] for x in b.kernel.launch.lets if x.time == "tile"}
    return {n for n in scope - module - local | choices if not keyword.iskeyword(n)}
