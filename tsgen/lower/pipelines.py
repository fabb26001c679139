"""The pipeline steps acquire, commit, wait, release, their tries, skip, and the drain at a task's end."""

from __future__ import annotations

from tsgen.lower.clusters import peer_count, peers_axis
from tsgen.lower.context import Builder, TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.instances import which
from tsgen.lower.positions import (
    advance,
    group_of,
    opened_stage,
    position,
    ring_config,
)
from tsgen.lower.program import Statement, assign
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.rings import Ring, producer_kind, ring, stage_bytes
from tsgen.lower.tries import Answers, answers
from tsgen.model.algebra import canonical
from tsgen.model.ops import accesses
from tsgen.model.steps import CallStep, calls


def step(s: TaskState, c: CallStep) -> list[Statement]:
    """The statements of a pipeline step on a resource or a group."""
    match c.method:
        case "try_acquire" | "try_wait":
            return _try(s, c)
        case "acquire" | "wait":
            return _open(s, c)
        case "commit":
            return [_commit(s, c)]
        case "release":
            return [_release(s, c)]
        case "skip":
            return _skip(s, c)
    refuse(f"the step `{c.text}`", c.span)


def _ring(s: TaskState, target: str) -> tuple[str, Ring]:
    """The resource whose barriers a step speaks of: a group's first member for all, since they share them."""
    group = s.builder.kernel.groups.get(target)
    resource = group.members[0] if group is not None else target
    return resource, ring(s.builder, resource)


def _try(s: TaskState, c: CallStep) -> list[Statement]:
    _, r = _ring(s, c.target)
    if not is_asked(s, c):
        return []
    each = s.builder.kernel.resources.get(c.target)
    if each is not None and each.each is not None:
        refuse(f"`{c.text}`, a try of one of several instances", c.span)
    state = position(s, c.target, c.method)
    barrier = r.empty_barrier(state) if c.method == "try_acquire" else r.full_barrier(state)
    values = {"pipeline": r.pipeline, "state": state, "token": _answer(s, c.target, c.method), "barrier": barrier}
    return [Statement(f"pipelines/{c.method}", values, s.note(c))]


def is_asked(s: TaskState, c: CallStep) -> bool:
    """Whether some step takes the answer of this try."""
    return id(c) in _answers(s, c.target, c.method).asked


def _answers(s: TaskState, target: str, attempt: str) -> Answers:
    key = (target, attempt)
    if key not in s.answers:
        s.answers[key] = answers(s.task.schedule.steps, target, attempt, s.scope.env)
    return s.answers[key]


def _answer(s: TaskState, target: str, attempt: str) -> str:
    """The variable with the answer of a try."""
    key = (target, attempt)
    if key not in s.answer_names:
        s.answer_names[key] = s.names.new(f"{target}_{'free' if attempt == 'try_acquire' else 'ready'}")
        if _answers(s, target, attempt).starts_unknown:
            s.prelude[("answer", *key)] = assign(s.answer_names[key], "cutlass.Boolean(False)")
    return s.answer_names[key]


def _cleared(s: TaskState, c: CallStep, attempt: str) -> list[Statement]:
    """After a step that uses up an answer: the variable says that nothing is known, where a later step may ask it."""
    if id(c) not in _answers(s, c.target, attempt).cleared_after:
        return []
    return [assign(_answer(s, c.target, attempt), "cutlass.Boolean(False)")]


def _open(s: TaskState, c: CallStep) -> list[Statement]:
    resource, r = _ring(s, c.target)
    i = which(s, c)
    state = position(s, c.target, c.method, i.key)
    attempt = f"try_{c.method}"
    token = _answer(s, c.target, attempt) if id(c) in _answers(s, c.target, attempt).used_by else None
    barrier = r.empty_barrier(state, i.index) if c.method == "acquire" else r.full_barrier(state, i.index)
    values: dict[str, object] = {"pipeline": r.pipeline, "state": state, "token": token, "barrier": barrier}
    if c.method == "acquire":
        values["arm"] = _arm(s, resource, r, state, i.index)
    out = [Statement(f"pipelines/{c.method}", values, s.note(c)), *_cleared(s, c, attempt)]
    stage = opened_stage(s, c.target, c.method, state, i.last)
    return out if stage is None else [*out, stage]


def _arm(s: TaskState, resource: str, r: Ring, state: str, instance: str | None) -> dict[str, object] | None:
    """How the bytes of a stage are announced after the wait, where the pipeline does not do that by itself."""
    b = s.builder
    kind = producer_kind(b, resource)
    if kind == "peer":
        return {"barrier": r.full_barrier(state), "bytes": stage_bytes(b, resource), "lead": s.lead_warp}
    if kind != "tma":
        return None
    p = ring_config(b, resource)
    leader = "task_warp_leader" in (p.producer_signaling or "") and s.num_warps > 1
    if r.pipeline is not None and not leader:
        return None
    g = group_of(b, resource)
    if g is not None and g.mode == "fork" and g.members[0] != resource:
        return None  # the first member announces the bytes of the barrier they share
    lead = s.lead_warp if leader else None
    return {"barrier": r.full_barrier(state, instance), "bytes": stage_bytes(b, resource), "lead": lead}


def _commit(s: TaskState, c: CallStep) -> Statement:
    resource, r = _ring(s, c.target)
    i = which(s, c)
    state = position(s, c.target, c.method, i.key)
    kind, type_ = producer_kind(s.builder, resource), ring_config(s.builder, resource).type
    values = {
        # the DSL has a pipeline for copies that threads read, none for those that the tensor core reads
        "pipeline": r.pipeline if kind != "cp_async" or type_ == "async_async" else None,
        "state": state,
        "by": advance(s, c.target, c.method),
        "last": i.last,
        "barrier": r.full_barrier(state, i.index),
        "producer": kind,
        "lead": s.lead_warp if s.builder.derived.arrivals[resource].full_by == "umma" else None,
    }
    return Statement("pipelines/commit", values, s.note(c))


