"""Pipeline steps of one warp: what it waits for, and what it arrives at (ts-semantics 5.4, a row for each branch)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tsgen.derive.arrivals import ACQUIRE, COMMIT, RELEASE, ROLES, WAIT
from tsgen.derive.filling import filled_by_copies
from tsgen.derive.unfold import Node
from tsgen.derive.uses import peer_axis
from tsgen.model.kernel import Pipeline, Resource
from tsgen.model.pipelines import PIPELINES
from tsgen.model.steps import CallStep
from tsgen.simulate.barriers import MBarrier, Signal
from tsgen.simulate.layout import Ring
from tsgen.simulate.scheduler import Operation
from tsgen.simulate.windows import whole_number

if TYPE_CHECKING:
    from tsgen.simulate.warp import Site, Warp

Key = tuple[str, int]


class Positions:
    """Where a warp stands in each ring: a position for each of acquire, commit, wait and release."""

    def __init__(self, warp: Warp) -> None:
        self.warp = warp
        self.at: dict[Key, list[int]] = {}
        self.lanes = False  # whether the warps of the task are the lanes of a ring
        for node in _pipeline_calls(warp.program):
            assert isinstance(node.step, CallStep)
            resource = warp.kernel.resources.get(node.step.target)
            role = ROLES.get(node.step.method)
            if resource is not None and resource.pipeline is not None and role is not None and warp.warps > 1:
                self.lanes |= resource.pipeline.interleave_stride[role] == warp.warps
        self.start = 0  # of the domain loop: the lane of a task whose siblings take the others
        task, index = warp.task.name, warp.instance.index
        self.has = {
            key
            for key, parties in warp.grid.uses.methods.items()
            if any(t.name == task and i.index == index for t, i in parties)
        }

    def enter_loop(self, start: int) -> None:
        self.start = start

    def of(self, key: Key) -> list[int]:
        found = self.at.get(key)
        if found is None:
            pipeline = self.warp.kernel.resources[key[0]].pipeline
            assert pipeline is not None
            strides = pipeline.interleave_stride
            lane = self.warp.warp if self.lanes else None
            found = self.at[key] = [(self.start % s if lane is None else lane) if s > 1 else 0 for s in strides]
        return found

    def work(self, key: Key, producer: bool) -> int:
        """The position whose stage a work touches: the one acquired or waited for last, else the one given on next."""
        pipeline = self.warp.kernel.resources[key[0]].pipeline
        assert pipeline is not None
        opening, closing = (ACQUIRE, COMMIT) if producer else (WAIT, RELEASE)
        at = self.of(key)
        if (*key, "acquire" if producer else "wait") in self.has:
            return at[opening] - pipeline.interleave_stride[opening]
        return at[closing]


def step(w: Warp, node: Node, site: Site) -> Iterator[Signal | None]:
    """Performs a pipeline, group or queue step."""
    call = node.step
    assert isinstance(call, CallStep)
    if call.method in ("fetch_work_tile", "get_and_advance_work_tile"):
        w.cluster.queue_work(w, call, site)
        return
    group = w.kernel.groups.get(call.target)
    names = [
        n for n in (group.members if group is not None else (call.target,)) if (n, node.instance) in w.layout.rings
    ]
    if not names:
        return  # a static queue: its steps are the loop's
    keys = [(n, node.instance) for n in names]
    if call.method == "skip":
        by = whole_number(w.number(call.args["n"].expr, {**w.names, **node.env}))
        for key in keys:
            w.positions.of(key)[WAIT] += by
            w.positions.of(key)[RELEASE] += by
        return
    ring = w.layout.rings[keys[0]]
    pipeline = ring.resource.pipeline
    assert pipeline is not None
    method = call.method.removeprefix("try_")
    role = ROLES[method]
    position = w.positions.of(keys[0])[role]
    if not _silenced(w, ring.resource, pipeline, method):
        stage, phase = position % ring.stages, position // ring.stages
        if method in ("acquire", "wait"):
            barrier = _waited(w, ring, method)[stage]
            wanted = phase - (method == "acquire")
            if method != call.method:
                barrier.passes(wanted, site)
                return
            while not barrier.passes(wanted, site):
                w.blocked_at = site
                yield barrier
            w.grid.timeline.add(site, stage, phase)
            if method == "acquire":
                _arm(w, ring, stage, phase, site)
        else:
            w.grid.timeline.add(site, stage, phase)
            (_commit if method == "commit" else _release)(w, ring, stage, phase, site)
    if method == call.method:
        for key in keys:
            w.positions.of(key)[role] += pipeline.interleave_stride[role]


def _waited(w: Warp, ring: Ring, method: str) -> list[MBarrier]:
    if method == "wait":
        return ring.full[w.cta]
    return ring.empty[0 if ring.resource.queue is not None else w.cta]


def _silenced(w: Warp, resource: Resource, pipeline: Pipeline, method: str) -> bool:
    """Whether only the pair's leader performs a step, and this is the other CTA: then the position moves alone."""
    if w.layout.leader(resource.name, w.cta) == w.cta:
        return False
    kind = PIPELINES[pipeline.type]
    if method in ("acquire", "commit"):
        return kind.producer == "umma" and "cta_leader" in (pipeline.producer_signaling or "")
    mode = pipeline.consumer_signaling or ""
    if method == "wait":
        mode = pipeline.consumer_wait_signaling or mode
    return kind.consumer == "umma" and "cta_leader" in mode


