"""Schedules of tasks as statements: one program for each task, blocks as loops and conditions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tsgen.lower import bodies, maps, pipelines, tiles, tma
from tsgen.lower.context import Builder, TaskState, Used
from tsgen.lower.errors import Unsupported, refuse, work_without_code
from tsgen.lower.mma import ref_of, wgmma
from tsgen.lower.program import Statement, TaskCode
from tsgen.lower.pyexpr import Scope, py_factor
from tsgen.lower.queue import TileCoord
from tsgen.model.algebra import NotConstant, canonical, evaluate, substitute
from tsgen.model.expr import Binary, Const, Expr, Placed, Ref, names
from tsgen.model.kernel import Assign, CopyArg, Resource, Task, Work
from tsgen.model.steps import (
    CallStep,
    DomainLoop,
    Guard,
    Skippable,
    StaticFor,
    StaticIf,
    Step,
    TileLoop,
    When,
    walk,
)


def lower_task(b: Builder, task: Task, base: dict[str, str], extents: dict[str, str], coord: TileCoord | None) -> tuple[TaskCode, Used]:
    """The code of a task, and the names it used of the kernel's scope."""
    namer = b.names.child()
    local = {x: namer.new(x) for x in ("thread", "threads", "warp", "lane")}
    if task.each is not None:
        local[task.each.var] = namer.new(task.each.var)
    used = Used({**base, **local})
    s = TaskState(b, task, namer, Scope(b.kernel.env, used, Used(extents), _print_ref), used)
    s = replace(s, scope=replace(s.scope, ref=lambda r, _: _element_or_field(s, r)))
    _tile_bounds(s)
    tile_values = _TileValues(s, coord)
    body = _steps(s, task.schedule.steps, tile_values)
    body += pipelines.drain(s)
    prelude = list(s.prelude.values())
    header = list(_header(s, [*prelude, *body]))
    code = TaskCode(
        title=_title(b, task),
        outer=_condition(b, task, padding=True),
        inner=_condition(b, task, padding=False) if b.derived.padding.get(task.name) else None,
        registers=_registers(b, task),
        body=tuple([*header, *prelude, *body]),
    )
    return code, used


def _print_ref(r: Ref, scope: Scope) -> str:
    raise AssertionError(r)


def _element_or_field(s: TaskState, r: Ref) -> str:
    from tsgen.lower.mma import fragment

    if r.resource is None:
        return tiles.element(s, r)
    return f"{fragment(s, s.builder.field(r))}[0]"


def _tile_bounds(s: TaskState) -> None:
    """Largest values of the tile coordinates; unknown where a CTA may lie past the edge of the tile space."""
    for a in s.builder.kernel.launch.axes:
        if a.cluster == 1:
            s.lasts[a.name] = Binary("-", a.extent, Const(1))
    s.lasts["thread"] = Const(s.threads - 1)
    s.lasts["lane"] = Const(31)
    s.lasts["warp"] = Const(s.num_warps - 1)
    if s.task.each is not None:
        s.lasts[s.task.each.var] = Const(s.task.each.count - 1)


# ---- the frame of a task --------------------------------------------------------------------------------------------


def _title(b: Builder, task: Task) -> str:
    i = task.instances
    warps = f"warp {i[0].first_warp}" if i[0].num_warps == 1 else f"warps {i[0].first_warp} to {i[0].first_warp + i[0].num_warps - 1}"
    if task.each is not None and len(i) > 1:
        warps = f"warps {i[0].first_warp} to {i[-1].first_warp + i[-1].num_warps - 1}, {i[0].num_warps} for each {task.each.var}"
    registers = f", {i[0].num_registers} registers" if i[0].num_registers else ""
    return f"{b.source}:{task.span.line} task {task.name}: {warps}{registers}; schedule {b.source}:{task.schedule.span.line}"


