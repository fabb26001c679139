"""Schedules as statements: loops, guards and conditions; the steps in them are lowered by tsgen.lower.steps."""

from __future__ import annotations

from tsgen.lower import maps, steps
from tsgen.lower.context import TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.mentions import mentions
from tsgen.lower.program import Statement, assign
from tsgen.lower.proofs import never
from tsgen.lower.pyexpr import py_compared, py_factor
from tsgen.lower.queue import TileCoord
from tsgen.lower.split import NEVER, splitting
from tsgen.model.algebra import NotConstant, evaluate
from tsgen.model.expr import Binary, Const, Expr, names
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
    calls,
    walk,
)


class TileValues:
    """The coordinates and tile-time `let` values of a tile loop: which are used, and where they are computed."""

    def __init__(self, s: TaskState, coord: TileCoord | None) -> None:
        self.s, self.coord = s, coord
        self.skipped: str | None = None  # the variable that says so, where some tile may be skipped

    def statements(self) -> list[Statement]:
        """What computes the values used so far, in order."""
        s = self.s
        b = s.builder
        lets = []
        for let in reversed(b.kernel.launch.lets):
            if let.time == "tile" and let.name in s.used.seen:
                lets.append(_let(s, let.name, let.value, let.span.line))
        out = []
        if self.coord is not None and self.coord.call is not None and any(a in s.used.seen for a in self.coord.axes):
            out.append(assign(", ".join(s.used[a] for a in self.coord.axes), self.coord.call))
        return [*out, *lets[::-1], *s.tile_windows.values()]


def _let(s: TaskState, name: str, value: Expr, line: int) -> Statement:
    return Statement("setup/assign", {"name": s.used[name], "text": s.py(value)}, s.builder.note(line, name))


def lower_steps(s: TaskState, tree: tuple[Step, ...], tile: TileValues) -> list[Statement]:
    out: list[Statement] = []
    for i, x in enumerate(tree):
        if isinstance(x, CallStep) and _sliced(s, x, tree[i + 1] if i + 1 < len(tree) else None):
            continue  # done for each slice, inside the loop that follows
        if isinstance(x, CallStep):
            out += steps.lower_call(s, x)
        else:
            out += [*steps.meeting(s, x), *_block(s, x, tile)]
    return out


def _sliced(s: TaskState, c: CallStep, following: Step | None) -> bool:
    """Defers a map of an accumulator into the loop that stores it slice by slice, right before each slice's store.

    The values are the same. A map of the whole accumulator at once makes ptxas interleave all its columns, and spill.
    """
    b = s.builder
    w = b.kernel.work(c.target, c.method) if c.kind == "work" else None
    if w is None or w.op != "map" or not isinstance(following, StaticFor) or not maps.is_column_wise(s, w):
        return False
    if (s.task.name, c.span) in b.derived.lanes.meetings:
        return False
    touching = [x for x in calls(following.body) if maps.touches(s, w, x)]
    if len(touching) != 1 or any(not isinstance(x, CallStep) for x in following.body):
        return False
    width = maps.stored_columns(s, w, touching[0], following.var)
    if width is None:
        return False
    s.deferred[id(touching[0])] = (c, following.var, width)
    return True


def _block(s: TaskState, x: Step, tile: TileValues) -> list[Statement]:
    match x:
        case TileLoop():
            return [_tile_loop(s, x, tile)]
        case DomainLoop():
            return _domain_loop(s, x, tile)
        case Skippable() if tile.skipped is None:
            return lower_steps(s, x.body, tile)
        case Skippable():
            note = s.builder.note(x.span.line, "skippable")
            return [_if(f"not {tile.skipped}", lower_steps(s, x.body, tile), note)]
        case Guard():
            return [_if(_guard(s, x), lower_steps(s, x.body, tile), s.builder.note(x.span.line, x.kind))]
        case When():
            return _when(s, x, tile)
        case StaticFor():
            return [_static_for(s, x, tile)]
        case StaticIf():
            return _static_if(s, x, tile)
    raise AssertionError(x)


def _when(s: TaskState, x: When, tile: TileValues) -> list[Statement]:
    guard = s.guards.get(id(x))
    if guard == NEVER:
        return [] if x.value else lower_steps(s, x.body, tile)
    condition = s.py(x.condition.expr) if guard is None else guard
    text = condition if x.value else f"not ({condition})" if " " in condition else f"not {condition}"
    if guard is not None:
        text = f"const_expr({text})"
    note = s.builder.note(x.span.line, "when_true" if x.value else "when_false")
    return [_if(text, lower_steps(s, x.body, tile), note)]


def _if(condition: str, body: list[Statement], note: str) -> Statement:
    return Statement("blocks/if", {"condition": condition}, note, tuple(body))