def _arm(w: Warp, ring: Ring, stage: int, phase: int, site: Site) -> None:
    """An elected lane announces the bytes of the stage, and arrives once."""
    resource, pipeline = ring.resource, ring.resource.pipeline
    assert pipeline is not None
    derived = w.layout.derived
    if derived.arrivals[resource.name].full_by != "arm":
        return
    group = w.layout.group_of(resource.name)
    if group is not None and group.mode == "fork" and group.members[0] != resource.name:
        return
    one_for_all = "task_warp_leader" in (pipeline.producer_signaling or "") or pipeline.type == "peer_async"
    if one_for_all and not w.elected:
        return
    ctas = [w.cta]
    if resource.queue is not None:
        ctas = [c.rank for c in w.layout.ctas]
    elif pipeline.type == "tma_umma" and w.layout.leader(resource.name, w.cta) != w.cta:
        return  # the leader counts the bytes of both
    nbytes = pipeline.num_bytes if pipeline.num_bytes is not None else derived.tx_bytes[resource.name]
    for cta in ctas:
        barrier = ring.full[cta][stage]
        barrier.expect(nbytes, phase, site)
        barrier.arrive(1, phase, site)


def _commit(w: Warp, ring: Ring, stage: int, phase: int, site: Site) -> None:
    resource, pipeline = ring.resource, ring.resource.pipeline
    assert pipeline is not None
    by = w.layout.derived.arrivals[resource.name].full_by
    if by == "thread":
        cta = w.cta
        if pipeline.type == "async_umma":
            cta = w.layout.leader(resource.name, w.cta)
            if cta != w.cta and "cta_leader" in (pipeline.producer_signaling or ""):
                return
        barrier = ring.full[cta][stage]
        w.copies = [o for o in w.copies if not o.done]
        copying = w.copies if filled_by_copies(resource) else []
        if not copying:
            barrier.arrive(32, phase, site)
            return
        _arrive_after(copying, lambda: barrier.arrive(32, phase, site))
    elif by == "umma" and w.elected:
        pair = w.layout.pair(w.cta) if resource.name in w.grid.uses.pair else [w.cta]
        _umma(w, [ring.full[c][stage] for c in pair], phase, site)


def _arrive_after(copying: list[Operation], arrive: Callable[[], None]) -> None:
    """cp.async.mbarrier.arrive.noinc: the arrival is made when the copies before it are complete."""
    left = len(copying)

    def one() -> None:
        nonlocal left
        left -= 1
        if not left:
            arrive()

    for operation in copying:
        operation.after.append(one)


def _umma(w: Warp, barriers: list[MBarrier], phase: int, site: Site) -> None:
    """tcgen05.commit: arrives when all tcgen05 operations that the thread issued before are complete."""

    def finish() -> None:
        for barrier in barriers:
            barrier.arrive(1, phase, site)

    w.scheduler.issue(Operation(w.scheduler, "tcgen05.commit", w.cta, site, finish, w.umma))


def _release(w: Warp, ring: Ring, stage: int, phase: int, site: Site) -> None:
    resource, pipeline = ring.resource, ring.resource.pipeline
    assert pipeline is not None
    by = w.layout.derived.arrivals[resource.name].empty_by
    axes = w.grid.uses.multicast.get(resource.name, set())
    if by == "umma":
        if w.elected:
            pair = w.layout.pair(w.cta) if resource.name in w.grid.uses.pair else [w.cta]
            reached = sorted({c for leader in pair for c in w.layout.along(leader, axes)})
            _umma(w, [ring.empty[c][stage] for c in reached], phase, site)
        return
    if resource.queue is not None:
        ctas = [0]
    elif pipeline.type == "umma_async":
        leader = w.layout.leader(resource.name, w.cta)
        ctas = [] if leader != w.cta and "cta_leader" in (pipeline.consumer_signaling or "") else [leader]
    elif pipeline.type == "peer_async":
        axes = {peer_axis(x) for x in resource.works.values() if x.op == "peer_store"}
        ctas = w.layout.along(w.cta, axes)
    else:
        ctas = w.layout.along(w.cta, axes)
    for cta in ctas:
        ring.empty[cta][stage].arrive(32 if by == "thread" else 1, phase, site)


def _pipeline_calls(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node.step, CallStep):
            if node.step.kind == "pipeline":
                yield node
        else:
            yield from _pipeline_calls(node.body)
