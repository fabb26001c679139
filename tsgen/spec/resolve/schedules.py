"""`schedules`: the block grammar and the nesting rules of docs/language.md section 7."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from tsgen.diagnostics import Span
from tsgen.frozen import frozen
from tsgen.model.algebra import is_constant, prune
from tsgen.model.expr import Const, Expr, Name, Placed, Ref, names, walk
from tsgen.model.kernel import Time
from tsgen.model.methods import QUEUE_STEPS
from tsgen.model.steps import (
    CallStep,
    DomainLoop,
    Guard,
    Schedule,
    Skippable,
    StaticFor,
    StaticIf,
    Step,
    TileLoop,
    When,
)
from tsgen.model.steps import walk as all_steps
from tsgen.spec import rules_names, rules_steps
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode, Node, ScalarNode
from tsgen.spec.resolve.calls import Calls, Token
from tsgen.spec.resolve.context import Context, mapping, string
from tsgen.spec.resolve.refs import Scope, bind_node

GUARDS = ("first_iter", "last_iter", "every", "when_true", "when_false")
_LIMIT = 2**31
MAX_COPIES = 1024  # of the body of a `for`


@frozen
class Place:
    """Where in the tree of blocks a step stands."""

    locals: Mapping[str, Time]
    domain: Span | None = None
    tiles: TileLoop | None = None  # the enclosing loop over tiles, its body still empty
    outside: bool = False  # of the tile loop of a schedule that has one
    skippable: bool = False
    guard: tuple[str, Span] | None = None
    static_for: bool = False


@dataclass(slots=True)
class Builder:
    """Builds one schedule; collects findings and goes on with the next step."""

    ctx: Context
    calls: Calls
    domain: Span | None = None  # the domain loop that was seen
    tiles: Span | None = None
    tokens: dict[str, Token] = field(default_factory=dict)

    def steps(self, node: Node | None, place: Place) -> tuple[Step, ...]:
        """The steps of a list, in order; a step sees the tokens of those before it."""
        found: list[Step] = []
        for item in node.items if isinstance(node, ListNode) else ():
            try:
                found += self.step(item, place)
            except SpecError as e:
                self.ctx.add(e.diagnostic)
                self.assume(item)
        return tuple(found)

    def assume(self, node: Node) -> None:
        """Takes the results of a step that could not be read as assigned: their uses give no findings of their own."""
        if isinstance(node, ScalarNode):
            for name, span in _assigned(node):
                broken = CallStep("work", "", None, "", {}, (), node.source, span)
                self.tokens[name] = Token(broken, name)

    def step(self, node: Node, place: Place) -> tuple[Step, ...]:
        if isinstance(node, ScalarNode):
            return (self.call(node, place),)
        assert isinstance(node, MapNode)
        block, span, options = next(iter(node.items()))
        body = node.get("steps")
        if block == "if":
            return self.static_if(node, options, body, place)
        read = {
            "domain_loop": self.domain_loop,
            "work_tile_loop": self.tile_loop,
            "skippable": self.skippable,
            "first_iter": self.guarded,
            "last_iter": self.guarded,
            "every": self.guarded,
            "when_true": self.when,
            "when_false": self.when,
            "for": self.static_for,
        }[block]
        return (read(block, mapping(options), body, span, place),)

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, node: ScalarNode, place: Place) -> CallStep:
        step = self.calls.read(node, self.scope("a step", place), self.tokens)
        if place.outside:
            self.calls.check_outside(step)
        if step.kind == "queue":
            if place.tiles is None or place.tiles.queue != step.target:
                self.ctx.add(
                    rules_steps.other_queue(step.target, place.tiles.queue if place.tiles else None, step.span)
                )
            if place.skippable:
                self.ctx.add(rules_steps.queue_step_skippable(step.span))
        for name in step.results:
            if name in place.locals:
                self.ctx.add(rules_names.hidden_name(name, "a token", "variable", step.span, step.span))
            else:
                self.ctx.local_name(name, "a token", step.span)
            self.tokens[name] = Token(step, self.calls.key_of(step, name, self.tokens))
        return step

    def scope(self, where: str, place: Place, time: Time = "step") -> Scope:
        local: dict[str, Time] = dict.fromkeys(self.tokens, "step")
        local.update(place.locals)
        return Scope(where, time, local)

    def bind(self, node: Node, where: str, place: Place, time: Time = "step") -> Placed:
        """An expression of a block's options. Raises SpecError."""
        scope = self.scope(where, place, time)
        with self.calls.explaining(scope, node.span):
            return bind_node(self.ctx, node, scope)

    def inside(self, node: Node | None, place: Place) -> tuple[Step, ...]:
        """A body whose tokens end with it: it may not run."""
        before = dict(self.tokens)
        steps = self.steps(node, place)
        self.calls.forget(self.tokens, before)
        self.tokens = before
        return steps

    # -- loops ---------------------------------------------------------------------------------------------------

    def domain_loop(self, block: str, options: MapNode, body: Node | None, span: Span, place: Place) -> Step:
        ctx = self.ctx
        if self.domain is not None:
            ctx.add(rules_steps.second_domain_loop(span, self.domain, place.domain is not None))
        self.domain = self.domain or span
        if place.outside:
            ctx.add(rules_steps.outside_tile_loop("a `domain_loop`", span))
        if place.static_for:
            ctx.add(rules_steps.step_in_static_for(block, span))
        if place.guard:
            ctx.add(rules_steps.guard_nested(block, place.guard[0], span, place.guard[1]))
        if place.tiles is not None and place.tiles.skip_if is not None and not place.skippable:
            ctx.add(rules_steps.loop_not_skippable(span, place.tiles.skip_if.span))
        var_node = options.get("var")
        assert var_node is not None
        var = string(var_node)
        self.variable(var, "a loop variable", var_node.span, place)
        step = self.bound(options, "step", 1, place)
        self.at_least(block, "step", step, 1)
        start, end = self.bound(options, "start", 0, place), self.bound(options, "end", 0, place)
        unroll = None if (n := options.get("unroll")) is None else ctx.integer(n, low=1)
        divergent = [p for p in (start, end, step) if self.differs(p)]
        inner = replace(place, locals={**place.locals, var: "step"}, domain=span)
        steps = self.inside(body, inner)
        if divergent and (other := self.calls.together(steps)) is not None:
            ctx.add(rules_steps.divergent(other.text, "loop", other.span, divergent[0].span))
        return DomainLoop(var, start, end, step, unroll, steps, span)

    def differs(self, p: Placed) -> bool:
        """Whether a value may differ between the threads of a task."""
        tokens = {"thread", "warp", "lane", *self.tokens}
        return any(
            (isinstance(e, Name) and e.id in tokens) or (isinstance(e, Ref) and e.resource) for e in walk(p.expr)
        )

    def bound(self, options: MapNode, key: str, default: int, place: Place) -> Placed:
        node = options.get(key)
        if node is None:
            return Placed(Const(default), options.span)
        try:
            return self.bind(node, "a loop bound", place)
        except SpecError as e:
            self.ctx.add(e.diagnostic)
            return Placed(Const(default), node.span)

    def tile_loop(self, block: str, options: MapNode, body: Node | None, span: Span, place: Place) -> Step:
        ctx = self.ctx
        if self.tiles is not None:
            ctx.add(rules_steps.tile_loop_place("a schedule has one `work_tile_loop`", span, self.tiles))
        elif place.domain or place.guard or place.static_for:
            ctx.add(rules_steps.tile_loop_place("a `work_tile_loop` is the outermost loop of its schedule", span))
        self.tiles = self.tiles or span
        queue_node = options.get("queue")
        assert queue_node is not None
        queue = string(queue_node)
        head = ctx.resources.get(queue)
        if head is None or head.kind != "work_queue":
            queues = [h.name for h in ctx.resources.values() if h.kind == "work_queue"]
            ctx.add(rules_steps.not_a_queue(queue, ctx.near(queue, queues), queue_node.span))
        skip = None
        if (n := options.get("skip_if")) is not None:
            with ctx.catching():
                skip = self.bind(n, "`skip_if`", place, "tile")
        first, stride = (self.constant(options, k, d, place) for k, d in (("first", 0), ("stride", 1)))
        self.at_least(block, "first", first, 0)
        self.at_least(block, "stride", stride, 1)
        loop = TileLoop(queue, skip, first, stride, (), span)
        inner = replace(place, tiles=loop, outside=False)
        steps = self.inside(body, inner)
        if head is not None and not self.calls.waits_for(queue, steps):
            steps += tuple(self.queue_step(queue, method, span) for method in QUEUE_STEPS)
        return replace(loop, body=steps)

    def constant(self, options: MapNode, key: str, default: int, place: Place) -> Placed:
        node = options.get(key)
        if node is None:
            return Placed(Const(default), options.span)
        return self.bind(node, f"`{key}`", place, "compile")

    def at_least(self, block: str, option: str, p: Placed, low: int) -> None:
        """A finding if an option that is known by now is too small."""
        if is_constant(p.expr, self.ctx.env):
            v = self.ctx.value(p.expr, p.span)
            if isinstance(v, str) or v < low:
                self.ctx.add(rules_steps.block_option(block, f"`{option}` is {v}, expected at least {low}", p.span))

    def queue_step(self, queue: str, method: str, span: Span) -> CallStep:
        return CallStep("queue", queue, None, method, {}, (), f"{queue}.{method}()", span, True)

    def skippable(self, block: str, options: MapNode, body: Node | None, span: Span, place: Place) -> Step:
        reason = None
        if place.skippable:
            reason = "a `skippable` block stands in another one"
        elif place.tiles is None:
            reason = "a `skippable` block stands outside a `work_tile_loop`"
        elif place.tiles.skip_if is None:
            reason = "the `work_tile_loop` around this `skippable` block has no `skip_if`"
        if reason:
            self.ctx.add(rules_steps.skippable_place(reason, span))
        return Skippable(self.inside(body, replace(place, skippable=True)), span)

    # -- guards --------------------------------------------------------------------------------------------------

    def guarding(self, block: str, span: Span, place: Place) -> Place:
        if place.domain is None:
            self.ctx.add(rules_steps.guard_place(block, span))
        if place.guard:
            self.ctx.add(rules_steps.guard_nested(block, place.guard[0], span, place.guard[1]))
        return replace(place, guard=(block, span))

    def guarded(self, block: str, options: MapNode, body: Node | None, span: Span, place: Place) -> Step:
        inner = self.guarding(block, span, place)
        values = {}
        for key, default, low in (("period", 1, 1), ("start", 0, 0)):
            node = options.get(key)
            values[key] = default if node is None else self.ctx.integer(node)
            if node is not None and not low <= values[key] < _LIMIT:
                reason = f"`{key}` is {values[key]}, expected {low} to {_LIMIT - 1}"
                self.ctx.add(rules_steps.block_option(block, reason, node.span))
        kind = cast(Literal["first_iter", "last_iter", "every"], block)
        written = {key: self.ctx.parse(node) for key in values if (node := options.get(key)) is not None}
        return Guard(kind, values["period"], values["start"], self.inside(body, inner), span, written)

    def when(self, block: str, options: MapNode, body: Node | None, span: Span, place: Place) -> Step:
        inner = self.guarding(block, span, place)
        node = options.get("cond")
        assert node is not None
        condition = self.bind(node, "a condition", place)
        written = options.get("key")
        key = string(written) if written is not None else self.calls.condition_key(condition.expr, self.tokens)
        steps = self.inside(body, inner)
        own = any(isinstance(e, Name) and e.id in ("thread", "warp", "lane") for e in walk(condition.expr))
        if own and (other := self.calls.together(steps)) is not None:
            self.ctx.add(rules_steps.divergent(other.text, "condition", other.span, condition.span))
        return When(block == "when_true", condition, key, steps, span, written is not None)

    # -- compile time --------------------------------------------------------------------------------------------

    def static_for(self, block: str, options: MapNode, body: Node | None, span: Span, place: Place) -> Step:
        ((var, var_span, node),) = options.items()
        self.variable(var, "a `for` variable", var_span, place)
        count: Expr | None = None
        if isinstance(node, ListNode):
            values = tuple(self.ctx.integer(i) for i in node.items)
        else:
            count = prune(self.ctx.parse(node), self.ctx.env)
            values = tuple(range(self.ctx.integer(node, low=0, high=MAX_COPIES)))
        inner = replace(place, locals={**place.locals, var: "compile"}, static_for=True)
        steps = self.steps(body, inner) if values else self.inside(body, inner)
        return StaticFor(var, count, values, steps, span)

    def static_if(self, node: MapNode, condition: Node, body: Node | None, place: Place) -> tuple[Step, ...]:
        """A choice over params alone is taken here; one over `each` or `for` indices stays in the tree."""
        span = node.key_span("if")
        p = self.bind(condition, "`if`", place, "compile")
        orelse = node.get("else")
        if is_constant(p.expr, self.ctx.env):
            return self.steps(body if self.ctx.value(p.expr, p.span) else orelse, place)
        before = dict(self.tokens)
        steps, then = self.steps(body, place), self.tokens
        self.tokens = dict(before)
        other = self.steps(orelse, place)
        both = {n: t for n, t in then.items() if n in self.tokens}
        self.calls.forget({**then, **self.tokens}, both)
        self.tokens = both
        return (StaticIf(p, steps, other, span),)

    def variable(self, name: str, what: str, span: Span, place: Place) -> None:
        if name in place.locals or name in self.tokens:
            self.ctx.add(rules_names.hidden_name(name, what, "variable", span, span))
        self.ctx.local_name(name, what, span)