def _condition(b: Builder, task: Task, *, padding: bool) -> str | None:
    warps = sorted({w for i in task.instances for w in i.warps} | (set(b.derived.padding.get(task.name, ())) if padding else set()))
    if len(warps) == b.derived.block_warps:
        return None
    first, last = warps[0], warps[-1]
    if warps != list(range(first, last + 1)):
        refuse(f"task `{task.name}` on warps that do not lie side by side", task.span)
    if first == last:
        return f"warp_idx == {first}"
    if first == 0:
        return f"warp_idx < {last + 1}"
    if last == b.derived.block_warps - 1:
        return f"warp_idx >= {first}"
    return f"warp_idx >= {first} and warp_idx < {last + 1}"


def _registers(b: Builder, task: Task) -> str | None:
    n = task.instances[0].num_registers
    if n is None:
        return None
    if any(i.num_registers != n for i in task.instances):
        refuse(f"different register counts in the instances of `{task.name}`", task.span)
    return f"cute.arch.setmaxregister_{'increase' if n > b.derived.launch_registers else 'decrease'}({n})"


def _header(s: TaskState, body: list[Statement]) -> Iterator[Statement]:
    """The task's own indices, those that its code mentions."""
    i = s.task.instances
    each = s.task.each
    if each is not None and len(i) > 1 and mentions(body, s.used[each.var]):
        step = i[1].first_warp - i[0].first_warp
        if any(x.first_warp != i[0].first_warp + step * k for k, x in enumerate(i)) or step < i[0].num_warps:
            refuse(f"instances of `{s.task.name}` that do not follow each other in warps", s.task.span)
        offset = f"(warp_idx - {i[0].first_warp})" if i[0].first_warp else "warp_idx"
        yield _assign(s.used[each.var], offset if step == 1 else f"{offset} // {step}")
    elif each is not None:
        yield _assign(s.used[each.var], "0")
    base = i[0].first_warp
    if mentions(body, s.used["thread"]):
        if base % s.num_warps == 0:
            yield _assign(s.used["thread"], "tid" if len(i) == 1 and base == 0 else f"tid % {s.threads}")
        elif len(i) == 1:
            yield _assign(s.used["thread"], f"tid - {32 * base}")
        else:
            refuse(f"threads of `{s.task.name}`, whose warps do not start at a multiple of {s.num_warps}", s.task.span)
    if mentions(body, s.used["threads"]):
        yield _assign(s.used["threads"], str(s.threads))
    if mentions(body, s.used["warp"]):
        yield _assign(s.used["warp"], "warp_idx" if base == 0 and len(i) == 1 else f"warp_idx % {s.num_warps}" if base % s.num_warps == 0 else f"warp_idx - {base}")
    if mentions(body, s.used["lane"]):
        yield _assign(s.used["lane"], "tid % 32")


def _assign(name: str, text: str) -> Statement:
    return Statement("setup/assign", {"name": name, "text": text})


