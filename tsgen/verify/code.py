"""Schedules -> instructions of the machine, one list for each agent."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace

from tsgen.derive.arrivals import ACQUIRE, COMMIT
from tsgen.derive.unfold import Node, constant
from tsgen.model.expr import Binary, Const, Expr, Name, Placed, names, text
from tsgen.model.steps import CallStep, DomainLoop, Guard, Skippable, Step, TileLoop, When, step_text
from tsgen.verify.build import Builder
from tsgen.verify.conditions import test_bounds, test_of
from tsgen.verify.facts import collect
from tsgen.verify.machine import (
    ACCESS,
    ANYTHING,
    ARM,
    ARRIVE,
    BULK,
    BULK_WRITE,
    COMPLETE,
    CP_ASYNC,
    EARLY,
    END,
    END_LOOP,
    END_TILE,
    EVERY,
    FIRST,
    GRID_LAUNCH,
    GRID_NEEDED,
    GRID_WAIT,
    GUARD,
    LAST,
    LOOP,
    LOOP_INIT,
    MARK,
    NAMED_ARRIVE,
    NAMED_WAIT,
    SKIP,
    SKIPPABLE,
    TILE,
    TILE_INIT,
    TMEM_LD,
    TMEM_ST,
    TRIED,
    TRY,
    WAIT,
    WGMMA,
    WHEN,
    Agent,
    Condition,
    Instruction,
    StepInfo,
)
from tsgen.verify.opaque import asked
from tsgen.verify.outcomes import without_quotients
from tsgen.verify.passing import watched
from tsgen.verify.pipes import Pipes
from tsgen.verify.places import Context, Pending, Place, of_warp, said_there
from tsgen.verify.spelled import compared, spelled
from tsgen.verify.symbols import Env, Linear, Unknown
from tsgen.verify.value_numbering import loop_values, outcomes
from tsgen.verify.values import VAR, Made, Outcome, Values
from tsgen.verify.works import Works

_GUARDS = {"first_iter": FIRST, "last_iter": LAST, "every": EVERY}
_ENGINES = {"wgmma": WGMMA, "bulk": BULK, "cp_async": CP_ASYNC}
BULK_READ = -BULK  # bulk.wait_group_read: the sources are free, the destinations may still be on their way


class Coder:
    """Writes the code of all agents, then settles the symbols and fills in the bounds."""

    def __init__(self, builder: Builder, finer: bool = False) -> None:
        self.b = builder
        self.finer = finer
        self.refined = False  # whether a loop counts by another step than its own
        self.system = builder.system
        self.pending: list[Pending] = []
        self.values = Values(builder.kernel, builder.uses, self.system.symbols)
        self.outcomes: Mapping[int, Outcome] = {}  # of the agent's conditions, by the identity of their nodes
        self.programs: dict[tuple[str, int, int], tuple[tuple[Node, ...], Mapping[int, Outcome]]] = {}
        self.places: dict[Hashable, Place] = {}
        self.head = -1  # of the loop that is being written
        self.variable = "iteration"

    def run(self) -> None:
        for index, agent in enumerate(self.system.agents):
            self.index, self.agent = index, agent
            self.pipes = Pipes(self.b, index, agent, self._ref)
            self.works = Works(self.b, index, agent, self.pipes, self._ref)
            program, self.outcomes = self._program(agent)
            self.works.prepare(program)
            self._block(program, Context())
            agent.code.append((END,))
        symbols = self.system.symbols
        used = self._used_conditions()
        self.places = {k: p for k, p in self.places.items() if p.condition in used}
        self._spell()
        tests = [
            (difference, named, env)
            for place in self.places.values()
            for env in [{**place.env, VAR: place.loop[0]}]
            for difference, named in test_bounds(place.outcome.expr, env)
        ]
        for p in self.pending:
            symbols.announce(p.bound, p.step, p.env)
        for difference, _, env in tests:
            symbols.announce(difference, None, env)
        symbols.apart = self.finer
        if self.finer:
            self._refine()
        for p in self.pending:
            symbols.add(p.bound, p.env, p.words, p.step)
        for difference, named, env in tests:
            symbols.add(difference, env, side=named)
        symbols.settle()
        for resource in self.b.kernel.resources.values():
            if resource.queue is not None:
                # no more CTAs are launched than there are tiles (clusters, if there are any), so each has one
                self.system.tile_unknowns[resource.name] = len(symbols.unknowns)
                symbols.unknowns.append(Unknown(f"tiles of {resource.name}", 1, None, False, False))
        self._fill()

    def _spell(self) -> None:
        """Writes conditions in plain comparisons where others are made of the same."""
        found: dict[Hashable, list[tuple[Expr, Env]]] = {}
        for p in self.places.values():
            found.setdefault(p.identity, []).append((p.outcome.expr, p.env))
        mixed = compared(found)
        for k, p in self.places.items():
            if p.identity in mixed:
                v = self.values
                e = without_quotients(spelled(p.outcome.expr, p.env, v.whole), p.env, v.whole, v.in_cluster)
                self.places[k] = p._replace(outcome=p.outcome._replace(expr=e))

    def _refine(self) -> None:
        """Lets loops whose bound is a rounded quotient count to what it is a quotient of."""
        for p in self.pending:
            if p.step is None or constant(p.step, p.env) != 1:
                continue
            found = self.system.symbols.finer(p.bound, p.env)
            if found is not None:
                p.bound, step = found
                p.step, self.refined = Const(step), True
                p.agent.code[p.pc] = (*p.agent.code[p.pc][:2], step, *p.agent.code[p.pc][3:])

    def _program(self, agent: Agent) -> tuple[tuple[Node, ...], Mapping[int, Outcome]]:
        """What an agent runs, and its conditions: the same in all CTAs, and for several warps together."""
        key = (agent.task.name, agent.instance.index, agent.lane if agent.warps == 1 else -1)
        if key not in self.programs:
            program = self.b.uses.programs[key[:2]]
            program = of_warp(program, agent.lane) if agent.warps == 1 else program
            self.programs[key] = program, outcomes(self.values, agent.task, agent.instance, program)
        return self.programs[key]

    def _used_conditions(self) -> set[int]:
        code = [ins for agent in self.system.agents for ins in agent.code]
        return {ins[1] for ins in code if ins[0] == WHEN} | {ins[3] for ins in code if ins[0] == TILE}

    def _fill(self) -> None:
        """Puts the linear forms into the instructions, and notes which agent asks for which unknown, and where last."""
        symbols = self.system.symbols
        for p in self.pending:
            ins, bound = p.agent.code[p.pc], symbols.bound(p.bound, p.env, p.step)
            self.refined |= bool(bound.others)
            p.agent.code[p.pc] = (*ins[: p.at], bound, *ins[p.at + 1 :])
            if p.step is not None and not symbols.strides(p.bound, p.step, p.env):
                p.agent.code[p.pc] = (*p.agent.code[p.pc][:2], 1, *p.agent.code[p.pc][3:])
        self._join()
        for agent in self.system.agents:
            self._index(agent)
            self._flags(agent)
            agent.watched = watched(self.system, agent)
        collect(self.system)

    def _join(self) -> None:
        """Computes the conditions that can be computed, each for its place. The others are one for each identity."""
        conditions = self.system.conditions
        free: dict[Hashable, list[Place]] = {}
        computed: dict[Hashable, list[Place]] = {}
        for p in self.places.values():
            test = test_of(self.system.symbols, p.outcome.expr, p.env, p.loop)
            conditions[p.condition] = replace(conditions[p.condition], test=test)
            if test is None:
                free.setdefault(p.identity, []).append(p)
            else:
                computed.setdefault(p.said, []).append(p)
        moved: dict[int, tuple[int, bool]] = {}
        for places in free.values():
            one, made = places[0], Made.of(p.outcome.made for p in places)
            conditions[one.condition] = Condition(
                conditions[one.condition].key,
                made.per_iteration,
                made.per_tile or made.per_iteration,
                made.per_cta,
                None,
                variable=conditions[one.condition].variable,
                asked=said_there(one) if one.identity == one.outcome.form else None,
            )
            for p in places:
                moved[p.condition] = (one.condition, p.negated != one.negated)
        for places in computed.values():
            self._group(places)
        for agent in self.system.agents:
            for pc, ins in enumerate(agent.code):
                if ins[0] == WHEN and ins[1] in moved:
                    to, turned = moved[ins[1]]
                    agent.code[pc] = (WHEN, to, ins[2] != turned, *ins[3:])
                elif ins[0] == TILE and ins[3] in moved:
                    to, turned = moved[ins[3]]
                    agent.code[pc] = (*ins[:3], to, ins[4] != turned, *ins[5:])

    def _group(self, places: list[Place]) -> None:
        """Notes which computed conditions say the same: chosen instead, they have one outcome."""
        conditions, one = self.system.conditions, places[0]
        made = Made.of(p.outcome.made for p in places)
        for p in places:
            conditions[p.condition] = replace(
                conditions[p.condition],
                per_iteration=made.per_iteration,
                per_tile=made.per_tile or made.per_iteration,
                per_cta=made.per_cta,
                same=one.condition,
                turned=p.outcome.negated != one.outcome.negated,
            )

    def _index(self, agent: Agent) -> None:
        """What the exploration asks about an agent: where its loop is, and where it last asks for what."""
        ends = {ins[1]: pc for pc, ins in enumerate(agent.code) if ins[0] == END_LOOP}
        agent.loop = next(((head, end) for head, end in ends.items()), (-1, -1))
        agent.guards = tuple((ins[1], ins[2], ins[3]) for ins in agent.code if ins[0] == GUARD)
        agent.windows = agent.period
        agent.looks_back = max((self._passed(ins) for ins in agent.code if ins[0] == SKIP and ins[3] < 0), default=0)
        for ins in agent.code:
            if ins[0] == COMPLETE:
                agent.groups[abs(ins[1])] = max(agent.groups.get(abs(ins[1]), 0), ins[2])
        asked(agent, self.system.conditions)

    def _passed(self, ins: Instruction) -> int:
        """The most tiles that a `skip` passes over."""
        return max([1, *(self.system.passed(u, times) for u, times in ins[2].terms)])

    def _flags(self, agent: Agent) -> None:
        """What must be checked at each wait. An agent that answers each wait with an arrival of its own on the other
        side of the ring needs no mark: the next phase cannot complete without that arrival."""
        answers = {s for ins in agent.code if ins[0] == ARRIVE and ins[1] for s in ins[2]}
        answers |= {ins[2][0] + COMMIT - ACQUIRE for ins in agent.code if ins[0] == ARM}
        skipped = {s for ins in agent.code if ins[0] == SKIP for s in ins[1]}
        tried = {ins[2][0] for ins in agent.code if ins[0] == TRY}
        for pc, ins in enumerate(agent.code):
            if ins[0] == WAIT:
                mark = 0 if ins[2][0] + 1 in answers else MARK
                early = EARLY if ins[2][0] in skipped else 0
                answered = TRIED if ins[2][0] in tried else 0
                agent.code[pc] = (*ins[:6], mark | early | answered, ins[7])

    # ---- blocks ------------------------------------------------------------------------------------------------

    def _ref(self, step: Step, words: str = "") -> int:
        if isinstance(step, CallStep):
            info = StepInfo(step.text, step.span, self.index, step.target, step.method)
        else:
            info = StepInfo(words, step.span, self.index, None, words)
        self.system.steps.append(info)
        return len(self.system.steps) - 1

    def _written(self, e: Placed, words: str) -> int:
        """What a bound or a condition is as it was written, and where."""
        self.system.steps.append(StepInfo(text(e.expr), e.span, self.index, None, words))
        return len(self.system.steps) - 1

    def _block(self, nodes: tuple[Node, ...], context: Context) -> None:
        loops = [i for i, n in enumerate(nodes) if isinstance(n.step, DomainLoop)]
        for i, node in enumerate(nodes):
            if context.tiles is not None and context.loop is None and loops:
                context.tile_offset = 1 if i > loops[0] else -1
            for name in self.works.behind_wait(node.step):
                self._emit(GRID_NEEDED, name, self._ref(node.step, step_text(node.step)))
            match node.step:
                case CallStep():
                    self._call(node, context)
                case DomainLoop():
                    self._loop(node, context)
                case TileLoop():
                    self._tiles(node, context)
                case _:
                    self._guarded(node, context)

    def _emit(self, *ins: object) -> int:
        self.agent.code.append(ins)
        return len(self.agent.code) - 1

    def _loop(self, node: Node, context: Context) -> None:
        step = node.step
        assert isinstance(step, DomainLoop)
        stride = constant(step.step.expr, node.env)
        start = constant(step.start.expr, node.env)
        inside = Context(step, context.tiles, context.tile_offset)
        self.works.enter_loop(step, node.env)
        self.pipes.enter_loop(start if isinstance(start, int) else 0)
        self.agent.values = loop_values(step, node.env)
        counted: Expr = Name(step.var)
        self.variable = text(counted if isinstance(start, int) else Binary("-", counted, step.start.expr))
        begin = len(self.agent.code)
        ref = self._written(step.end, "domain_loop")
        self._emit(LOOP_INIT, ref)
        head = self.head = self._emit(
            LOOP, Linear(0), stride if isinstance(stride, int) and stride > 0 else 1, 0, False, ref
        )
        self._block(node.body, inside)
        self.works.leave_loop()
        body = self.agent.code[head + 1 :]
        if all(ins[0] == GRID_NEEDED for ins in body):
            self.agent.code[begin:] = body  # nothing in it depends on how often it runs
            return
        self._emit(END_LOOP, head)
        last = any(ins[0] == GUARD and ins[1] == LAST for ins in body)
        self.agent.code[head] = (*self.agent.code[head][:3], len(self.agent.code), last, ref)
        bound = self._as_read(Binary("-", step.end.expr, step.start.expr), node)
        end = self._as_read(step.end.expr, node)
        self.pending.append(Pending(self.agent, head, 1, bound, node.env, end, step.step.expr))

    def _tiles(self, node: Node, context: Context) -> None:
        step = node.step
        assert isinstance(step, TileLoop)
        first, stride = constant(step.first.expr, node.env), constant(step.stride.expr, node.env)
        ref = self._ref(step, "work_tile_loop")
        asks = ref if step.skip_if is None else self._written(step.skip_if, "work_tile_loop")
        self._emit(TILE_INIT, first if isinstance(first, int) else 0, ref)
        skip, holds = -1, True
        if step.skip_if is not None:
            skip, holds = self._condition(node, text(step.skip_if.expr), None)
        every = stride if isinstance(stride, int) and stride > 0 else 1
        head = self._emit(TILE, every, step.queue, skip, holds, 0, asks)
        self._block(node.body, Context(tiles=step))
        self._emit(END_TILE, every, head)
        self.agent.code[head] = (TILE, every, step.queue, skip, holds, len(self.agent.code), asks)

    def _guarded(self, node: Node, context: Context) -> None:
        """A block that runs or not. One without effect on the machine leaves nothing behind."""
        match node.step:
            case Guard() as g:
                kind = _GUARDS[g.kind]
                ins: Instruction = (GUARD, kind, g.period, g.start, self.head, 0, self._ref(g, g.kind))
            case When() as w if "warp" in names(w.condition.expr) and self.agent.warps == 1:
                holds = constant(w.condition.expr, node.env)
                if holds is not None:
                    if bool(holds) == w.value:
                        self._block(node.body, context)
                    return
                ins = self._when(node, w, f" of warp {self.agent.lane}")
            case When() as w:
                ins = self._when(node, w, "")
            case Skippable() as s:
                ins = (SKIPPABLE, 0, self._ref(s, "skippable"))
            case _:
                raise AssertionError(node.step)
        at = self._emit(*ins)
        self._block(node.body, context)
        if len(self.agent.code) == at + 1 or (
            ins[0] == WHEN and self._local(self.agent.code[at + 1 :]) and not self.works.computed(node)
        ):
            self._always(at)
            return
        self.agent.code[at] = (*ins[:-2], len(self.agent.code), ins[-1])

    def _always(self, at: int) -> None:
        """Local work is taken to run always: that adds accesses, and no order. Its reads then ask for nothing."""
        code = self.agent.code
        del code[at]
        for pc in range(at, len(code)):
            if code[pc][0] == ACCESS:
                items = tuple(item._replace(needs=(ANYTHING,)) for item in code[pc][1])
                code[pc] = (ACCESS, items, *code[pc][2:])

    def _local(self, code: list[Instruction]) -> bool:
        """Whether instructions only touch registers and need no waiting."""
        fields = self.system.fields
        return all(
            ins[0] == GRID_NEEDED
            or (ins[0] == ACCESS and not ins[2] and all(fields[self.system.cell_field[i.base]].private for i in ins[1]))
            for ins in code
        )

    def _when(self, node: Node, w: When, whose: str) -> Instruction:
        index, holds = self._condition(node, w.key + whose, w.key if w.keyed else None)
        return (WHEN, index, w.value == holds, 0, self._written(w.condition, "when_true" if w.value else "when_false"))

    def _condition(self, node: Node, label: str, key: str | None) -> tuple[int, bool]:
        """The condition of a block, and what its outcome is where the block's expression holds. `key`: what the spec
        says of its identity."""
        outcome = self.outcomes[id(node)]
        said: Hashable = outcome.form
        identity: Hashable = said if key is None else key
        negated = outcome.negated and key is None
        if outcome.made.per_thread:  # threads of two tasks, or of two warps, have nothing in common
            mine = (self.agent.task.name, self.agent.instance.index, self.agent.lane)
            identity, said = (identity, *mine), (said, *mine)
        where = (identity, outcome.form, key is not None and outcome.negated, self.agent.values)
        place = self.places.get(where)
        if place is None:
            index = len(self.system.conditions)
            self.system.conditions.append(Condition(label, False, False, False, None, self.variable))
            place = self.places[where] = Place(index, identity, outcome, negated, node.env, self.agent.values, said)
        return place.condition, negated == place.negated

    # ---- calls -------------------------------------------------------------------------------------------------

    def _call(self, node: Node, context: Context) -> None:
        step = node.step
        assert isinstance(step, CallStep)
        match step.kind:
            case "work":
                self.works.work(node)
            case "pipeline" | "group" | "queue":
                if step.method == "skip":
                    self._skip(node, context)
                elif step.method in ("fetch_work_tile", "get_and_advance_work_tile"):
                    self.works.queue(node)
                else:
                    self.pipes.step(node)
            case "completion":
                self._complete(node)
            case "barrier":
                self._barrier(node)
            case "pdl":
                self._emit(GRID_WAIT if step.method == "wait_griddep" else GRID_LAUNCH, self._ref(step))

    def _skip(self, node: Node, context: Context) -> None:
        step = node.step
        assert isinstance(step, CallStep)
        slots = self.pipes.skip_slots(step.target, node.instance)
        n = step.args.get("n")
        if n is not None and slots:
            offset = context.tile_offset if context.tiles is not None else 0
            at = self._emit(SKIP, slots, Linear(0), offset, self._ref(step))
            many = self._as_read(n.expr, node)
            self.pending.append(Pending(self.agent, at, 2, many, node.env, many))

    def _as_read(self, e: Expr, node: Node) -> Expr:
        return self.values.as_read(e, self.agent.task.name, (self.agent.instance.index, node.step.span), node.env)

    def _complete(self, node: Node) -> None:
        step = node.step
        assert isinstance(step, CallStep)
        if step.target == "tcgen05":
            self._emit(COMPLETE, TMEM_LD if step.method == "wait_ld" else TMEM_ST, 0, self._ref(step))
            return
        if step.target == "bulk" and not self.agent.elected:
            return
        n = step.args.get("n")
        value = constant(n.expr, node.env) if n is not None else 0
        engine = BULK_READ if step.method == "wait_group_read" else _ENGINES[step.target]
        left = value if isinstance(value, int) and value >= 0 else 0
        ref = self._ref(step)
        self._emit(COMPLETE, engine, left, ref)
        if engine == BULK and self.b.passed_on:
            self._emit(COMPLETE, BULK_WRITE, left, ref)

    def _barrier(self, node: Node) -> None:
        step = node.step
        assert isinstance(step, CallStep)
        key = (self.agent.cta, step.target, node.instance)
        if key not in self.b.named:
            return
        slot = self.pipes.named_slot(key)
        ref = self._ref(step)
        self._emit(NAMED_ARRIVE, self.b.named[key], slot, 32 * self.agent.warps, ref)
        if step.method != "arrive":
            self._emit(NAMED_WAIT, self.b.named[key], slot, ref)
