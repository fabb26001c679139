"""A task's schedule as steps that TS records and works that become methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tsgen.lower import steps
from tsgen.lower.binding import bind
from tsgen.lower.context import DSL_TYPES, Builder, TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.instances import is_for_all
from tsgen.lower.mma import ref_of
from tsgen.lower.pipelines import is_asked, touches_generically
from tsgen.lower.positions import group_of, side_of
from tsgen.lower.program import Statement
from tsgen.lower.proofs import never
from tsgen.lower.pyexpr import py_factor
from tsgen.lower.queue import queue_of
from tsgen.lower.rings import producer_kind
from tsgen.lower.task import task_state
from tsgen.lower.tokens import ScalarToken, Token
from tsgen.lower.tries import late
from tsgen.lower.ts.program import (
    GET_DOMAIN,
    KEY,
    OWN_STAGE,
    SKIP_IF,
    Block,
    Instance,
    Item,
    Result,
    Step,
    WorkCall,
    every,
    line,
)
from tsgen.lower.ts.rename import renamed
from tsgen.lower.ts.skips import left_out
from tsgen.model.algebra import NotConstant, canonical, evaluate, is_constant, substitute
from tsgen.model.expr import Binary, Const, Expr, Name, Placed, names
from tsgen.model.kernel import Task, TaskInstance, Work
from tsgen.model.ops import accesses
from tsgen.model.steps import (
    CallStep,
    DomainLoop,
    Guard,
    Skippable,
    StaticFor,
    StaticIf,
    TileLoop,
    When,
    calls,
    step_text,
    walk,
)
from tsgen.model.steps import Step as SpecStep

CONDITIONS = "conditions"  # owner of the works that evaluate `when_true` and `when_false`
PENDING = "pending groups"  # no name of a spec: its first word is the parameter's
LOOP, TILES = "loop", "tile_loop"  # what a schedule calls its loops
Tree = tuple[SpecStep, ...]
_BOOLEAN = "cutlass.Boolean"


class Walk:
    """One pass over the schedule of a task; of one instance where the schedule differs between instances."""

    def __init__(
        self, b: Builder, task: Task, instance: TaskInstance | None, base: dict[str, str], extents: dict[str, str]
    ) -> None:
        self.s: TaskState = task_state(b, task, base, extents)
        self.b, self.task, self.instance = b, task, instance
        self.stage_names: dict[str, str] = {}  # ring -> its stage in works of other resources
        self.loop: str | None = None  # variable of the domain loop, while inside
        self.domain: Expr | None = None  # end of the loop where it is a value of the tile
        self.offset: str | None = None  # what works add to TS's loop variable
        queue = queue_of(b)
        self.queue = queue.name if queue is not None else ""
        self.in_tiles = queue_of(b) is None
        self.conditions = {
            x.condition.expr.id
            for x in walk(task.schedule.steps)
            if isinstance(x, When) and isinstance(x.condition.expr, Name)
        }
        self.dtypes: dict[str, str | None] = {}  # of the tokens so far
        self.held: set[str] = set()  # names of the task's start
        for r in b.kernel.resources.values():
            if r.pipeline is None:
                continue
            if r.each is None or r.pipeline.num_stages > 1:
                self.stage_names[r.name] = self.s.names.new(f"{r.name}_stage")
        tree = task.schedule.steps
        self.items = self.steps(tree if queue_of(b) is not None else self._with_loop(tree))

    @property
    def label(self) -> str:
        """The name of the TS task."""
        return self.task.name if self.instance is None else f"{self.task.name}{self.instance.index}"

    def _with_loop(self, tree: Tree) -> Tree:
        """The steps with a domain loop before them if they have none: TS wants one in every schedule."""
        if any(isinstance(x, DomainLoop) for x in walk(tree)):
            return tree
        span = self.task.schedule.span
        none, one = Placed(Const(0), span), Placed(Const(1), span)
        return (DomainLoop("_", none, none, one, None, (), span), *tree)

    def steps(self, tree: Tree) -> list[Item]:
        out: list[Item] = []
        for x in tree:
            if not isinstance(x, CallStep) and steps.meeting(self.s, x):
                refuse("a warp sync in front of a block that only some lanes run, in TS", x.span)
            out += self._call(x) if isinstance(x, CallStep) else self._block(x)
        return out

    # -- blocks --------------------------------------------------------------------------------------------------

    def _block(self, x: SpecStep) -> list[Item]:
        note = self.b.note(x.span.line, step_text(x))
        match x:
            case TileLoop():
                return [self._tile_loop(x, note)]
            case DomainLoop():
                return [self._domain_loop(x, note)]
            case Skippable():
                self.skipping = self.skips
                body = self.steps(x.body)
                self.skipping = False
                return [Block(f"with {TILES}.skippable()", note, body)] if self.skips else body
            case Guard():
                call = f"every({x.period}, start={x.start})" if x.kind == "every" else f"{x.kind}()"
                return [Block(f"with {LOOP}.{call}", note, self.steps(x.body))]
            case When():
                return [self._when(x, note)]
            case StaticFor():
                name = self.s.names.new(x.var)
                self.s.define(x.var, name)
                self.s.lasts[x.var], self.s.lows[x.var] = (
                    Const(max(x.values, default=0)),
                    Const(min(x.values, default=0)),
                )
                over = f"range({self.s.py(x.count)})" if x.count is not None else f"({', '.join(map(str, x.values))},)"
                return [Block(f"for {name} in {over}", note, self.steps(x.body))]
            case StaticIf():
                return self._static_if(x, note)
        raise AssertionError(x)

    def _tile_loop(self, x: TileLoop, note: str) -> Block:
        env = self.s.scope.env
        if canonical(x.first.expr, env).value != 0 or canonical(x.stride.expr, env).value != 1:
            refuse("work_tile_loop with first or stride in TS", x.span, "TS gives every task all tiles")
        skips = x.skip_if is not None and not never(self.b.kernel, x.skip_if.expr)
        self.skip_if = x.skip_if if skips else None
        self.skips = skips and not left_out(self.b)
        self.in_tiles = True
        body = self.steps(self._with_loop(x.body))
        self.in_tiles = False
        skip = f", skip_if={SKIP_IF}" if self.skips else ""
        handle = f" as {TILES}" if self.skips else ""
        return Block(f"with work_tile_loop({x.queue}{skip}){handle}", note, body)

    skips = False  # whether the queue gives tiles that are skipped
    skipping = False  # in a block that they skip
    skip_if: Placed | None = None

    def _domain_loop(self, x: DomainLoop, note: str) -> Block:
        s = self.s
        name = s.names.new(x.var)
        s.define(x.var, name)
        start, end, step = (self._of_instance(p.expr) for p in (x.start, x.end, x.step))
        s.lasts[x.var], s.lows[x.var] = _less_one(end), start
        if self._of_tile(step):
            refuse("a domain_loop that steps by a value of the tile, in TS", x.span)
        if self._of_tile(start):  # TS starts at a value of the kernel: here at 0, and works add the rest
            self.offset = py_factor(start, s.scope)
            start, end = Const(0), Binary("-", end, start)
        bounds = [s.py(start), s.py(end), s.py(step)]
        if self._of_tile(end):
            self.domain = end
            bounds[1] = GET_DOMAIN
        if bounds[2] == "1":
            bounds.pop()
        self.loop = name
        body = self.steps(x.body)
        self.loop = None
        handle = f" as {LOOP}" if any(isinstance(g, Guard) for g in walk(x.body)) else ""
        return Block(f"with domain_loop({', '.join(bounds)}, unroll={x.unroll or 1}){handle}", note, body)

    def _of_instance(self, e: Expr) -> Expr:
        each = self.task.each
        if each is None or self.instance is None:
            return e
        return substitute(e, {each.var: Const(self.instance.index)})

    def _of_tile(self, e: Expr) -> bool:
        """Whether a value differs between the tiles of a queue."""
        symbols = self.b.kernel.symbols
        return queue_of(self.b) is not None and any(n in symbols and symbols[n].time == "tile" for n in names(e))

    def _when(self, x: When, note: str) -> Block:
        e = x.condition.expr
        kind = "when_true" if x.value else "when_false"
        key = x.key.replace('"', "'")
        if isinstance(e, Name) and e.id in self.dtypes:
            return Block(f"with {kind}({self.s.py(e)}, {KEY})", note, self.steps(x.body), key=key)
        name = self.s.names.new("condition")
        result = {name: Result(_BOOLEAN, f"{_BOOLEAN}({self.s.py(e)})")}
        call = WorkCall(CONDITIONS, "condition", "consumer", True, [], None, result, {}, self.loop)
        return Block(f"with {kind}({name}, {KEY})", note, self.steps(x.body), call, key)

    def _static_if(self, x: StaticIf, note: str) -> list[Item]:
        condition = self._of_instance(x.condition.expr)
        try:
            return self.steps(x.body if evaluate(condition, self.s.scope.env) else x.orelse)
        except NotConstant:
            out: list[Item] = [Block(f"if {self.s.py(condition)}", note, self.steps(x.body))]
            return [*out, Block("else", None, self.steps(x.orelse))] if x.orelse else out

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, c: CallStep) -> list[Item]:
        note = self.s.note(c) if not c.derived else None
        match c.kind:
            case "pipeline" | "group":
                return self._pipeline(c, note)
            case "queue":
                asks = c.method.startswith("try_") and self.b.kernel.resources[c.target].pipeline is not None
                return [] if asks else [Step(c.target, c.method, note)]  # a try right before its wait
            case "pdl":
                return [Step("pdl_wait" if c.method == "wait_griddep" else "pdl_launch", c.method, note)]
            case "barrier":
                done = steps.lower_call(self.s, c)
                return [WorkCall(c.target, c.method, "consumer", True, _bare(done), note, loop=self.loop)]
            case "completion":
                done, statics = self._completion(c)
                return [WorkCall(f"engine {c.target}", c.method, "consumer", True, done, note, {}, statics)]
            case "work":
                call = self._work(c, note)
                return [call] if call.statements or call.results else []  # a map may do nothing in this variant

    def _pipeline(self, c: CallStep, note: str | None) -> list[Item]:
        b = self.b
        if self.skipping and self.loop is None:
            refuse(
                f"`{c.text}` in a skippable block and outside of its domain_loop, in TS",
                c.span,
                "TS does not carry the position that such a step moves out of the block: its code does not compile",
            )
        group = b.kernel.groups.get(c.target)
        members = group.members if group is not None else (c.target,)
        if c.method == "skip":
            if canonical(c.args["n"].expr, self.s.scope.env).value == 0:
                return []
            refuse("the step `skip` in TS", c.span, "TS moves a position by waiting and releasing alone")
        if c.method.startswith("try_"):
            return self._try(c, note)
        if c.method in ("acquire", "wait"):
            old = late(self.task.schedule.steps, c.target, f"try_{c.method}", self.s.scope.env)
            if old is not None:
                refuse(
                    f"`{old.text}`, which may come without a `try_{c.method}` of its own, in TS",
                    old.span,
                    "TS keeps the answer of a try for ever: try before every blocking step of this ring, or never",
                )
        out: list[Item] = []
        by_lanes = c.method == "release" and all(self._released_by_lanes(m) for m in members)
        one = c.method != "release" or self._released_by_lanes(members[0])
        one = one or b.derived.arrivals[members[0]].empty_by == "umma"  # TS has every lane arrive at other rings
        met = one and bool(steps.meeting(self.s, c))
        if met and c.method != "release":
            refuse(f"`{c.text}` by one lane of a warp whose lanes have touched shared memory, in TS", c.span)
        if met or (by_lanes and (group_of(b, members[0]) is not None or touches_generically(self.s, c.target))):
            why = "every lane has read before one lane releases"
            sync = [line("cute.arch.sync_warp()")]
            out.append(WorkCall(members[0], "sync_warp", "consumer", True, sync, why, instance=self._instance(c)))
        opened = tuple(m for m in members if m in self.stage_names) if c.method == "wait" else ()
        return [*out, Step(c.target, c.method, note, opened, self._instance(c))]

    def _instance(self, c: CallStep) -> Instance | None:
        """Which of a resource's instances a step is about, where TS has a resource for each."""
        r = self.b.kernel.resources.get(c.target)
        if r is None or r.each is None or r.pipeline is None or c.instance is None:
            return None
        return self._which(r.each.count, c.instance, c)

    def _which(self, count: int, index: Expr, c: CallStep) -> Instance:
        e = self._of_instance(index)
        value = canonical(e, self.s.scope.env).value
        if value is not None:
            return Instance(str(value), (int(value),))
        if not is_for_all(self.task.schedule.steps, e, count):
            refuse(f"the instance that `{c.text}` is about, in TS", c.span)
        return Instance(self.s.py(e), tuple(range(count)))

    def _try(self, c: CallStep, note: str | None) -> list[Item]:
        if not is_asked(self.s, c):
            return []
        after = list(calls(self.task.schedule.steps))
        after = after[next(i for i, x in enumerate(after) if x is c) :]
        if not any(x.target == c.target and f"try_{x.method}" == c.method for x in after):
            refuse(
                f"`{c.text}` for the next iteration, in TS", c.span, "TS wants the step that takes the answer after it"
            )
        return [Step(c.target, c.method, note)]

    def _released_by_lanes(self, ring: str) -> bool:
        return producer_kind(self.b, ring) in ("tma", "peer") and self.b.derived.arrivals[ring].empty_by == "warp"

    def _work(self, c: CallStep, note: str | None) -> WorkCall:
        s, b = self.s, self.b
        w = b.kernel.work(c.target, c.method)
        assert w is not None
        bound, statics = self._named_statics(c, w.static)
        self._set_stages(w)
        done = [_at_full_barrier(x) for x in _bare(steps.lower_call(s, bound))]
        results = {}
        for spec_name in c.results:
            token = s.tokens[spec_name]
            self.dtypes[spec_name] = dtype = self._dtype(w, spec_name, token)
            boolean = dtype == _BOOLEAN and spec_name in self.conditions
            results[token.name] = Result(dtype, f"{_BOOLEAN}({token.name})" if boolean else token.name)
        auxiliary = w.auxiliary or not self.in_tiles
        about = b.note(w.span.line, f"{w.owner}.{w.name}")
        call = WorkCall(w.owner, w.name, w.role, auxiliary, done, note, results, statics, self.loop, about)
        call.instance, call.reads = self._instance(c), dict(self._reads(w, c))
        return call

    def _reads(self, w: Work, c: CallStep) -> Iterator[tuple[str, Instance]]:
        """The rings with instances that a work touches, and which of theirs."""
        owner = self.b.kernel.resources.get(w.owner)
        for a in accesses(bind(w, c, owner.each if owner is not None else None)):
            r = self.b.kernel.resources.get(a.ref.resource or "")
            if r is not None and r.each is not None and r.pipeline is not None and a.ref.instance is not None:
                yield r.name, self._which(r.each.count, a.ref.instance, c)

    def _dtype(self, w: Work, name: str, token: Token) -> str | None:
        """The type of a result that TS carries from call to call; None for tiles and for what a body returns."""
        if isinstance(token, ScalarToken) and token.word is not None:
            source = ref_of(w, "from")[0] if w.op == "load" else None
            tensor = self.b.kernel.tensors.get(source.name) if source is not None and source.resource is None else None
            return DSL_TYPES[token.word] if tensor is None else self.b.dtype(tensor.dtype)
        return _BOOLEAN if name in self.conditions else None

    def _completion(self, c: CallStep) -> tuple[list[Statement], dict[str, str]]:
        """A completion step over the number of groups that may stay open, which the method takes as a parameter."""
        if "n" not in c.args:
            return _bare(steps.lower_call(self.s, c)), {}
        n = self.s.py(c.args["n"].expr)
        self.s.define(PENDING, PENDING.split()[0])
        args = {"n": Placed(Name(PENDING), c.args["n"].span)}
        return _bare(steps.lower_call(self.s, replace(c, args=args))), {PENDING.split()[0]: n}

    def _named_statics(self, c: CallStep, static: tuple[str, ...]) -> tuple[CallStep, dict[str, str]]:
        """The call with its constant compile-time arguments left as names: they become parameters of the method."""
        args, passed = dict(c.args), {}
        for name in static:
            p = c.args.get(name)
            if p is not None and is_constant(p.expr, self.s.scope.env):
                value = evaluate(p.expr, self.s.scope.env)
                if isinstance(value, int) and not isinstance(value, bool):
                    self.s.lasts[name] = self.s.lows[name] = Const(value)
                passed[name] = self.s.py(p.expr)
                args[name] = Placed(Name(name), p.span)
                self.s.define(name, name)
        return replace(c, args=args), passed

    def _set_stages(self, w: Work) -> None:
        """Where a work finds its stages: its own ring's in TS's stage info, those of other rings in arguments."""
        for ring, name in self.stage_names.items():
            text = OWN_STAGE if ring == w.owner else name
            self.s.stages[(ring, "consumer")] = self.s.stages[(ring, "producer")] = text
        for r in self.b.kernel.resources.values():
            if r.pipeline is not None and r.name not in self.stage_names:  # the only stage
                self.s.stages[(r.name, "consumer")] = self.s.stages[(r.name, "producer")] = "0"

    def code(self) -> list[Statement]:
        """All that the methods and the schedule say."""
        out: list[Statement] = []
        for x in every(self.items):
            if isinstance(x, WorkCall):
                out += [*x.statements, *(line(r.text) for r in x.results.values())]
            elif isinstance(x, Block):
                out.append(line(x.head))
        if self.offset is not None:
            out.append(line(self.offset))
        return out if self.domain is None else [*out, line(self.s.py(self.domain))]

    def rename(self, names: dict[str, str]) -> None:
        """Gives names of the task's start other ones."""
        for x in every(self.items) if names else ():
            if isinstance(x, WorkCall):
                x.statements = renamed(x.statements, names)
                x.results = {n: replace(r, text=renamed(r.text, names)) for n, r in x.results.items()}
            elif isinstance(x, Block):
                x.head = renamed(x.head, names)

    def side_of_step(self, step: Step) -> str:
        if step.target == "pdl_launch" or step.method == "fetch_work_tile":
            return "producer"
        if step.target == "pdl_wait" or step.method == "get_and_advance_work_tile":
            return "consumer"
        return side_of(step.method)


def _bare(statements: list[Statement]) -> list[Statement]:
    """Statements without their comments: those stand in the schedule."""
    return [replace(x, note=None) for x in statements]


def _at_full_barrier(x: Statement) -> Statement:
    """Copies complete on the mbarrier that TS names."""
    if x.template not in ("ops/tma_load", "ops/peer_store", "ops/peer_rows"):
        return x
    return replace(x, values={**x.values, "barrier": "full_barrier(stage_info)"})


def _less_one(e: Expr) -> Expr:
    return Binary("-", e, Const(1))
