"""Pipeline steps -> instructions: which barriers an agent waits for and arrives at, with how many arrivals.

One row of the table in ts-semantics 5.4 is one branch here. `full` says a stage is filled, `empty` says it may be
filled again; a pair of CTAs shares the barriers of its leader, a multicast ring is released to all CTAs that write it.
"""

from __future__ import annotations

from collections.abc import Callable

from tsgen.derive.arrivals import ACQUIRE, COMMIT, RELEASE, ROLES, WAIT
from tsgen.derive.filling import filled_by_copies
from tsgen.derive.unfold import Node
from tsgen.derive.uses import peer_axis
from tsgen.model.kernel import Group, Pipeline, Resource
from tsgen.model.pipelines import PIPELINES
from tsgen.model.steps import CallStep
from tsgen.verify.build import Builder
from tsgen.verify.machine import (
    ACCESS,
    ARM,
    ARRIVE,
    CARRY_CP_ASYNC,
    CARRY_NOTHING,
    CARRY_UMMA,
    TRY,
    TX,
    Agent,
    Ring,
)
from tsgen.verify.machine import WAIT as WAIT_OP


class Pipes:
    """Writes one agent's pipeline steps. Positions have four slots for each ring: acquire, commit, wait, release."""

    def __init__(self, builder: Builder, index: int, agent: Agent, ref: Callable[[CallStep], int]) -> None:
        self.b = builder
        self.kernel = builder.kernel
        self.system = builder.system
        self.agent = agent
        self.index = index
        self.ref = ref
        self._slots: dict[tuple[str, int], int] = {}
        self._named: dict[tuple[int, str, int], int] = {}
        self._loop_start = 0
        task, i = agent.task.name, agent.instance.index
        self.has = {
            (name, instance, method)
            for (name, instance, method), parties in builder.uses.methods.items()
            if any(t.name == task and p.index == i for t, p in parties)
        }

    def enter_loop(self, start: int) -> None:
        """The start of the domain loop decides the lane of a task whose siblings take the other lanes."""
        self._loop_start = start
        for (name, _), base in self._slots.items():
            pipeline = self.kernel.resources[name].pipeline
            if pipeline is not None:
                for role, stride in enumerate(pipeline.interleave_stride):
                    if stride > 1 and self.agent.kind != "lane":
                        self.system.start[base + role] = start % stride

    # ---- slots -------------------------------------------------------------------------------------------------

    def ring(self, name: str, instance: int) -> Ring | None:
        index = self.b.rings.get((name, instance))
        return None if index is None else self.system.rings[index]

    def slot(self, name: str, instance: int) -> int:
        """The first of the four slots of a ring; made at first use, at the lane's first stage."""
        key = (name, instance)
        if key not in self._slots:
            self._slots[key] = self.system.slots
            pipeline = self.kernel.resources[name].pipeline
            assert pipeline is not None
            for stride in pipeline.interleave_stride:
                lane = self.agent.lane if self.agent.kind == "lane" else self._loop_start % stride
                self.system.start.append(lane if stride > 1 else 0)
                self.system.slot_ring.append(self.b.rings[key])
            self.agent.slots += range(self.system.slots, self.system.slots + 4)
            self.system.slots += 4
        return self._slots[key]

    def named_slot(self, key: tuple[int, str, int]) -> int:
        if key not in self._named:
            self._named[key] = self.system.slots
            self.agent.slots.append(self.system.slots)
            self.system.named_users.append((self.system.slots, self.b.named[key]))
            self.system.slots += 4  # as many as a ring has, so that slots of equal role are 4 apart
            self.system.start += [0] * 4
            self.system.slot_ring += [-1] * 4
        return self._named[key]

    def skip_slots(self, name: str, instance: int) -> tuple[int, ...]:
        members = self.kernel.groups[name].members if name in self.kernel.groups else (name,)
        return tuple(
            self.slot(m, instance) + role for m in members if (m, instance) in self.b.rings for role in (WAIT, RELEASE)
        )

    # ---- steps -------------------------------------------------------------------------------------------------

    def step(self, node: Node) -> None:
        step = node.step
        assert isinstance(step, CallStep)
        group = self.kernel.groups.get(step.target)
        names = group.members if group is not None else (step.target,)
        names = tuple(n for n in names if (n, node.instance) in self.b.rings)
        if not names:
            return  # without a pipeline there is nothing to wait for; the rules report it where it is wrong
        resource = self.kernel.resources[names[0]]
        ring = self.ring(names[0], node.instance)
        assert ring is not None and resource.pipeline is not None
        method = step.method.removeprefix("try_")
        role = ROLES.get(method)
        if role is None:
            return
        slots = tuple(self.slot(n, node.instance) + role for n in names)
        stride = resource.pipeline.interleave_stride[role]
        if self._silenced(resource, resource.pipeline, method):
            if method == step.method:
                self._emit(ARRIVE, (), slots, ring.stages, stride, 0, CARRY_NOTHING, -1, 0, -1, self.ref(step))
            return
        if method in ("acquire", "wait"):
            lag = 1 if method == "acquire" else 0
            side = ring.empty if method == "acquire" else ring.full
            cta = 0 if resource.queue is not None and method == "acquire" else self.agent.cta
            if step.method.startswith("try_"):
                self._emit(TRY, side[cta], slots, ring.stages, stride, lag, self.ref(step))
                return
            self._emit(WAIT_OP, side[cta], slots, ring.stages, stride, lag, 0, self.ref(step))
            if method == "acquire":
                self._arm(step, resource, resource.pipeline, ring, slots, stride)
        elif method == "commit":
            self._commit(step, resource, resource.pipeline, ring, slots, stride)
        else:
            self._release(step, resource, resource.pipeline, ring, slots, stride)

    def _silenced(self, resource: Resource, pipeline: Pipeline, method: str) -> bool:
        """Whether only the leader of a pair does a step, and this is the other CTA: then the position moves alone.
        Both CTAs of a pair fill its TMA rings, whoever counts the bytes."""
        if self.pair(resource.name, self.agent.cta)[0] == self.agent.cta:
            return False
        if method in ("acquire", "commit"):
            return "cta_leader" in (pipeline.producer_signaling or "") and PIPELINES[pipeline.type].producer == "umma"
        mode = pipeline.consumer_signaling or ""
        if method == "wait":
            mode = pipeline.consumer_wait_signaling or mode
        return "cta_leader" in mode and PIPELINES[pipeline.type].consumer == "umma"

    def _emit(self, *ins: object) -> None:
        self.agent.code.append(ins)

    def group_of(self, name: str) -> Group | None:
        return next((g for g in self.kernel.groups.values() if name in g.members), None)

    def pair(self, name: str, cta: int) -> tuple[int, ...]:
        return self.b.pair(cta) if name in self.b.uses.pair else (cta,)

    def _arm(
        self, step: CallStep, resource: Resource, pipeline: Pipeline, ring: Ring, slots: tuple[int, ...], stride: int
    ) -> None:
        """The elected lane announces the bytes of the stage: one arrival on full."""
        bases, units = self._armed(resource, pipeline, ring)
        if bases:
            nbytes = self.b.derived.tx_bytes[resource.name] * units
            if resource.name in self.b.silent:  # each warp's commit stands for its bytes
                nbytes = self.agent.instance.num_warps if self._leaders(pipeline) else self.agent.warps
                nbytes *= len(self.pair(resource.name, self.agent.cta))
            self._emit(ARM, bases, slots, ring.stages, stride, units, nbytes, self.ref(step))

    @staticmethod
    def _leaders(pipeline: Pipeline) -> bool:
        """Whether one warp of each task arms for all of them."""
        return "task_warp_leader" in (pipeline.producer_signaling or "") or pipeline.type == "peer_async"

    def _armed(self, resource: Resource, pipeline: Pipeline, ring: Ring) -> tuple[tuple[int, ...], int]:
        """The full barriers that the agent's elected lanes arm, and with how many arrivals."""
        if self.b.derived.arrivals[resource.name].full_by != "arm":
            return (), 0
        group = self.group_of(resource.name)
        if group is not None and group.mode == "fork" and group.members[0] != resource.name:
            return (), 0
        leaders = self._leaders(pipeline)
        if leaders and not self.agent.elected:
            return (), 0
        ctas: tuple[int, ...] = (self.agent.cta,)
        if resource.queue is not None:
            ctas = tuple(range(self.system.ctas))
        elif pipeline.type == "tma_umma" and self.pair(resource.name, self.agent.cta)[0] != self.agent.cta:
            return (), 0  # the leader counts the bytes of both
        return tuple(ring.full[c] for c in ctas), 1 if leaders else self.agent.warps

    def _commit(
        self, step: CallStep, resource: Resource, pipeline: Pipeline, ring: Ring, slots: tuple[int, ...], stride: int
    ) -> None:
        by = self.b.derived.arrivals[resource.name].full_by
        cta = self.agent.cta
        bases: tuple[int, ...] = ()
        units, carry = 0, CARRY_NOTHING
        if by == "thread":
            pair = self.pair(resource.name, cta) if pipeline.type == "async_umma" else (cta,)
            leaders = "cta_leader" in (pipeline.producer_signaling or "")
            if not (leaders and pair[0] != cta):
                bases = (ring.full[pair[0]],)
            units = 32 * self.agent.warps
            carry = CARRY_CP_ASYNC if filled_by_copies(resource) else CARRY_NOTHING
        elif resource.name in self.b.silent:
            full = ring.full[self.pair(resource.name, cta)[0]]
            transfer = (full, slots[0], ring.stages, 0, self.agent.warps)
            self._emit(ACCESS, (), (transfer,), TX, self.ref(step))
        elif by == "umma" and self.agent.elected:
            bases = tuple(ring.full[c] for c in self.pair(resource.name, cta))
            units, carry = 1, CARRY_UMMA
        own = slots[0] - COMMIT + ACQUIRE if (resource.name, ring.instance, "acquire") in self.has else -1
        opposite = ring.empty[0 if resource.queue is not None else cta] if bases else -1
        self._emit(ARRIVE, bases, slots, ring.stages, stride, units, carry, opposite, 1, own, self.ref(step))

    def _release(
        self, step: CallStep, resource: Resource, pipeline: Pipeline, ring: Ring, slots: tuple[int, ...], stride: int
    ) -> None:
        by = self.b.derived.arrivals[resource.name].empty_by
        cta = self.agent.cta
        units, carry = self.agent.warps * (32 if by == "thread" else 1), CARRY_NOTHING
        ctas: tuple[int, ...]
        if by == "umma":
            axes = self.b.uses.multicast.get(resource.name, set())
            reached = {c for leader in self.pair(resource.name, cta) for c in self.b.along(leader, axes)}
            ctas = tuple(sorted(reached)) if self.agent.elected else ()
            units, carry = 1, CARRY_UMMA
        elif resource.queue is not None:
            ctas = (0,)
        elif pipeline.type == "umma_async":
            leader = self.pair(resource.name, cta)[0]
            silent = "cta_leader" in (pipeline.consumer_signaling or "") and leader != cta
            ctas = () if silent else (leader,)
        elif pipeline.type == "peer_async":
            ctas = self.b.along(cta, {peer_axis(w) for w in resource.works.values() if w.op == "peer_store"})
        else:
            ctas = self.b.along(cta, self.b.uses.multicast.get(resource.name, set()))
        bases = tuple(ring.empty[c] for c in ctas)
        own = slots[0] - RELEASE + WAIT if (resource.name, ring.instance, "wait") in self.has else -1
        self._emit(ARRIVE, bases, slots, ring.stages, stride, units, carry, ring.full[cta], 0, own, self.ref(step))