def resolve_schedule(
    ctx: Context, calls: Calls, name: str, node: Node, each: Mapping[str, Time], span: Span
) -> Schedule:
    """One schedule, as the tasks that run it see it: `each` are their instance variables."""
    builder = Builder(ctx, calls.fresh(dict(_assigned(node))))
    before = len(ctx.diagnostics)
    persistent = _has_tile_loop(node)
    steps = builder.steps(node, Place(each, outside=persistent))
    if len(ctx.diagnostics) == before:  # else a step that could not be read may be the one that uses the token
        _check_used(ctx, steps)
    return Schedule(name, steps, span)


def _check_used(ctx: Context, steps: tuple[Step, ...]) -> None:
    used = {name for step in all_steps(steps) for e in _expressions(step) for name in names(e)}
    for step in all_steps(steps):
        if isinstance(step, CallStep) and step.results and not used & set(step.results):
            ctx.add(rules_steps.unused_token(f"{step.target}.{step.method}", step.results, step.span))


def _expressions(step: Step) -> Iterator[Expr]:
    """What a step says in expressions."""
    match step:
        case CallStep():
            yield from (p.expr for p in step.args.values())
        case DomainLoop():
            yield from (step.start.expr, step.end.expr, step.step.expr)
        case TileLoop():
            yield from (p.expr for p in (step.first, step.stride, step.skip_if) if p is not None)
        case When() | StaticIf():
            yield step.condition.expr


def _assigned(node: Node | None) -> Iterator[tuple[str, Span]]:
    """The tokens that a schedule assigns anywhere, with the place of the step."""
    match node:
        case ScalarNode(value=str() as step):
            left, equals, _ = step.partition("=")
            if equals and "(" not in left:
                yield from ((name.strip(), node.span) for name in left.split(","))
        case ListNode():
            for item in node.items:
                yield from _assigned(item)
        case MapNode():
            yield from _assigned(node.get("steps"))
            yield from _assigned(node.get("else"))


def _has_tile_loop(node: Node | None) -> bool:
    if isinstance(node, ListNode):
        return any(_has_tile_loop(i) for i in node.items)
    if isinstance(node, MapNode):
        return "work_tile_loop" in node.entries or _has_tile_loop(node.get("steps")) or _has_tile_loop(node.get("else"))
    return False
