"""Kernel -> System: CTAs, agents, barriers, rings and cells. The agents' code follows in `tsgen.verify.code`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from tsgen.derive.arrivals import ROLES
from tsgen.derive.filling import byteless
from tsgen.derive.memory import instances
from tsgen.derive.model import Derived
from tsgen.derive.spread import APART, BY_THREAD, by_thread, divergent, elected, spread_of
from tsgen.derive.storage import root
from tsgen.derive.unfold import Node, calls, constant, work_env
from tsgen.derive.uses import Uses, cluster_size
from tsgen.model.expr import names
from tsgen.model.kernel import Kernel, Resource, Task, TaskInstance, Work
from tsgen.model.ops import Access
from tsgen.model.steps import CallStep, DomainLoop, TileLoop, When
from tsgen.verify.machine import Agent, BarrierInfo, Ring, System
from tsgen.verify.regions import Layout, box_of, is_exact
from tsgen.verify.symbols import Symbols
from tsgen.verify.windows import TensorWindow, meet, tensor_accesses


class Builder:
    """The parts of a system, with what code generation needs to know about them."""

    def __init__(self, kernel: Kernel, derived: Derived, uses: Uses) -> None:
        self.kernel = kernel
        self.derived = derived
        self.uses = uses
        self.cluster = [a.cluster for a in kernel.launch.axes]
        self.system = System(kernel, Symbols(kernel), cluster_size(kernel) if self._coupled() else 1)
        self.system.pdl = any(r.kind == "pdl" for r in kernel.resources.values())
        self.layout = Layout(kernel, derived, self.system)
        self.rings: dict[tuple[str, int], int] = {}
        # rings whose works have no code yet that writes their bytes: there a commit stands for them
        self.silent = {resource.name for resource, open in byteless(kernel, uses) if open}
        self.passed_on = self._passed_on()
        self.named: dict[tuple[int, str, int], int] = {}
        self.pairs = self.system.pairs = bool(uses.pair)
        for resource in kernel.resources.values():
            if resource.pipeline is not None:
                for index in range(instances(resource)):
                    self._ring(resource, index)
        for (name, index), barrier in derived.barriers.items():
            for cta in range(self.system.ctas):
                self.named[cta, name, index] = len(self.system.barriers)
                self.system.barriers.append(BarrierInfo(name, index, "named", 0, cta, barrier.threads, False))
        for task, instance in kernel.instances():
            self._agents(task, instance)

    def _coupled(self) -> bool:
        """Whether CTAs of a cluster signal each other, or differ in their tasks; else one stands for all."""
        if cluster_size(self.kernel) == 1:
            return False
        pipelines = [r.pipeline.type for r in self.kernel.resources.values() if r.pipeline is not None]
        return (
            any(n > 1 for n in self.derived.peers.values())
            or bool(self.uses.pair)
            or "clc_fetch_async" in pipelines
            or "peer_async" in pipelines
            or any(t.cta is not None for t in self.kernel.tasks)
        )

    def _passed_on(self) -> set[str]:
        """Tensors of which two tasks touch a common window, one of them to write."""
        uses, kernel = self.uses, self.kernel
        candidates = set()
        for tensor in kernel.tensors:
            tasks = [t for t in kernel.tasks if tensor in uses.src[t.name] or tensor in uses.dst[t.name]]
            if sum(len(t.instances) for t in tasks) > 1 and any(tensor in uses.written.get(t.name, ()) for t in tasks):
                candidates.add(tensor)
        turns = {party: _turn(program) for party, program in uses.programs.items()}
        touched: dict[str, dict[tuple[tuple[str, int], bool, TensorWindow], None]] = {}
        for party, program in uses.programs.items() if candidates else ():
            for _, access, found in tensor_accesses(kernel, uses, program):
                if found is not None and access.ref.name in candidates:
                    one = (party, access.mode == "write", TensorWindow(found, False))
                    touched.setdefault(access.ref.name, {}).setdefault(one)

        def common(found: Iterable[tuple[tuple[str, int], bool, TensorWindow]]) -> bool:
            for (p, v, x), (q, w, y) in combinations(found, 2):
                apart = turns[p][1] == turns[q][1] and turns[p] != turns[q]  # they never work on one tile
                if p != q and (v or w) and not apart and meet(x, y, kernel.env):
                    return True
            return False

        return {name for name, found in touched.items() if common(found)}

    # ---- places in the cluster ---------------------------------------------------------------------------------

    def coordinates(self, cta: int) -> dict[str, int]:
        """The CTA's place along each axis of the cluster, first axis fastest."""
        found = {}
        for axis, extent in zip(self.kernel.launch.axes, self.cluster, strict=True):
            found[axis.name] = cta % extent
            cta //= extent
        return found

    def along(self, cta: int, axes: set[str]) -> tuple[int, ...]:
        """The CTAs that differ from this one along one of the axes, and itself; alone if the CTAs are not coupled."""
        if self.system.ctas == 1:
            return (0,)
        here = self.coordinates(cta)
        found = {cta}
        for other in range(self.system.ctas):
            there = self.coordinates(other)
            different = [a for a in here if here[a] != there[a]]
            if len(different) == 1 and different[0] in axes:
                found.add(other)
        return tuple(sorted(found))

    def pair(self, cta: int) -> tuple[int, ...]:
        """The CTAs of a cta_group of two: neighbours along the first axis."""
        even = cta - cta % 2
        return (even, even + 1) if even + 1 < self.system.ctas else (even,)

    # ---- barriers ----------------------------------------------------------------------------------------------

    def _barriers(self, resource: Resource, index: int, side: str, need: int, transactions: bool) -> tuple[int, ...]:
        """Barriers of all stages in each CTA; the index of stage 0 for each."""
        assert resource.pipeline is not None
        bases = []
        for cta in range(self.system.ctas):
            bases.append(len(self.system.barriers))
            for stage in range(resource.pipeline.num_stages):
                self.system.barriers.append(BarrierInfo(resource.name, index, side, stage, cta, need, transactions))
        return tuple(bases)

    def _ring(self, resource: Resource, index: int) -> None:
        pipeline = resource.pipeline
        assert pipeline is not None
        counts = self.derived.arrivals[resource.name]
        transactions = self.derived.tx_bytes[resource.name] > 0
        group = next((g for g in self.kernel.groups.values() if resource.name in g.members), None)
        made = [self.rings[m, index] for m in (group.members if group is not None else ()) if (m, index) in self.rings]
        shared = self.system.rings[made[0]] if made else None
        mode = group.mode if group is not None else ""
        if shared is not None and mode in ("fork", "fused_merge"):
            full = shared.full
        else:
            need = counts.full
            if mode == "fused_merge" and group is not None:
                need = sum(self.derived.arrivals[m].full for m in group.members if m in self.derived.arrivals)
                transactions = any(self.derived.tx_bytes.get(m, 0) for m in group.members)
            full = self._barriers(resource, index, "full", need, transactions)
        if shared is not None and mode in ("merge", "fused_merge"):
            empty = shared.empty
        else:
            empty = self._barriers(resource, index, "empty", counts.empty, False)
        stride = max(pipeline.interleave_stride)
        self.rings[resource.name, index] = len(self.system.rings)
        self.system.rings.append(Ring(resource.name, index, pipeline.num_stages, full, empty, stride))

    # ---- agents ------------------------------------------------------------------------------------------------

    def _agents(self, task: Task, instance: TaskInstance) -> None:
        program = self.uses.programs[task.name, instance.index]
        for cta in range(self.system.ctas):
            if isinstance(task.cta, int) and task.cta != cta and self.system.ctas > 1:
                continue
            if task.cta == "leader" and cta % 2 and self.pairs:
                continue
            for kind, warps, lane, twin in self._kinds(instance, program):
                self.system.agents.append(Agent(task, instance, cta, kind, warps, lane, twin))

    def _kinds(self, instance: TaskInstance, program: tuple[Node, ...]) -> list[tuple[str, int, int, bool]]:
        n = instance.num_warps
        if any(self._warp_lanes(node, n) for node in calls(program)):
            return [("lane", 1, lane, False) for lane in range(n)]
        if n > 1 and any(self._by_warp(node) for node in program):
            return [("warp", 1, warp, False) for warp in range(n)]
        if n == 1 or not self._warps_differ(program):
            return [("all", n, 0, False)]
        return [("lead", 1, 0, False), ("rest", n - 1, 1, n > 2)]

    def _warp_lanes(self, node: Node, warps: int) -> bool:
        assert isinstance(node.step, CallStep)
        resource = self.kernel.resources.get(node.step.target)
        if resource is None or resource.pipeline is None or node.step.kind != "pipeline":
            return False
        role = ROLES.get(node.step.method)
        return role is not None and warps > 1 and resource.pipeline.interleave_stride[role] == warps

    def _by_warp(self, node: Node, differs: bool = False) -> bool:
        """Whether warps of a task touch different windows of shared or tensor memory, or each of them writes there for
        itself. `differs`: the warps may take different ways to the node."""
        match node.step:
            case CallStep(kind="work") as step:
                work = self.kernel.work(step.target, step.method)
                return work is not None and any(self._apart(node, work, a, differs) for a in self.uses.accesses(work))
            case CallStep():
                return False
            case DomainLoop() as loop:
                differs |= divergent(loop)
            case When() as when:
                differs |= bool(names(when.condition.expr) & BY_THREAD)
        return any(self._by_warp(inner, differs) for inner in node.body)

    def _apart(self, node: Node, work: Work, access: Access, differs: bool) -> bool:
        owner = self.kernel.resources.get(access.ref.resource or "")
        if owner is None or owner.kind not in ("smem", "tmem"):
            return False
        alone = work.scope == "warp" and owner.kind == "smem" and access.mode == "write"
        return differs or alone or by_thread(access.ref, node)

    def _warps_differ(self, program: tuple[Node, ...]) -> bool:
        """Whether one warp does what others do not, or warps of the task can touch each other's bytes."""
        touched: dict[tuple[str, str], list[tuple[bool, str | None]]] = {}
        for node in calls(program):
            step = node.step
            assert isinstance(step, CallStep)
            if step.kind == "completion" and step.target == "bulk":
                return True
            if any(self._by_one(name, step.method) for name in self._members(step)):
                return True
            work = self.kernel.work(step.target, step.method) if step.kind == "work" else None
            if work is None:
                continue
            if elected(self.kernel, work):
                return True
            env = work_env(self.kernel, node, work)
            for access in self.uses.accesses(work):
                owner = self.kernel.resources.get(access.ref.resource or "")
                if owner is None or owner.kind != "smem":
                    continue
                field = root(self.kernel, owner.fields[access.ref.name])
                key = spread_of(self.kernel, work, access, node)
                if key is not None and APART not in key:  # else its windows are equal or apart
                    fixed = is_exact(access.ref, env)
                    key = f"{key}{box_of(access.ref, field, env)}" if fixed else None
                touched.setdefault((field.owner, field.name), []).append((access.mode == "write", key))
        for (name, one), (other, another) in combinations(touched, 2):
            writes = any(w for w, _ in (*touched[name, one], *touched[other, another]))
            if writes and self.layout.aliased((name, one), (other, another)):
                return True
        for found in touched.values():
            if any(w for w, _ in found) and len({k for _, k in found}) > 1:
                return True
            if any(w and k is None for w, k in found):
                return True
        return False

    def _members(self, step: CallStep) -> tuple[str, ...]:
        """The rings that a pipeline step moves."""
        if step.kind not in ("pipeline", "group", "queue"):
            return ()
        group = self.kernel.groups.get(step.target)
        return group.members if group is not None else (step.target,)

    def _by_one(self, ring: str, method: str) -> bool:
        """Whether one warp of a task does a step of a ring for all: it arms the bytes, or has the tensor core arrive.
        That says nothing of the other warps."""
        counts = self.derived.arrivals.get(ring)
        if counts is None:
            return False
        by = counts.empty_by if method == "release" else counts.full_by
        return by == {"acquire": "arm", "commit": "umma", "release": "umma"}.get(method)


def _turn(program: tuple[Node, ...]) -> tuple[int, int]:
    """The first of a program's tiles, modulo the stride between them, and the stride."""
    for node in program:
        if isinstance(node.step, TileLoop):
            first, stride = constant(node.step.first.expr, node.env), constant(node.step.stride.expr, node.env)
            if isinstance(first, int) and isinstance(stride, int) and stride > 0:
                return first % stride, stride
    return 0, 1
