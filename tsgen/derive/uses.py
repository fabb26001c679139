"""Who does what: one pass over every task instance collects the facts that derivation needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import prod

from tsgen.derive.brackets import Ring, Steps, brackets
from tsgen.derive.storage import find_field, window_bytes
from tsgen.derive.unfold import Env, Node, calls, constant, unfold, work_env
from tsgen.diagnostics import Span
from tsgen.model.expr import Placed, Ref
from tsgen.model.kernel import Kernel, Task, TaskInstance, Work
from tsgen.model.ops import OPS, Access, accesses, copies
from tsgen.model.steps import CallStep

Party = tuple[Task, TaskInstance]
_PIPELINE_SIDES = {
    "acquire": "producer",
    "commit": "producer",
    "try_acquire": "producer",
    "wait": "consumer",
    "release": "consumer",
    "try_wait": "consumer",
    "skip": "consumer",
}


@dataclass
class Uses:
    """Facts of the schedules. Lists keep the order of the tasks and have no duplicates.

    `methods`: (resource, instance, method) -> parties that have such a step (a group's step counts for each member).
    `bracket_bytes`: resource -> party -> bytes written through the transaction engine before each commit, and where.
    `engines`: root field -> engines that touch it. `pair`: resources used by 2-CTA MMAs. `barriers`: (name, instance)
    -> parties. `src`, `dst`: task -> resources and tensors it consumes and produces.
    """

    methods: dict[tuple[str, int, str], list[Party]] = field(default_factory=dict)
    bracket_bytes: dict[str, dict[tuple[str, int], list[tuple[int, Span]]]] = field(default_factory=dict)
    engines: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    ops: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    pair: set[str] = field(default_factory=set)
    multicast: dict[str, set[str]] = field(default_factory=dict)
    barriers: dict[tuple[str, int], list[Party]] = field(default_factory=dict)
    src: dict[str, dict[str, None]] = field(default_factory=dict)
    dst: dict[str, dict[str, None]] = field(default_factory=dict)
    written: dict[str, set[str]] = field(default_factory=dict)  # task -> what it writes, in place included
    programs: dict[tuple[str, int], tuple[Node, ...]] = field(default_factory=dict)
    _accesses: dict[int, tuple[Access, ...]] = field(default_factory=dict)  # by identity of the work

    def accesses(self, work: Work) -> tuple[Access, ...]:
        """What a work reads and writes, remembered."""
        found = self._accesses.get(id(work))
        if found is None:
            found = self._accesses[id(work)] = tuple(accesses(work))
        return found

    def parties(self, resource: str, method: str, instance: int = 0) -> list[Party]:
        return self.methods.get((resource, instance, method), [])


def uses(kernel: Kernel) -> Uses:
    """Collects the facts of all task instances."""
    u = Uses()
    for task, instance in kernel.instances():
        program = unfold(kernel, task, instance)
        u.programs[task.name, instance.index] = program
        u.src.setdefault(task.name, {})
        u.dst.setdefault(task.name, {})
        for node in calls(program):
            _call(kernel, u, (task, instance), node)
        for b in brackets(program, Steps(partial(_written, kernel, instance), partial(_rings, kernel))):
            mine = u.bracket_bytes.setdefault(b.ring[0], {}).setdefault((task.name, instance.index), [])
            mine.append((b.nbytes, b.span))
    return u


def _call(kernel: Kernel, u: Uses, party: Party, node: Node) -> None:
    step = node.step
    assert isinstance(step, CallStep)
    match step.kind:
        case "pipeline" | "group" | "queue":
            _pipeline_step(kernel, u, party, node)
        case "barrier":
            _add(u.barriers.setdefault((step.target, node.instance), []), party)
        case "work":
            work = kernel.work(step.target, step.method)
            if work is not None:
                _work(kernel, u, party, node, work)


def _pipeline_step(kernel: Kernel, u: Uses, party: Party, node: Node) -> None:
    step = node.step
    assert isinstance(step, CallStep)
    group = kernel.groups.get(step.target)
    for target in group.members if group is not None else (step.target,):
        _add(u.methods.setdefault((target, node.instance, step.method), []), party)
        side = _PIPELINE_SIDES.get(step.method)
        if side is not None and target in kernel.resources and kernel.resources[target].queue is None:
            (u.dst if side == "producer" else u.src)[party[0].name].setdefault(target)


def _work(kernel: Kernel, u: Uses, party: Party, node: Node, work: Work) -> None:
    task, _ = party
    env = work_env(kernel, node, work)
    pairs = cta_group(work, env) == 2
    side = u.dst if work.role == "producer" else u.src
    owner = kernel.resources.get(work.owner)
    if owner is None or owner.kind in ("smem", "tmem"):
        side[task.name].setdefault(work.owner)
    if pairs:
        u.pair.add(work.owner)
    for access in u.accesses(work):
        ref = access.ref
        if access.mode == "write":
            u.written.setdefault(task.name, set()).add(ref.resource or ref.name)
        if ref.resource is None:
            if ref.name in kernel.tensors:
                (u.src if access.mode == "read" else u.dst)[task.name].setdefault(ref.name)
            continue
        found = find_field(kernel, ref)
        if found is None:
            continue
        if pairs:
            u.pair.add(ref.resource)
        u.engines.setdefault((found.owner, found.name), set()).add(access.engine)
        if work.op is not None:
            u.ops.setdefault((found.owner, found.name), set()).add(work.op)
        if ref.resource != work.owner and kernel.resources[ref.resource].kind in ("smem", "tmem"):
            (u.src if access.mode == "read" else u.dst)[task.name].setdefault(ref.resource)
    if work.op == "tma_load":
        axes = {c.multicast for c in copies(work) if c.multicast is not None}
        u.multicast.setdefault(work.owner, set()).update(axes)


def _rings(kernel: Kernel, node: Node, method: str) -> list[Ring]:
    """The rings that a call does a method on; a group's step counts for each member."""
    step = node.step
    if not isinstance(step, CallStep) or step.kind not in ("pipeline", "group") or step.method != method:
        return []
    group = kernel.groups.get(step.target)
    return [(target, node.instance) for target in (group.members if group is not None else (step.target,))]


def _written(kernel: Kernel, instance: TaskInstance, node: Node) -> tuple[Ring, int] | None:
    """The ring to whose stage a call adds transaction bytes, and how many."""
    step = node.step
    work = kernel.work(step.target, step.method) if isinstance(step, CallStep) and step.kind == "work" else None
    if work is None:
        return None
    owner = kernel.resources.get(work.owner)
    pipeline = owner.pipeline if owner is not None else None
    lanes = pipeline is not None and pipeline.interleave_stride[1] == instance.num_warps
    n = tx_bytes(kernel, work, work_env(kernel, node, work), 1 if lanes else instance.num_warps)
    return ((work.owner, node.instance), n) if n else None


def tx_bytes(kernel: Kernel, work: Work, env: Env, warps: int) -> int:
    """Bytes that one call adds to the transaction count of its own CTA's full barrier."""
    times = warps if work.scope == "warp" else 1
    if work.op == "tma_load":
        return times * sum(window_bytes(kernel, c.to, env) for c in copies(work))
    if work.op == "peer_store":
        value = work.args.get("value")
        assert isinstance(value, Placed)
        # what goes to one CTA comes from each of them, once it has gone to all
        senders = 1 if "peer" in work.args else cluster_extent(kernel, peer_axis(work))
        return times * value_bytes(kernel, work, env) * senders
    if work.op is None and work.engine == "tx" and work.nbytes is not None:
        n = constant(work.nbytes.expr, env)
        return times * n if isinstance(n, int) else 0
    return 0


def value_bytes(kernel: Kernel, work: Work, env: Env) -> int:
    """Bytes that a store writes: those of the window `to`."""
    to = work.args.get("to")
    assert isinstance(to, Placed)
    return window_bytes(kernel, to.expr, env) if isinstance(to.expr, Ref) else 0


def peer_axis(work: Work) -> str:
    axis = work.args.get("peers")
    return axis if isinstance(axis, str) else str(axis)


def one_peer(work: Work, env: Env) -> int | None:
    """The number along `peers` of the one CTA that a `peer_store` writes to; None if all of them get it."""
    written = work.args.get("peer")
    value = constant(written.expr, env) if isinstance(written, Placed) else None
    return value if isinstance(value, int) else None


def cluster_extent(kernel: Kernel, axis: str) -> int:
    return next((a.cluster for a in kernel.launch.axes if a.name == axis), 1)


def cluster_size(kernel: Kernel) -> int:
    return prod(a.cluster for a in kernel.launch.axes)


def cta_group(work: Work, env: Env) -> int:
    """CTAs that one MMA of the work spans; a work that is only a role may say it, too."""
    if work.op is not None and "cta_group" not in OPS[work.op].params:
        return 1
    written = work.args.get("cta_group", 1)
    value = constant(written.expr, env) if isinstance(written, Placed) else written
    return value if isinstance(value, int) else 1


def _add(parties: list[Party], party: Party) -> None:
    if not any(p[0].name == party[0].name and p[1].index == party[1].index for p in parties):
        parties.append(party)