def texts(value: object) -> Iterator[str]:
    """Every text in statements and their values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Statement):
        yield from texts(list(value.values.values()))
        yield from texts(list(value.body))
    elif isinstance(value, dict):
        yield from texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for x in value:
            yield from texts(x)


def mentions(statements: object, name: str) -> bool:
    """Whether some text in the statements has the name as a word."""
    pattern = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
    return any(pattern.search(t) for t in texts(statements))


# ---- steps ----------------------------------------------------------------------------------------------------------


class _TileValues:
    """The coordinates and tile-time `let` values of a tile loop: which are used, and where they are computed."""

    def __init__(self, s: TaskState, coord: TileCoord | None) -> None:
        self.s, self.coord = s, coord

    def statements(self) -> list[Statement]:
        """What computes the values used so far, in order."""
        s = self.s
        b = s.builder
        lets = []
        for let in reversed(b.kernel.launch.lets):
            if let.time == "tile" and let.name in s.used.seen:
                lets.append(_let(s, let.name, let.value, let.span.line))
        out = []
        if self.coord is not None and any(a in s.used.seen for a in self.coord.axes):
            out.append(_assign(", ".join(s.used[a] for a in self.coord.axes), self.coord.call))
        return out + lets[::-1]


def _let(s: TaskState, name: str, value: Expr, line: int) -> Statement:
    return Statement("setup/assign", {"name": s.used[name], "text": s.py(value)}, s.builder.note(line, name))


def _steps(s: TaskState, steps: tuple[Step, ...], tile: _TileValues) -> list[Statement]:
    out: list[Statement] = []
    for x in steps:
        if isinstance(x, CallStep):
            out += _call(s, x)
        else:
            out += _block(s, x, tile)
    return out


def _block(s: TaskState, x: Step, tile: _TileValues) -> list[Statement]:
    match x:
        case TileLoop():
            return [_tile_loop(s, x, tile)]
        case DomainLoop():
            return [_domain_loop(s, x, tile)]
        case Skippable():
            return [_if("not skipped", _steps(s, x.body, tile), s.builder.note(x.span.line, "skippable"))]
        case Guard():
            return [_if(_guard(s, x), _steps(s, x.body, tile), s.builder.note(x.span.line, x.kind))]
        case When():
            condition = s.py(x.condition.expr)
            text = condition if x.value else f"not ({condition})"
            return [_if(text, _steps(s, x.body, tile), s.builder.note(x.span.line, "when_true" if x.value else "when_false"))]
        case StaticFor():
            return [_static_for(s, x, tile)]
        case StaticIf():
            return _static_if(s, x, tile)
    raise AssertionError(x)


def _if(condition: str, body: list[Statement], note: str) -> Statement:
    return Statement("blocks/if", {"condition": condition}, note, tuple(body))


def _tile_loop(s: TaskState, x: TileLoop, tile: _TileValues) -> Statement:
    if canonical(x.first.expr, s.scope.env).value != 0 or canonical(x.stride.expr, s.scope.env).value != 1:
        refuse("work_tile_loop with first or stride", x.span)
    body = _steps(s, x.body, tile)
    if x.skip_if is not None:
        condition = s.py(x.skip_if.expr)
        values = [*tile.statements(), _assign("skipped", condition)]
        body = [*values, *body]
    else:
        at = _first_use(body, {s.used[a] for a in tile.coord.axes} if tile.coord else set(), s)
        body = [*body[:at], *tile.statements(), *body[at:]]
    return Statement("blocks/tile_loop", {}, s.builder.note(x.span.line, "work_tile_loop"), tuple(body))


def _first_use(body: list[Statement], axes: set[str], s: TaskState) -> int:
    """Where a tile's coordinates are computed: after the first WGMMA is issued if nothing needs them before."""
    tile_names = axes | {s.used[x.name] for x in s.builder.kernel.launch.lets if x.time == "tile" and x.name in s.used.seen}
    for i, statement in enumerate(body):
        if any(mentions(statement, n) for n in tile_names):
            return 0
        if statement.template == "ops/wgmma":
            return i + 1
    return 0


def _domain_loop(s: TaskState, x: DomainLoop, tile: _TileValues) -> Statement:
    name = s.names.new(x.var)
    s.define(x.var, name)
    s.lasts[x.var] = Binary("-", x.end.expr, Const(1))
    s.lows[x.var] = x.start.expr
    start, end, step = s.py(x.start.expr), s.py(x.end.expr), s.py(x.step.expr)
    body = _steps(s, x.body, tile)
    bounds = end if start == "0" and step == "1" else f"{start}, {end}" if step == "1" else f"{start}, {end}, {step}"
    values = {
        "var": name if mentions(body, name) else "_",
        "bounds": bounds,
        "unroll": x.unroll if x.unroll is not None else 1,
    }
    return Statement("blocks/domain_loop", values, s.builder.note(x.span.line, "domain_loop"), tuple(body))