def _tile_loop(s: TaskState, x: TileLoop, tile: TileValues) -> Statement:
    assert tile.coord is not None
    if x.skip_if is not None and not never(s.builder.kernel, x.skip_if.expr):
        tile.skipped = s.names.new("skipped")
    body = lower_steps(s, x.body, tile)
    if x.skip_if is not None and tile.skipped is not None:
        condition = s.py(x.skip_if.expr)
        body = [*tile.statements(), assign(tile.skipped, condition), *body]
    else:
        at = _first_use(body, {dict.__getitem__(s.used, a) for a in tile.coord.axes}, s)
        body = [*body[:at], *tile.statements(), *body[at:]]
    if tile.coord.fetched:
        if (x.first.expr, x.stride.expr) != (Const(0), Const(1)):
            refuse("`first` or `stride` of tiles that the hardware hands out", x.span)
        note = s.builder.note(x.span.line, "work_tile_loop")
        return Statement("blocks/tile_while", {"var": tile.coord.var, "first": "cluster"}, note, tuple(body))
    loop = tile.coord.loop(py_factor(x.first.expr, s.scope), py_factor(x.stride.expr, s.scope))
    return Statement("blocks/tile_loop", {"loop": loop}, s.builder.note(x.span.line, "work_tile_loop"), tuple(body))


def _first_use(body: list[Statement], axes: set[str], s: TaskState) -> int:
    """Where a tile's coordinates are computed: after the first WGMMA is issued if nothing needs them before."""
    tile_names = axes | {
        s.used[x.name] for x in s.builder.kernel.launch.lets if x.time == "tile" and x.name in s.used.seen
    }
    tile_names |= {str(n) for x in s.tile_windows.values() for n in (x.values["smem"], x.values["gmem"])}
    for i, statement in enumerate(body):
        if any(mentions(statement, n) for n in tile_names):
            return 0
        if statement.template == "ops/wgmma":
            return i + 1
    return 0


def _domain_loop(s: TaskState, x: DomainLoop, tile: TileValues) -> list[Statement]:
    name = s.names.new(x.var)
    s.define(x.var, name)
    s.lasts[x.var] = Binary("-", x.end.expr, Const(1))
    s.lows[x.var] = x.start.expr
    start, end, step = s.py(x.start.expr), s.py(x.end.expr), s.py(x.step.expr)
    split = splitting(s, x)
    if split is not None:
        start, end = split.start, split.end
    body = lower_steps(s, x.body, tile)
    bounds = end if start == "0" and step == "1" else f"{start}, {end}" if step == "1" else f"{start}, {end}, {step}"
    values = {
        "var": name if mentions(body, name) else "_",
        "bounds": bounds,
        "unroll": x.unroll if x.unroll is not None else 1,
    }
    note = s.builder.note(x.span.line, "domain_loop")
    if split is None:
        return [Statement("blocks/domain_loop", values, note, tuple(body))]
    inner = Statement("blocks/domain_loop", values, None, tuple(body))
    return [Statement("blocks/split_loop", split.values, f"{note}, split where {split.guard} ends", (inner,))]


def _guard(s: TaskState, x: Guard) -> str:
    loop = next(y for y in walk(s.task.schedule.steps) if isinstance(y, DomainLoop) and x in tuple(walk(y.body)))
    var = s.used[loop.var]
    start, step = py_factor(loop.start.expr, s.scope), py_factor(loop.step.expr, s.scope)
    if x.kind == "first_iter":
        return f"{var} == {py_compared(loop.start.expr, s.scope)}"
    if x.kind == "last_iter":
        return f"{var} + {step} >= {py_compared(loop.end.expr, s.scope)}"
    count = var if start == "0" else f"({var} - {start})"
    count = count if step == "1" else f"{count} // {step}"
    period = py_factor(x.options.get("period", Const(x.period)), s.scope)
    first = py_factor(x.options.get("start", Const(x.start)), s.scope)
    if x.period == 1:
        return f"{count} >= {first}" if x.start else "True"
    if x.start == 0:
        return f"{count} % {period} == 0"
    since = count if x.start % x.period == 0 else f"({count} - {first})"
    return f"{count} >= {first} and {since} % {period} == 0"


def _static_for(s: TaskState, x: StaticFor, tile: TileValues) -> Statement:
    name = s.names.new(x.var)
    s.define(x.var, name)
    s.lasts[x.var] = Const(max(x.values, default=0))
    s.lows[x.var] = Const(min(x.values, default=0))
    body = lower_steps(s, x.body, tile)
    over = f"cutlass.range_constexpr({s.py(x.count)})" if x.count is not None else f"({', '.join(map(str, x.values))},)"
    return Statement(
        "blocks/static_for", {"var": name, "over": over}, s.builder.note(x.span.line, f"for {x.var}"), tuple(body)
    )


def _static_if(s: TaskState, x: StaticIf, tile: TileValues) -> list[Statement]:
    try:
        taken = bool(evaluate(x.condition.expr, s.scope.env))
    except NotConstant:
        condition = s.py(x.condition.expr)
        if s.task.each is None or s.task.each.var not in names(x.condition.expr):
            condition = f"const_expr({condition})"
        both = {r for c in calls(x.body) for r in c.results} & {r for c in calls(x.orelse) for r in c.results}
        if both:
            refuse(f"the token `{min(both)}`, which both branches of an `if` at run time assign", x.span)
        body = tuple(lower_steps(s, x.body, tile))
        values = {"condition": condition, "orelse": tuple(lower_steps(s, x.orelse, tile))}
        return [Statement("blocks/if_else", values, s.builder.note(x.span.line, "if"), body)]
    return lower_steps(s, x.body if taken else x.orelse, tile)
