"""Call steps: what their target is, whether it has the method, and whether the arguments fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Literal

from tsgen.diagnostics import Span
from tsgen.frozen import frozen
from tsgen.model.algebra import NotConstant, NoValue, canonical, evaluate, substitute
from tsgen.model.expr import Expr, Name, Placed, text, walk
from tsgen.model.kernel import Group, Time, Work
from tsgen.model.methods import ENGINES, GROUP_METHODS, METHODS, Method, Receiver
from tsgen.model.ops import OPS
from tsgen.model.poly import Poly
from tsgen.model.steps import CallKind, CallStep, Step
from tsgen.model.steps import calls as all_calls
from tsgen.spec import rules_names, rules_steps, rules_works
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ScalarNode
from tsgen.spec.parse import ParsedCall, parse_call
from tsgen.spec.resolve.context import Context
from tsgen.spec.resolve.refs import Scope, UnknownName, bind, bind_instance


@frozen
class Token:
    """A name that a step has assigned. `key` says what value it is: equal keys have equal values in all tasks."""

    step: CallStep
    key: str


@dataclass(slots=True)
class Calls:
    """Reads call steps of one kernel."""

    ctx: Context
    works: Mapping[tuple[str, str], Work]
    groups: Mapping[str, Group]
    keys: dict[Poly, str] = field(default_factory=dict)  # of conditions, shared by all schedules
    ended: dict[str, Span] = field(default_factory=dict)  # tokens whose block is over
    assigned: Mapping[str, Span] = field(default_factory=dict)  # all tokens of the schedule

    def fresh(self, assigned: Mapping[str, Span]) -> Calls:
        """For the next schedule: conditions' keys are shared, tokens are not."""
        return replace(self, ended={}, assigned=assigned)

    def forget(self, tokens: Mapping[str, Token], kept: Mapping[str, Token]) -> None:
        """Remembers the tokens that end here, for the message of a later use."""
        self.ended.update({n: t.step.span for n, t in tokens.items() if n not in kept})

    def read(self, node: ScalarNode, scope: Scope, tokens: Mapping[str, Token]) -> CallStep:
        """The call step of a text. Raises SpecError."""
        parsed = parse_call(node.source, node.span)
        kind, method = self.kind(parsed, node.span)
        args: dict[str, Placed] = {}
        if kind == "work":
            work = self.works.get((parsed.target, parsed.method))
            self.check_work(parsed, work, node.span)
            static = work.static if work else ()
            for name, e in parsed.args.items():
                args[name] = self.argument(e, scope, node.span, f"`{name}`", "compile" if name in static else "step")
        else:
            assert method is not None
            self.check_plain(parsed, method, node.span)
            for e in parsed.positional:
                time: Time = "launch" if method.name == "skip" else "compile"
                args["n"] = self.argument(e, scope, node.span, f"the count of `{method.name}`", time)
        instance = self.instance(parsed, scope, node.span)
        return CallStep(
            kind, parsed.target, instance, parsed.method, args, parsed.results, node.source.strip(), node.span
        )

    def argument(self, e: Expr, scope: Scope, span: Span, where: str, time: Time) -> Placed:
        with self.explaining(scope, span):
            bound, _ = bind(self.ctx, e, replace(scope, where=where, time=time), span)
        return Placed(bound, span)

    @contextmanager
    def explaining(self, scope: Scope, span: Span) -> Iterator[None]:
        """Says of an unknown name what is wrong with it, where a step of the schedule does assign it."""
        try:
            yield
        except UnknownName as e:
            name = e.name
            if name in scope.locals or name not in self.assigned:
                raise
            if name in self.ended:
                raise SpecError(rules_steps.token_scope(name, span, self.ended[name])) from None
            raise SpecError(rules_steps.token_later(name, span, self.assigned[name])) from None

    # -- targets -------------------------------------------------------------------------------------------------

    def kind(self, call: ParsedCall, span: Span) -> tuple[CallKind, Method | None]:
        """What the target is, and the registry's entry of the method (None for works). Raises SpecError."""
        ctx, target = self.ctx, call.target
        if target in ENGINES:
            return "completion", self.method(call, target, span)
        if target in self.groups:
            return "group", self.group_method(call, self.groups[target], span)
        if target in ctx.absent:
            raise SpecError(rules_names.absent_name(target, ctx.absent[target], ctx.within(span, target)))
        head = ctx.resources.get(target)
        if head is None and target not in ctx.tensors:
            known = [*ctx.resources, *ctx.tensors, *self.groups, *ENGINES]
            raise SpecError(rules_steps.unknown_step_target(target, ctx.near(target, known), ctx.within(span, target)))
        if head is not None and head.kind in ("work_queue", "barrier", "pdl"):
            kind: Literal["queue", "barrier", "pdl"] = "queue" if head.kind == "work_queue" else head.kind
            if not self.has_work(call):
                return kind, self.method(call, kind, span)
        if call.method in METHODS["pipeline"] and not self.has_work(call):
            if head is None or not head.pipelined:
                raise SpecError(rules_steps.no_pipeline(target, call.method, ctx.within(span, call.method)))
            self.check_member(call, span)
            return "pipeline", METHODS["pipeline"][call.method]
        if self.has_work(call):
            return "work", None
        return "work", self.no_work(call, head is not None and head.pipelined, span)

    def has_work(self, call: ParsedCall) -> bool:
        return call.method in self.ctx.known_works.get(call.target, ())

    def no_work(self, call: ParsedCall, pipelined: bool, span: Span) -> Method:
        if (call.target, call.method) in self.ctx.absent_works:
            raise SpecError(
                rules_names.absent_name(f"{call.target}.{call.method}", "work", self.ctx.within(span, call.method))
            )
        known = (*self.ctx.known_works.get(call.target, ()), *(METHODS["pipeline"] if pipelined else ()))
        place, near = self.ctx.within(span, call.method), self.ctx.near(call.method, known)
        raise SpecError(rules_steps.unknown_method(call.target, call.method, known, near, place))

    def method(self, call: ParsedCall, receiver: Receiver, span: Span) -> Method:
        known = METHODS[receiver]
        if call.method not in known:
            near = self.ctx.near(call.method, known)
            raise SpecError(
                rules_steps.unknown_method(
                    call.target, call.method, tuple(known), near, self.ctx.within(span, call.method)
                )
            )
        method = known[call.method]
        if self.ctx.target not in method.targets:
            what = f"{call.target}.{call.method}"
            self.ctx.add(rules_works.op_target(what, method.targets, self.ctx.target, span))
        return method

    def group_method(self, call: ParsedCall, group: Group, span: Span) -> Method:
        own = GROUP_METHODS[group.mode]
        if call.method in own:
            return METHODS["pipeline"][call.method]
        if call.method in METHODS["pipeline"]:
            raise SpecError(rules_steps.group_step(group.name, call.method, group.name, group.mode, own, span))
        near = self.ctx.near(call.method, own)
        raise SpecError(
            rules_steps.unknown_method(group.name, call.method, own, near, self.ctx.within(span, call.method))
        )

    def check_member(self, call: ParsedCall, span: Span) -> None:
        for group in self.groups.values():
            own = GROUP_METHODS[group.mode]
            if call.target in group.members and call.method in own:
                self.ctx.add(rules_steps.group_step(call.target, call.method, group.name, group.mode, own, span))

    def instance(self, call: ParsedCall, scope: Scope, span: Span) -> Expr | None:
        head = self.ctx.resources.get(call.target)
        return bind_instance(self.ctx, call.target, head.each if head else None, call.instance, scope, span)

    # -- arguments -----------------------------------------------------------------------------------------------

    def check_plain(self, call: ParsedCall, method: Method, span: Span) -> None:
        name = f"{call.target}.{call.method}"
        if call.results:
            raise SpecError(rules_steps.result_count(name, 0, len(call.results), span))
        if call.args or len(call.positional) != (1 if method.counted else 0):
            expected = "one number by position" if method.counted else "no argument"
            raise SpecError(rules_steps.step_argument(f"`{name}` takes {expected}", span, None))
        for e in call.positional:
            try:
                value = evaluate(e, self.ctx.env)
            except (NotConstant, NoValue):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise SpecError(rules_steps.step_argument(f"`{name}` takes a count of at least 0", span))

    def check_work(self, call: ParsedCall, work: Work | None, span: Span) -> None:
        if work is None:  # it could not be read; its own finding says why
            return
        ctx, name = self.ctx, f"{call.target}.{call.method}"
        known = (*work.takes, *work.static)
        if call.positional:
            ctx.add(rules_steps.positional_argument(name, known, span))
        for arg in call.args:
            if arg not in known:
                ctx.add(rules_steps.unknown_argument(name, arg, ctx.near(arg, known), ctx.within(span, arg, r"\s*=")))
        if not call.positional:
            for arg in known:
                if arg not in call.args:
                    ctx.add(rules_steps.missing_argument(name, arg, span, work.span))
        if call.results and len(call.results) != len(work.returns):
            ctx.add(rules_steps.result_count(name, len(work.returns), len(call.results), span))

    def check_outside(self, step: CallStep) -> None:
        """Outside the tile loop stand only steps that need no balance over tiles."""
        head = self.ctx.resources.get(step.target)
        work = self.works.get((step.target, step.method))
        allowed = (
            step.kind in ("barrier", "pdl", "completion")
            or (step.kind == "pipeline" and step.method == "skip")
            or (step.kind == "work" and work is not None and work.auxiliary)
            or (step.kind == "work" and head is not None and head.kind == "rmem")
        )
        if not allowed:
            self.ctx.add(rules_steps.outside_tile_loop(f"`{step.target}.{step.method}`", step.span))

    # -- queues and conditions -----------------------------------------------------------------------------------

    def together(self, steps: tuple[Step, ...]) -> CallStep | None:
        """The first step that the threads of a task must perform together."""
        for c in all_calls(steps):
            work = self.works.get((c.target, c.method))
            if c.kind != "work" or (work is not None and work.op is not None and OPS[work.op].issue != "threads"):
                return c
        return None

    def waits_for(self, queue: str, steps: tuple[Step, ...]) -> bool:
        return any(c.kind == "queue" and c.target == queue and c.method == "wait" for c in all_calls(steps))

    def key_of(self, step: CallStep, result: str, tokens: Mapping[str, Token]) -> str:
        """What value a result is: the same work with the same arguments gives the same value in every task."""
        work = self.works.get((step.target, step.method))
        position = step.results.index(result)
        name = work.returns[position] if work and position < len(work.returns) else result
        args = ", ".join(f"{k}={self.token_text(p.expr, tokens)}" for k, p in sorted(step.args.items()))
        at = f"[{self.token_text(step.instance, tokens)}]" if step.instance is not None else ""
        return f"{step.target}{at}.{step.method}({args}).{name}"

    def token_text(self, e: Expr, tokens: Mapping[str, Token]) -> str:
        return text(self.keyed(e, tokens))

    def keyed(self, e: Expr, tokens: Mapping[str, Token]) -> Expr:
        used = {n.id for n in walk(e) if isinstance(n, Name)}
        return substitute(e, {n: Name(t.key) for n, t in tokens.items() if n in used})

    def condition_key(self, e: Expr, tokens: Mapping[str, Token]) -> str:
        """One text for all conditions that are equal in canonical form."""
        keyed = self.keyed(e, tokens)
        return self.keys.setdefault(canonical(keyed, self.ctx.env), text(keyed))