def _guard(s: TaskState, x: Guard) -> str:
    loop = next(y for y in walk(s.task.schedule.steps) if isinstance(y, DomainLoop) and x in tuple(walk(y.body)))
    var = s.used[loop.var]
    start, step = py_factor(loop.start.expr, s.scope), py_factor(loop.step.expr, s.scope)
    if x.kind == "first_iter":
        return f"{var} == {s.py(loop.start.expr)}"
    if x.kind == "last_iter":
        return f"{var} + {step} >= {s.py(loop.end.expr)}"
    count = var if start == "0" else f"({var} - {start})"
    count = count if step == "1" else f"{count} // {step}"
    if x.period == 1:
        return f"{count} >= {x.start}" if x.start else "True"
    if x.start == 0:
        return f"{count} % {x.period} == 0"
    return f"{count} >= {x.start} and ({count} - {x.start}) % {x.period} == 0"


def _static_for(s: TaskState, x: StaticFor, tile: _TileValues) -> Statement:
    name = s.names.new(x.var)
    s.define(x.var, name)
    s.lasts[x.var] = Const(max(x.values, default=0))
    s.lows[x.var] = Const(min(x.values, default=0))
    body = _steps(s, x.body, tile)
    over = f"cutlass.range_constexpr({s.py(x.count)})" if x.count is not None else f"({', '.join(map(str, x.values))},)"
    return Statement("blocks/static_for", {"var": name, "over": over}, s.builder.note(x.span.line, f"for {x.var}"), tuple(body))


def _static_if(s: TaskState, x: StaticIf, tile: _TileValues) -> list[Statement]:
    try:
        taken = bool(evaluate(x.condition.expr, s.scope.env))
    except NotConstant:
        condition = s.py(x.condition.expr)
        if s.task.each is None or s.task.each.var not in names(x.condition.expr):
            condition = f"const_expr({condition})"
        values = {"condition": condition, "orelse": tuple(_steps(s, x.orelse, tile))}
        return [Statement("blocks/if_else", values, s.builder.note(x.span.line, "if"), tuple(_steps(s, x.body, tile)))]
    return _steps(s, x.body if taken else x.orelse, tile)


# ---- call steps -----------------------------------------------------------------------------------------------------


def _call(s: TaskState, c: CallStep) -> list[Statement]:
    match c.kind:
        case "pipeline":
            return pipelines.step(s, c)
        case "queue":
            return []  # the loop over tiles is the queue
        case "barrier":
            return [_barrier(s, c)]
        case "pdl":
            return [Statement(f"ops/{c.method}", {}, s.note(c))]
        case "completion":
            return [_completion(s, c)]
        case "work":
            return _work(s, c)
    refuse(f"the step `{c.text}` on a group", c.span)


def _barrier(s: TaskState, c: CallStep) -> Statement:
    b = s.builder
    r = b.kernel.resources[c.target]
    first = b.derived.barriers[(c.target, 0)]
    threads = {x.threads for (name, _), x in b.derived.barriers.items() if name == c.target}
    if len(threads) > 1:
        refuse(f"barriers `{c.target}` with different numbers of threads", c.span)
    count = r.each.count if r.each is not None else 1
    comment = f"named barrier {c.target}" + (f", and the next {count - 1}" if count > 1 else "")
    identifier = b.constant(c.target.upper(), str(first.id), comment)
    if c.instance is not None:
        identifier = f"{identifier} + {py_factor(c.instance, s.scope)}"
    method = "barrier_arrive" if c.method == "arrive" else "barrier"
    return Statement("ops/barrier", {"method": method, "id": identifier, "threads": first.threads}, s.note(c))


