"""Works -> accesses of the machine: which cells, through which engine, completed by what."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from math import lcm
from typing import NamedTuple

from tsgen.derive.arrivals import ACQUIRE, COMMIT, RELEASE, WAIT
from tsgen.derive.filling import closes_group
from tsgen.derive.memory import instances
from tsgen.derive.pdl import behind_wait
from tsgen.derive.spread import (
    ACCUMULATOR,
    ANYWHERE,
    APART,
    OWN,
    by_element,
    by_thread,
    elected,
    engine_of,
    owner_of,
    role_only,
    spread_of,
    with_arguments,
    written_out,
)
from tsgen.derive.storage import root, stages
from tsgen.derive.unfold import Env, Node, calls, constant, index_of, work_env
from tsgen.model.algebra import NotConstant, NoValue, evaluate
from tsgen.model.expr import Call, Const, Expr, Full, IfElse, Placed, Ref, Window, names, walk
from tsgen.model.kernel import Assign, Field, Resource, Work
from tsgen.model.ops import Access
from tsgen.model.steps import CallStep, DomainLoop, Step, When
from tsgen.verify.assigned import doubtful
from tsgen.verify.build import Builder
from tsgen.verify.courses import LONGEST, Course, Loop, course
from tsgen.verify.machine import (
    ACCESS,
    ALL,
    ANYTHING,
    BRACKET,
    BULK,
    BULK_WRITE,
    CP_ASYNC,
    CP_OPEN,
    ENGINE_NUMBERS,
    GRID_NEEDED,
    SOME,
    SYNC,
    TCGEN05,
    TENSOR,
    TMEM_LD,
    TMEM_ST,
    TX,
    WGMMA,
    Agent,
    Item,
)
from tsgen.verify.mentions import of_step, of_work, tensors_of
from tsgen.verify.pipes import Pipes
from tsgen.verify.regions import box_of, is_exact, union
from tsgen.verify.spans import Box
from tsgen.verify.transfers import Transfers
from tsgen.verify.windows import TensorWindow, moves, window

_ASYNC_REGISTERS = {"wgmma", "tcgen05_ld", "tcgen05_st"}
WARP = 32  # threads
PRODUCE, CONSUME, PROXY = range(3)  # kinds of brackets
WHOLE = (0,)  # the window of a whole field
STILL = Course(0, 1, 0)


class Track(NamedTuple):
    """A window in each iteration: those from `settle` on repeat. `exact`: it has a value in all of them."""

    boxes: tuple[Box, ...]
    settle: int
    exact: bool


class Works:
    """Writes one agent's works."""

    def __init__(
        self, builder: Builder, index: int, agent: Agent, pipes: Pipes, ref: Callable[[CallStep], int]
    ) -> None:
        self.b = builder
        self.kernel = builder.kernel
        self.system = builder.system
        self.layout = builder.layout
        self.agent = agent
        self.index = index
        self.pipes = pipes
        self.transfers = Transfers(builder, agent)
        self.ref = ref
        self.domain: DomainLoop | None = None
        self.loop: Loop | None = None  # where its first value and its step are numbers
        self.chosen: dict[int, bool] = {}  # by identity of the work
        self.registers: set[tuple[str, str]] = set()
        self.after_grid = behind_wait(self.kernel) if builder.system.pdl else frozenset()
        self.reads: dict[int, frozenset[str]] = {}  # tensors behind the wait that a work touches, by its identity

    def prepare(self, program: tuple[Node, ...]) -> None:
        """Finds the register fields that asynchronous engines touch, since only they can race with their own task, and
        those that may be read before they are written."""
        self.registers |= doubtful(self.kernel, self.b.uses, program)
        for node in calls(program):
            assert isinstance(node.step, CallStep)
            work = self.kernel.work(node.step.target, node.step.method) if node.step.kind == "work" else None
            for access in self.b.uses.accesses(work) if work is not None else ():
                if access.engine in _ASYNC_REGISTERS and self._kind(access.ref) == "rmem":
                    self.registers.add((access.ref.resource or "", access.ref.name))

    def _kind(self, ref: Ref) -> str:
        return self.kernel.resources[ref.resource].kind if ref.resource is not None else "tensor"

    def enter_loop(self, loop: DomainLoop, env: Env) -> None:
        self.domain = loop
        self.loop = Loop.of(loop, env)

    def leave_loop(self) -> None:
        self.loop = self.domain = None

    # ---- a call ------------------------------------------------------------------------------------------------

    def work(self, node: Node) -> None:
        step = node.step
        assert isinstance(step, CallStep)
        work = self.kernel.work(step.target, step.method)
        if work is None:
            return
        idle = elected(self.kernel, work) and work.scope != "warp" and not self.agent.elected
        ref = self.ref(step)
        if (
            self.transfers.joint(work, work_env(self.kernel, node, work))
            and self.b.pair(self.agent.cta)[0] != self.agent.cta
        ):
            return  # the leader issues for both
        self._brackets(work, node, ref)
        if idle:
            return
        found = self.b.uses.accesses(work)
        for name in sorted(self._behind(work)) if self.after_grid else ():
            self._emit(GRID_NEEDED, name, ref)
        by_engine: dict[int, list[Item]] = {}
        for access in found:
            engine = ENGINE_NUMBERS[engine_of(self.kernel, work, access.engine)]
            if engine == CP_ASYNC and not closes_group(self.kernel, work):
                engine = CP_OPEN
            if access.ref.resource is None:
                item = self._tensor(work, access, node)
                if item is not None:
                    by_engine.setdefault(BULK_WRITE if engine == BULK and item.write else engine, []).append(item)
                continue
            by_engine.setdefault(engine, []).extend(self._items(work, access, node))
        transfers = self._transfers(work, node)
        if transfers:
            by_engine.setdefault(TX, [])
        for engine in sorted(by_engine):
            items = tuple(by_engine[engine])
            if items or (engine == TX and transfers) or engine not in (SYNC, TX):
                self._emit(ACCESS, items, transfers if engine == TX else (), engine, ref)

    def _behind(self, work: Work) -> frozenset[str]:
        """The tensors behind the PDL wait that a work touches, and those that its windows are made from."""
        if id(work) not in self.reads:
            touched = {a.ref.name for a in self.b.uses.accesses(work) if a.ref.resource is None}
            self.reads[id(work)] = self.after_grid & (touched | tensors_of(self.kernel, of_work(work)))
        return self.reads[id(work)]

    def behind_wait(self, step: Step) -> list[str]:
        """The tensors behind the PDL wait that a step's bounds, condition or arguments are made from."""
        return sorted(self.after_grid & tensors_of(self.kernel, of_step(step))) if self.after_grid else []

    def queue(self, node: Node) -> None:
        """`fetch_work_tile` writes 16 bytes into every CTA, `get_and_advance_work_tile` reads them."""
        step = node.step
        assert isinstance(step, CallStep)
        resource = self.kernel.resources.get(step.target)
        ring = self.pipes.ring(step.target, 0)
        if resource is None or ring is None:
            return
        ref = self.ref(step)
        slot = self.pipes.slot(step.target, 0)
        if step.method == "fetch_work_tile":
            if not self.agent.elected:
                return
            items, transfers = [], []
            for cta in range(self.system.ctas):
                base, _ = self.layout.response(cta, step.target, ring.stages)
                items.append(Item(base, ring.stages, slot + ACQUIRE, 1, True, WHOLE, 0, None))
                transfers.append((ring.full[cta], slot + ACQUIRE, ring.stages, 1, 16))
            self._emit(ACCESS, tuple(items), tuple(transfers), TX, ref)
        else:
            base, _ = self.layout.response(self.agent.cta, step.target, ring.stages)
            self._emit(ACCESS, (Item(base, ring.stages, slot + WAIT, 1, False, WHOLE, 0, None),), (), SYNC, ref)

    def _emit(self, *ins: object) -> None:
        self.agent.code.append(ins)

    # ---- positions ---------------------------------------------------------------------------------------------

    def _position(self, name: str, instance: int, producer: bool) -> tuple[int, int, int]:
        """Slot, how far back, and stages of the stage that a work on a resource touches; slot -1 without a pipeline."""
        ring = self.pipes.ring(name, instance)
        if ring is None:
            return -1, 0, 1
        pipeline = self.kernel.resources[name].pipeline
        assert pipeline is not None
        base = self.pipes.slot(name, instance)
        opening, closing = (ACQUIRE, COMMIT) if producer else (WAIT, RELEASE)
        if (name, instance, "acquire" if producer else "wait") in self.pipes.has:
            return base + opening, pipeline.interleave_stride[opening], ring.stages
        return base + closing, 0, ring.stages

    def _producer_side(self, work: Work, ref: Ref, write: bool, instance: int) -> bool:
        if ref.resource == work.owner:
            return work.role == "producer"
        return write and (ref.resource or "", instance, "acquire") in self.pipes.has

    def _brackets(self, work: Work, node: Node, ref: int) -> None:
        """Works want their stages held: between acquire and commit, or between wait and release."""
        if work.auxiliary:
            return
        wanted: dict[tuple[str, int], bool] = {}
        env = work_env(self.kernel, node, work)
        if work.owner in self.kernel.resources:
            wanted[work.owner, node.instance] = work.role == "producer"
        for access in self.b.uses.accesses(work):
            owner = access.ref.resource
            if owner is not None:
                instance = self._instance(work, access.ref, node, env)
                wanted.setdefault(
                    (owner, instance), self._producer_side(work, access.ref, access.mode == "write", instance)
                )
        checks = []
        for (name, instance), producer in wanted.items():
            ring = self.pipes.ring(name, instance)
            if ring is None:
                continue
            base = self.pipes.slot(name, instance)
            opening, closing = ("acquire", "commit") if producer else ("wait", "release")
            slots = (base + ACQUIRE, base + COMMIT) if producer else (base + WAIT, base + RELEASE)
            if (name, instance, opening) in self.pipes.has:
                if (name, instance, closing) in self.pipes.has:
                    checks.append((PRODUCE if producer else CONSUME, slots[0], slots[1], -1, 0))
            else:
                full = (ring.empty if producer else ring.full)[self.agent.cta]
                checks.append((PROXY, slots[1], int(producer), full, ring.stages))
        if checks:
            self._emit(BRACKET, tuple(checks), ref)

    def _instance(self, work: Work, ref: Ref, node: Node, env: Env) -> int:
        """Which instance of its resource a reference means: its own index, or the call's for the owner and its like."""
        if ref.instance is not None:
            return index_of(ref.instance, env)
        return node.instance if ref.resource == work.owner else 0

    def _viewed(self, owner: Resource, view: Ref | None, instance: int) -> int:
        """Which instance of the field's owner a reference touches: a view picks by the index of its own resource."""
        if view is None or view.instance is None:
            return instance
        own = {} if owner.each is None else {owner.each.var: instance}
        return index_of(view.instance, {**self.kernel.env, **own})

    # ---- accesses ----------------------------------------------------------------------------------------------

    def _items(self, work: Work, access: Access, node: Node) -> list[Item]:
        ref = access.ref
        if ref.resource is None:
            return []
        owner = self.kernel.resources[ref.resource]
        write = access.mode == "write"
        if owner.kind == "rmem":
            if (ref.resource, ref.name) not in self.registers:
                return []
            cell, _ = self.layout.private(self.index, ref.resource, ref.name)
            track = self._track(work, access, owner.fields[ref.name], node)
            boxes = tuple(map(self.system.box, track.boxes))
            needs = tuple(min(SOME, n) for n in self._needs(work, access, owner.fields[ref.name], node, track))
            accumulator = work.args.get("c")
            adds = isinstance(accumulator, Placed) and accumulator.expr == ref and access.engine == "wgmma"
            return [Item(cell, 1, -1, 0, write, boxes, track.settle, ACCUMULATOR if adds else OWN, needs)]
        env = work_env(self.kernel, node, work)
        instance = self._instance(work, ref, node, env)
        if owner.kind not in ("smem", "tmem") or not 0 <= instance < instances(owner):
            return []
        written = owner.fields[ref.name]
        field = root(self.kernel, written)
        view = written.view
        at = self._viewed(owner, view, instance)
        track = self._track(work, access, field, node)
        slot, back, count = self._position(ref.resource, instance, self._producer_side(work, ref, write, instance))
        target = self.kernel.resources[field.owner]
        count = min(count, stages(target))
        parts = self.transfers.places(work, access, env)
        spread = self._spread(work, access, node, track.exact)
        needs = self._needs(work, access, written, node, track)
        found = []
        for cta, part, of in parts:
            cell, _ = self.layout.shared(cta, field.owner, at if target.each is not None else 0, field.name)
            cut = tuple(self.system.box(self._part(b, field, part, of)) for b in track.boxes)
            found.append(Item(cell, count, slot, back, write, cut, track.settle, spread, needs))
        return found

    def _tensor(self, work: Work, access: Access, node: Node) -> Item | None:
        """An access to a tensor that tasks pass to each other, if its window is known."""
        name = access.ref.name
        chosen = work.args.get("where") is not None or (work.op is None and access.span == work.span)
        if name not in self.b.passed_on or name not in self.kernel.tensors or chosen:
            return None
        found = window(self.kernel, work, access.ref, node, self.domain)
        if found is None:
            return None
        adds = access.mode == "write" and work.args.get("reduce", "none") != "none"
        self.system.windows.append(TensorWindow(found, adds))
        at = len(self.system.windows) - 1
        cell = self.layout.tensor(self.agent.cta, name)
        return Item(cell, 1, TENSOR, moves(self.kernel, found), access.mode == "write", (at,), 0, None)

    def _needs(self, work: Work, access: Access, field: Field, node: Node, track: Track) -> tuple[int, ...]:
        """What a read asks of its window in each iteration: of an accumulator, if `init` is known to be false then. A
        write that certainly writes all of its window says so."""
        if access.mode == "write":
            certain = work.op is not None and not work.auxiliary and not self._chosen(work)
            return (ALL if certain and track.exact else ANYTHING,)
        init = self._init(work, access, node)
        if init is None:
            need = self._need(work, access, field, node)
            return (need if track.exact else min(SOME, need),)
        envs = [self._envs(work, access.ref, node, i)[0] for i in range(len(track.boxes))]
        return tuple(SOME if constant(init, env) is False else ANYTHING for env in envs)

    def _init(self, work: Work, access: Access, node: Node) -> Expr | None:
        """Whether the accumulator that an access reads is overwritten instead; None for other accesses."""
        accumulator, init = work.args.get("c"), work.args.get("init")
        if access.mode == "write" or not isinstance(accumulator, Placed) or accumulator.expr != access.ref:
            return None
        return with_arguments(init.expr, node) if isinstance(init, Placed) else Const(True)

    def computed(self, node: Node) -> bool:
        """Whether the loop variable alone decides a condition, or nothing that comes later."""
        return isinstance(node.step, When) and self._course(node.step.condition.expr, node.env) is not None

    def _need(self, work: Work, access: Access, field: Field, node: Node) -> int:
        """What a read asks of its window. One that cannot be told exactly asks for some of it, and one that may not be
        made for nothing: a field that a body need not touch, and all that a work could read of which only the role is
        known."""
        ref = access.ref
        if work.auxiliary or role_only(work):
            return ANYTHING
        if work.op is None and access.span == work.span and not self._touches(work, ref.name):
            return ANYTHING
        if field.view is not None or self._chosen(work):
            return SOME
        env = {**work_env(self.kernel, node, work), **self._ranks()}
        if self.agent.warps == 1:
            env["warp"] = self.agent.lane
        elif by_thread(ref, node, self.domain):
            return SOME
        if self.loop is not None:
            env = {**self.loop.env(env, 0)}
        return ALL if is_exact(ref, env) else SOME

    def _touches(self, work: Work, name: str) -> bool:
        """Whether a body touches a field of its owner: it need not touch all."""
        if work.body is not None:
            return re.search(rf"\b{name}\b", work.body) is not None
        return len(self.kernel.resources[work.owner].fields) == 1

    def _chosen(self, work: Work) -> bool:
        """Whether elements are chosen among: those that are not need not be there."""
        found = self.chosen.get(id(work))
        if found is None:
            found = self.chosen[id(work)] = _chooses(work)
        return found

    def _part(self, box: Box, field: Field, part: int, of: int) -> Box:
        """A multicast copy is split among the CTAs: each loads one part of the window for all. The part is one more
        dimension, which windows that are not split do not have."""
        return box if of == 1 else (*(box or ((0, e) for e in field.shape)), (part, part + 1))

    def _transfers(self, work: Work, node: Node) -> tuple[tuple[int, int, int, int, int], ...]:
        """Bytes that arrive on full barriers: barrier, slot, stages, back, bytes."""
        ring = self.pipes.ring(work.owner, node.instance)
        if ring is None:
            return ()
        slot, back, count = self._position(work.owner, node.instance, True)
        found = self.transfers.nbytes(work, work_env(self.kernel, node, work))
        return tuple((ring.full[cta], slot, count, back, n) for cta, n in found.items())

    # ---- windows -----------------------------------------------------------------------------------------------

    def _track(self, work: Work, access: Access, field: Field, node: Node) -> Track:
        """The window in each iteration, up to where it repeats, and `init` with it. What has no value there takes the
        whole dimension."""
        ref, init = access.ref, self._init(work, access, node)
        envs = self._envs(work, ref, node)
        entries: list[Window] = []
        courses = [(self._course(init, envs[0]) if init is not None else None) or STILL]
        for w, parts in zip(ref.window or (), written_out(ref, node), strict=True):
            found = [self._course(e, env) for e in parts for env in envs]
            entries.append(Full() if by_element(w) or None in found else w)
            courses += [] if isinstance(entries[-1], Full) else [c for c in found if c is not None]
        pairs = zip(ref.window or (), entries, strict=True)
        exact = not any(isinstance(e, Full) and not (isinstance(w, Full) or by_element(w)) for w, e in pairs)
        settle, period = max(c.settle for c in courses), lcm(*(c.period for c in courses))
        if settle + period > LONGEST:
            return Track(((),), 0, False)
        ref = replace(ref, window=tuple(entries) if ref.window is not None else None)
        if self.loop is None or settle + period == 1:
            return Track((self._box(ref, field, envs),), 0, exact)
        boxes = [self._box(ref, field, self._envs(work, ref, node, i)) for i in range(settle + period)]
        while init is None and settle and boxes[settle - 1] == boxes[settle - 1 + period]:
            settle -= 1
            boxes.pop()
        self.agent.period, self.agent.settle = lcm(self.agent.period, period), max(self.agent.settle, settle)
        return Track(tuple(boxes), settle, exact)

    def _course(self, e: Expr, env: Env) -> Course | None:
        """How a part of a window moves; None if it has no value, or none that is known in every iteration."""
        if self.loop is None or self.loop.var not in names(e):
            return None if constant(e, env) is None else STILL
        found = course(e, self.loop, env)
        if found is not None and not found.slope:
            return found
        trips = self.loop.trips
        if trips is None or trips > LONGEST or any(constant(e, self.loop.env(env, i)) is None for i in range(trips)):
            return None
        return Course(max(trips - 1, 0), 1, 0)  # one by one

    def _envs(self, work: Work, ref: Ref, node: Node, iteration: int = 0) -> list[Env]:
        """What the names in a window mean in an iteration; for one warp, to each of its lanes if they differ."""
        env = node.env if self.loop is None else self.loop.env(node.env, iteration)
        if self.agent.warps > 1 or not by_thread(ref, node):
            return [{**work_env(self.kernel, node._replace(env=env), work), **self._ranks()}]
        warp = self.agent.lane
        lanes: list[Env] = [{"warp": warp, "lane": lane, "thread": WARP * warp + lane} for lane in range(WARP)]
        return [
            {**work_env(self.kernel, node._replace(env={**env, **own}), work), **self._ranks(), **own} for own in lanes
        ]

    def _box(self, ref: Ref, field: Field, envs: list[Env]) -> Box:
        """The window; for one warp, around those of its lanes."""
        return reduce(union, (box_of(ref, field, env) for env in envs))

    def _spread(self, work: Work, access: Access, node: Node, exact: bool) -> str | None:
        """How the window's elements are dealt out. A warp that has a window for itself, has all of it; where threads
        have, an index may tell whose an element is. `exact`: the window is known in every iteration."""
        spread = spread_of(self.kernel, work, access, node)
        if spread is None or access.engine in ("tcgen05_ld", "tcgen05_st"):
            return spread
        if by_thread(access.ref, node, self.domain):
            owner = owner_of(access.ref, node, self.domain, WARP * self.agent.instance.num_warps)
            return f"{spread} of warp {self.agent.lane}" if owner is None else f"{spread} at {owner}"
        if work.scope == "warp":
            return f"{spread} of warp {self.agent.lane}"
        if exact or APART in spread:
            return spread
        # between two warps of three or more that stand for all, two calls are told from one
        assert isinstance(node.step, CallStep)
        span = node.step.span
        return f"{spread}{ANYWHERE}{span.line}:{span.column}" if self.agent.instance.num_warps > 2 else None

    def _ranks(self) -> dict[str, int]:
        """Coordinates of clustered axes, as their place in the cluster: what windows of shared memory can depend on."""
        here = self.b.coordinates(self.agent.cta)
        return {
            a.name: here[a.name] for a in self.kernel.launch.axes if a.cluster > 1 and self._spans(a.extent, a.cluster)
        }

    def _spans(self, extent: object, cluster: int) -> bool:
        try:
            return evaluate(extent, self.kernel.env) == cluster  # type: ignore[arg-type]
        except (NotConstant, NoValue):
            return False


def _chooses(work: Work) -> bool:
    values = [v.expr for v in work.args.values() if isinstance(v, Placed)]
    values += [a.value for v in work.args.values() if isinstance(v, tuple) for a in v if isinstance(a, Assign)]
    return "where" in work.args or any(
        isinstance(e, IfElse) or (isinstance(e, Call) and e.function == "where") for v in values for e in walk(v)
    )


__all__ = ["CONSUME", "PRODUCE", "PROXY", "TCGEN05", "TMEM_LD", "TMEM_ST", "WGMMA", "Works"]
