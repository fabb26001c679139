"""Works: built-in ops with typed arguments, bodies, calls, and works that are only a role yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from tsgen.diagnostics import Span
from tsgen.model.expr import Expr, Placed, Ref, names, text
from tsgen.model.kernel import ArgValue, Assign, CopyArg, Role, Time, Work
from tsgen.model.methods import RESERVED
from tsgen.model.ops import OPS, Access, Op, OpParam, accesses
from tsgen.model.targets import SM100
from tsgen.spec import rules_parts, rules_works
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode, Node, ScalarNode
from tsgen.spec.parse import parse_assign
from tsgen.spec.resolve.bodies import check_body, check_twin
from tsgen.spec.resolve.context import Context, Head, TensorHead, mapping, string, strings
from tsgen.spec.resolve.refs import Scope, bind, bind_node, bind_ref
from tsgen.spec.resolve.resources import spans_of
from tsgen.spec.resolve.shapes import check_shapes

Owner = Head | TensorHead


@dataclass(slots=True)
class _Reader:
    """Resolves one work of one owner."""

    ctx: Context
    owner: Owner
    name: str
    node: MapNode
    span: Span
    scope: Scope
    spans: dict[str, Span]

    @property
    def kind(self) -> str:
        return self.owner.kind if isinstance(self.owner, Head) else "tensor"

    # -- parameters of ops ---------------------------------------------------------------------------------------

    def args(self, op: Op) -> dict[str, ArgValue]:
        found: dict[str, ArgValue] = {}
        for key, param in op.params.items():
            node = self.node.get(key)
            if node is not None:
                with self.ctx.catching():
                    found[key] = self.arg(op, key, param, node)
            elif param.default is not None:
                found[key] = param.default
        return found

    def arg(self, op: Op, key: str, param: OpParam, node: Node) -> ArgValue:
        where = f"`{key}` of `{op.name}`"
        match param.kind:
            case "ref":
                return self.ref(op, key, param.places, node)
            case "value":
                return bind_node(self.ctx, node, replace(self.scope, where=where, tiles=True))
            case "static":
                return bind_node(self.ctx, node, replace(self.scope, where=where, time="compile"))
            case "condition":
                return bind_node(self.ctx, node, replace(self.scope, where=where, tiles=key == "where"))
            case "copies":
                return tuple(self.copy(op, item) for item in cast(ListNode, node).items)
            case "assigns":
                return self.assigns(node)
            case "axis":
                return self.axis(node)
            case "int":
                return self.cta_group(node)
            case _:
                return string(node)

    def cta_group(self, node: Node) -> int:
        v = self.ctx.integer(node, low=1)
        if v > 2:
            raise SpecError(rules_works.cta_group(v, node.span))
        return v

    def ref(self, op: Op, key: str, places: tuple[str, ...], node: Node) -> Placed:
        registers = op.name == "load" and key == "from" and self.kind == "rmem"
        first = registers or ("tensor" in places and "own" not in places)
        p = bind_ref(self.ctx, node, replace(self.scope, where=f"`{key}` of `{op.name}`", tensor_first=first))
        assert isinstance(p.expr, Ref)
        place = self.place(p.expr)
        if place not in places and not ("own" in places and p.expr.resource == self.owner.name):
            raise SpecError(rules_works.operand_place(text(p.expr), place, key, op.name, places, node.span))
        return p

    def place(self, r: Ref) -> str:
        return "tensor" if r.resource is None else self.ctx.resources[r.resource].kind

    def copy(self, op: Op, node: Node) -> CopyArg:
        item = mapping(node)
        to_node, source_node = item.get("to"), item.get("from")
        assert to_node is not None and source_node is not None
        to = self.ref(op, "to", ("own",), to_node)
        source = self.ref(op, "from", ("tensor",), source_node)
        assert isinstance(to.expr, Ref) and isinstance(source.expr, Ref)
        multicast = None
        if (n := item.get("multicast")) is not None:
            multicast = self.axis(n)
            for part, at in ((source.expr, source_node.span), (to.expr, to_node.span)):
                if multicast in self.depends(part):
                    raise SpecError(rules_works.multicast_axis(multicast, text(part), at, n.span))
        return CopyArg(to.expr, source.expr, multicast, node.span, to.span, source.span)

    def depends(self, e: Expr) -> set[str]:
        """The names that an expression uses, through `let` values too."""
        lets = self.scope_lets
        found: set[str] = set()
        todo = list(names(e))
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += names(lets[name]) if name in lets else ()
        return found

    @property
    def scope_lets(self) -> Mapping[str, Expr]:
        return {let.name: let.value for let in self.ctx.lets}

    def axis(self, node: Node) -> str:
        name = string(node)
        symbol = self.ctx.symbols.get(name)
        if symbol is None or symbol.kind != "axis":
            axes = [s.name for s in self.ctx.symbols.values() if s.kind == "axis"]
            raise SpecError(rules_works.axis_wanted(name, self.ctx.near(name, axes), node.span))
        return name

    def assigns(self, node: Node) -> tuple[Assign, ...]:
        """The statements of a `map`. Names on the left that are no own fields become temporaries."""
        found: list[Assign] = []
        local: dict[str, Time] = dict(self.scope.locals)
        for item in cast(ListNode, node).items:
            assert isinstance(item, ScalarNode)
            with self.ctx.catching():
                name, e = parse_assign(item.source, item.span)
                scope = replace(self.scope, where="a `map`", tiles=True, locals=local)
                value, _ = bind(self.ctx, e, scope, item.span)
                if scope.owns(name):
                    self.spans[f"set.{name}"] = item.span
                elif name in self.scope.locals:
                    raise SpecError(rules_works.assigned_argument(name, item.span))
                else:
                    self.ctx.local_name(name, "a temporary", item.span)
                    local[name] = "step"
                found.append(Assign(name, value, item.span))
        return tuple(found)

    def facts(self) -> dict[str, ArgValue]:
        """Arguments of a work without op: of its MMA, whose operands the spec does not show."""
        node = self.node.get("cta_group")
        if node is None:
            return {}
        group = self.cta_group(node)
        if group > 1 and self.ctx.target not in SM100:
            self.ctx.add(rules_parts.needs_target(f"`cta_group: {group}`", SM100, self.ctx.target, node.span))
        return {"cta_group": group}

    # -- the work ------------------------------------------------------------------------------------------------

    def work(self) -> Work:
        ctx, node = self.ctx, self.node
        op = OPS[string(node.get("op"))] if node.get("op") is not None else None
        if self.name in RESERVED:
            ctx.add(rules_works.reserved_work(self.name, self.span))
        takes, static, returns = (tuple(n for n, _ in strings(node.get(k))) for k in ("takes", "static", "returns"))
        self.check_names()
        args = self.args(op) if op is not None else self.facts()
        if op is not None:
            self.check_op(op, returns)
        body = string(node.get("body")) if node.get("body") is not None else None
        written_role = string(node.get("role")) if node.get("role") is not None else None
        scope = "warp" if node.get("scope") is not None and string(node.get("scope")) == "warp" else "task"
        work = Work(
            self.name,
            self.owner.name,
            cast(Role, written_role or "producer"),
            op.name if op else None,
            args,
            takes,
            static,
            returns,
            cast(Literal["task", "warp"], scope),
            any(n == "auxiliary" for n, _ in strings(node.get("attrs"))),
            body,
            string(node.get("call")) if node.get("call") is not None else None,
            self.bound("reads"),
            self.bound("writes"),
            string(node.get("async")) if node.get("async") is not None else None,
            self.nbytes(),
            string(node.get("numpy")) if node.get("numpy") is not None else None,
            self.span,
            self.spans,
        )
        if op is not None:
            if not self.complete(op, args):
                return work
            work = replace(work, role=self.role(work, written_role))
            check_shapes(ctx, work, self.scope.locals)
            return work
        work = self.with_own_fields(work)
        if work.numpy is not None:
            check_twin(ctx, work, cast(ScalarNode, node.get("numpy")))
        if body is not None:
            check_body(ctx, self.owner, work, cast(ScalarNode, node.get("body")), self.scope)
        return work

    def complete(self, op: Op, args: Mapping[str, ArgValue]) -> bool:
        """Whether every required argument could be read: else findings say why."""
        return all(key in args for key, p in op.params.items() if p.required)

    def check_names(self) -> None:
        seen: dict[str, Span] = {}
        for key in ("takes", "static"):
            for name, span in strings(self.node.get(key)):
                self.ctx.local_name(name, f"an argument of `{self.name}`", span)
                if name in seen:
                    self.ctx.add(rules_works.argument_twice(name, self.name, span, seen[name]))
                seen.setdefault(name, span)
                if self.scope.owns(name):
                    self.ctx.add(rules_works.argument_is_field(name, self.owner.name, span))
        results = strings(self.node.get("returns"))
        for i, (name, span) in enumerate(results):
            if name in (n for n, _ in results[:i]):
                self.ctx.add(rules_works.result_twice(name, self.name, span))

    def check_op(self, op: Op, returns: tuple[str, ...]) -> None:
        ctx = self.ctx
        op_span = self.spans["op"]
        if ctx.target not in op.targets:
            ctx.add(rules_works.op_target(op.name, op.targets, ctx.target, op_span))
        if self.kind not in op.owners:
            ctx.add(rules_works.op_owner(op.name, op.owners, self.kind, op_span))
        result = op.name == "load" and self.node.get("to") is None
        if result and len(returns) != 1:
            raise SpecError(rules_works.load_result(self.name, op_span))
        if not result and returns:
            ctx.add(rules_works.op_returns(op.name, self.spans["returns"]))

    def role(self, work: Work, written: str | None) -> Role:
        """Writes its owner: producer; reads it only: consumer. A consumer may also write in place."""
        own = [a for a in accesses(work) if self.is_own(a)]
        place = self.spans["op"]
        if not own and written is None:
            raise SpecError(rules_works.untouched_owner(work.name, self.owner.name, place))
        derived: Role = "producer" if any(a.mode == "write" for a in own) else "consumer"
        if own and written == "producer" and derived == "consumer":
            raise SpecError(rules_works.wrong_role(work.name, self.owner.name, self.spans["role"]))
        return cast(Role, written) if written is not None else derived

    def is_own(self, a: Access) -> bool:
        if isinstance(self.owner, Head):
            return a.ref.resource == self.owner.name
        return a.ref.resource is None and a.ref.name == self.owner.name

    def bound(self, key: str) -> dict[str, Placed]:
        found: dict[str, Placed] = {}
        for name, span, node in mapping(self.node.get(key)).items():
            with self.ctx.catching():
                if not self.scope.owns(name):
                    self.ctx.local_name(name, "a view", span, field=True)
                found[name] = bind_ref(self.ctx, node, replace(self.scope, where=f"`{key}`"))
        return found

    def nbytes(self) -> Placed | None:
        node = self.node.get("bytes")
        return None if node is None else bind_node(self.ctx, node, replace(self.scope, where="`bytes`"))

    def with_own_fields(self, work: Work) -> Work:
        """A body, call or role touches its owner's fields (or the tensor) as its role says."""
        if isinstance(self.owner, Head):
            own = {f: Placed(Ref(self.owner.name, None, f), self.span) for f in self.owner.fields}
        else:
            own = {self.owner.name: Placed(Ref(None, None, self.owner.name), self.span)}
        if work.role == "producer":
            return replace(work, writes={**own, **work.writes})
        return replace(work, reads={**own, **work.reads})


def resolve_works(ctx: Context, owner: Owner) -> dict[str, Work]:
    """The works of a resource or tensor that are present. One that cannot be read is left out, with a finding."""
    found: dict[str, Work] = {}
    for name, span, node in mapping(owner.node.get("work")).items():
        assert isinstance(node, MapNode)
        if not ctx.present(node):
            ctx.absent_works.add((owner.name, name))
            continue
        ctx.known_works.setdefault(owner.name, []).append(name)
        with ctx.catching():
            spans = spans_of(node)
            local: dict[str, Time] = {}
            if isinstance(owner, Head) and owner.each is not None:
                local[owner.each.var] = "compile"
            local.update(dict.fromkeys((n for n, _ in strings(node.get("takes"))), "step"))
            local.update(dict.fromkeys((n for n, _ in strings(node.get("static"))), "compile"))
            scope = Scope("a work", "step", local, owner if isinstance(owner, Head) else None)
            found[name] = _Reader(ctx, owner, name, node, span, scope, spans).work()
    return found