def _completion(s: TaskState, c: CallStep) -> Statement:
    n = s.py(c.args["n"].expr) if "n" in c.args else ""
    call = {
        ("wgmma", "wait_group"): f"warpgroup.wait_group({n})",
        ("bulk", "wait_group"): f"cute.arch.cp_async_bulk_wait_group({n})",
        ("bulk", "wait_group_read"): f"cute.arch.cp_async_bulk_wait_group({n}, read=True)",
        ("cp_async", "wait_group"): f"cute.arch.cp_async_wait_group({n})",
    }.get((c.target, c.method))
    if call is None:
        refuse(f"the step `{c.text}` on {s.builder.kernel.target}", c.span)
    s.builder.needs.update({"warpgroup"} if c.target == "wgmma" else ())
    return Statement("ops/completion", {"call": call, "lead": s.lead_warp if c.target == "bulk" else None}, s.note(c))


def bind(w: Work, c: CallStep) -> Work:
    """The work with the call's arguments in place of `takes` and `static`."""
    values = {name: p.expr for name, p in c.args.items()}
    if not values or w.op == "map":
        return w

    def placed(p: Placed) -> Placed:
        return Placed(substitute(p.expr, values), p.span)

    def ref(r: Ref) -> Ref:
        e = substitute(r, values)
        assert isinstance(e, Ref)
        return e

    args = {}
    for key, v in w.args.items():
        if isinstance(v, Placed):
            args[key] = placed(v)
        elif isinstance(v, tuple):
            args[key] = tuple(  # type: ignore[assignment]
                replace(x, to=ref(x.to), source=ref(x.source)) if isinstance(x, CopyArg) else replace(x, value=substitute(x.value, values))
                for x in v
                if isinstance(x, CopyArg | Assign)
            )
        else:
            args[key] = v  # type: ignore[assignment]
    return replace(w, args=args)


def _stage(s: TaskState, resource: str, w: Work) -> str | None:
    """The stage a work is at: acquired last for a producer work, waited for last for a consumer work, of this task."""
    r = s.builder.kernel.resources.get(resource)
    if r is None or r.pipeline is None:
        return None
    for side in ("producer", "consumer") if w.role == "producer" and w.owner == resource else ("consumer", "producer"):
        if (resource, side) in s.stages:
            return s.stages[(resource, side)]
    return None


def _work(s: TaskState, c: CallStep) -> list[Statement]:
    b = s.builder
    w = b.kernel.work(c.target, c.method)
    assert w is not None
    if w.op is None:
        if w.body is None and w.call is None:
            raise Unsupported(work_without_code(f"{w.owner}.{w.name}", w.span))
        return bodies.lower_body(s, w, c)
    bound = bind(w, c)
    match w.op:
        case "tma_load":
            owner: Resource = b.kernel.resources[w.owner]
            if owner.pipeline is None:
                refuse("tma_load into a resource without a pipeline", w.span)
            st = pipelines.state(s, w.owner, "acquire")
            stage = _stage(s, w.owner, w)
            assert stage is not None
            return [tma.tma_load(s, bound, c, stage, pipelines.pipeline_name(b, w.owner), st)]
        case "tma_store":
            source, _ = ref_of(bound, "from")
            return [tma.tma_store(s, bound, c, _stage(s, source.resource or "", w))]
        case "wgmma":
            stages = {}
            for which in ("a", "b"):
                ref, _ = ref_of(bound, which)
                stage_text = _stage(s, ref.resource or "", w)
                if stage_text is not None:
                    stages[which] = stage_text
            init = bound.args["init"]
            assert isinstance(init, Placed)
            return [wgmma(s, bound, c, init.expr, stages)]
        case "map":
            arguments = {name: s.py(p.expr) for name, p in c.args.items()}
            for name in arguments:
                s.define(name, name)
            done = maps.lower_map(s, bound, c, arguments)
            return [] if done is None else [done]
        case "load":
            source, _ = ref_of(bound, "from")
            return tiles.load(s, bound, c, _stage(s, source.resource or "", w))
        case "store":
            target, _ = ref_of(bound, "to")
            return tiles.store(s, bound, c, _stage(s, target.resource or "", w))
    refuse(f"the op {w.op} on {b.kernel.target}", w.span)