def _release(s: TaskState, c: CallStep) -> Statement:
    b = s.builder
    resource, r = _ring(s, c.target)
    i = which(s, c)
    state = position(s, c.target, c.method, i.key)
    by, kind = b.derived.arrivals[resource].empty_by, producer_kind(b, resource)
    every_thread = by == "thread"
    tma = r.pipeline is not None and kind == "tma"
    axis = peers_axis(b, resource)
    peers = peer_count(b, axis) if axis is not None and b.derived.peers[resource] > 1 else None
    barrier = r.empty_barrier(state, i.index)
    arrive = f"{r.pipeline}.consumer_release({state})"
    if r.pipeline is None or (tma and every_thread):
        arrive = f"tcgen05.commit({barrier})" if by == "umma" else f"cute.arch.mbarrier_arrive({barrier})"
    values = {
        "arrive": arrive,
        "state": state,
        "by": advance(s, c.target, c.method),
        "last": i.last,
        # the pipelines of TMA and of an MMA's commit elect a lane by themselves, others arrive with all that call them
        "elect": (by == "warp" and not tma) or (by == "umma" and r.pipeline is None),
        "sync_warp": syncs(s, c),
        "lead": s.lead_warp if by == "umma" else None,
        "first_lanes": None if peers is None else f"{s.scope.names['lane']} < {peers}",
    }
    return Statement("pipelines/release", values, s.note(c))


def syncs(s: TaskState, c: CallStep) -> bool:
    """Whether a release by one lane begins with a warp sync: its lanes have read the stages. Those that have read other
    memory meet where it is derived; tcgen05.wait::ld is a step of the whole warp."""
    b = s.builder
    resource, r = _ring(s, c.target)
    group = b.kernel.groups.get(c.target)
    read = any(touches_generically(s, m) for m in (group.members if group is not None else (c.target,)))
    by, kind = b.derived.arrivals[resource].empty_by, producer_kind(b, resource)
    tma = r.pipeline is not None and kind == "tma"
    return by == "warp" and (read or (not tma and kind != "umma"))


def _skip(s: TaskState, c: CallStep) -> list[Statement]:
    n = c.args["n"].expr
    if canonical(n, s.scope.env).value == 0:
        return []
    states = {position(s, c.target, m): None for m in ("wait", "release") if _has(s, c.target, m)}
    moved = Statement("pipelines/skip", {"states": list(states), "by": s.py(n)}, s.note(c))
    return [moved, *_cleared(s, c, "try_wait")]


def _has(s: TaskState, target: str, method: str) -> bool:
    return any(c.target == target and c.method == method for c in calls(s.task.schedule.steps))


def touches_generically(s: TaskState, resource: str) -> bool:
    """Whether threads of this task access the stages themselves: then a warp syncs before a lane releases."""
    for c in calls(s.task.schedule.steps):
        w = s.builder.kernel.work(c.target, c.method) if c.kind == "work" else None
        if w is not None and any(a.ref.resource == resource and a.engine == "generic" for a in accesses(w)):
            return True
    return False


def drain(s: TaskState) -> list[Statement]:
    """Producer tails: no CTA leaves while a peer, or an MMA's commit, may still arrive at its barriers."""
    b = s.builder
    out = []
    for (owner, position_), state in s.states.items():
        if position_.rstrip("_0123456789") not in ("acquire", "state", "producer"):
            continue
        group = b.kernel.groups.get(owner)
        rings = group.members if group is not None else (owner,)  # the members of a fork may share a position
        late = [x for x in rings if _has(s, x, "acquire") and _released_later(b, x)]
        if not late:
            continue
        sender = "a commit of an MMA" if b.derived.arrivals[late[0]].empty_by == "umma" else "a peer"
        r = ring(b, late[0])
        if r.pipeline is not None:
            out.append(Statement("pipelines/tail", {"pipeline": r.pipeline, "state": state, "sender": sender}))
        else:
            out.append(_drain_plain(s, late, state, sender))
    return out


def _drain_plain(s: TaskState, rings: list[str], state: str, sender: str) -> Statement:
    """Waits until all stages of rings at one position are free, of instances those whose position it is."""
    b = s.builder
    acquire = next(c for c in calls(s.task.schedule.steps) if c.target == rings[0] and c.method == "acquire")
    i, each = which(s, acquire), b.kernel.resources[rings[0]].each
    everyone = each is not None and i.last is not None
    index = s.names.new(each.var) if each is not None and everyone else i.index
    values = {
        "stages": py(ring_config(b, rings[0]).stages, Scope(b.kernel.env, b.constants)),
        "all": each.count if each is not None and everyone else None,
        "index": index,
        "barriers": [ring(b, x).empty_barrier(state, index) for x in rings],
        "state": state,
        "sender": sender,
    }
    return Statement("pipelines/tail_plain", values)


def _released_later(b: Builder, resource: str) -> bool:
    """Whether releases arrive by themselves, when an MMA is complete, or from other CTAs of the cluster."""
    if b.derived.arrivals[resource].empty_by == "umma" or resource in b.derived.pairs:
        return True
    if b.derived.peers.get(resource, 1) > 1:
        return True
    return producer_kind(b, resource) == "clc" and b.cluster_ctas > 1
