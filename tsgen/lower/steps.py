"""Call steps as statements: each method and op to the module that lowers it."""

from __future__ import annotations

from tsgen.derive.filling import closes_group
from tsgen.lower import bodies, maps, pipelines, scales, tile_maps, tiles, tma, tmem, umma
from tsgen.lower.binding import bind
from tsgen.lower.context import TaskState
from tsgen.lower.cp_async import closing, cp_async_load
from tsgen.lower.errors import Unsupported, refuse, work_without_code
from tsgen.lower.instances import in_product
from tsgen.lower.mma import ref_of, wgmma
from tsgen.lower.peers import peer_store
from tsgen.lower.positions import stage
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import py_factor
from tsgen.lower.queue_steps import queue_step
from tsgen.lower.rings import ring
from tsgen.lower.smem import fence_after, fence_before
from tsgen.lower.tmem_works import works_of
from tsgen.model.algebra import canonical
from tsgen.model.expr import Placed, text
from tsgen.model.ops import stray_transposes
from tsgen.model.steps import CallStep, Step


def lower_call(s: TaskState, c: CallStep) -> list[Statement]:
    """The statements of one call step."""
    match c.kind:
        case "pipeline" | "group":
            met = c.method == "release" and pipelines.syncs(s, c)  # then the step itself begins with it
            return [*([] if met else meeting(s, c)), *pipelines.step(s, c)]
        case "queue":
            return queue_step(s, c)
        case "barrier":
            return [_barrier(s, c)]
        case "pdl":
            return [Statement(f"ops/{c.method}", {}, s.note(c))]
        case "completion":
            return [_completion(s, c), *_copied(s, c)]
        case "work":
            return [*_deferred(s, c), *meeting(s, c), *_before(s, c), *_work(s, c)]


def _before(s: TaskState, c: CallStep) -> list[Statement]:
    w = s.builder.kernel.work(c.target, c.method)
    return [] if w is None else fence_before(s.builder, w)


def _copied(s: TaskState, c: CallStep) -> list[Statement]:
    """The fence after a wait for copies of the task itself."""
    b = s.builder
    mine = [w for w in works_of(s.task, b.kernel) if closes_group(b.kernel, w)] if c.target == "cp_async" else []
    return fence_after(b, mine, "cp_async")


def meeting(s: TaskState, x: Step) -> list[Statement]:
    """The warp sync in front of a step or block that touches what other lanes of the warp have touched before."""
    field = s.builder.derived.lanes.meetings.get((s.task.name, x.span))
    return [] if field is None else [Statement("ops/sync_warp", {"field": field})]


def _deferred(s: TaskState, c: CallStep) -> list[Statement]:
    """The map that was put off until this store, over the store's columns."""
    if id(c) not in s.deferred:
        return []
    call, var, columns = s.deferred[id(c)]
    w = s.builder.kernel.work(call.target, call.method)
    assert w is not None
    done = maps.lower_map(s, w, call, {n: s.py(p.expr) for n, p in call.args.items()}, columns.format(var=s.used[var]))
    return [] if done is None else [done]


def _barrier(s: TaskState, c: CallStep) -> Statement:
    b = s.builder
    r = b.kernel.resources[c.target]
    first = b.derived.barriers[(c.target, 0)]
    threads = {x.threads for (name, _), x in b.derived.barriers.items() if name == c.target}
    if len(threads) > 1:
        refuse(f"barriers `{c.target}` with different numbers of threads", c.span)
    count = r.each.count if r.each is not None else 1
    comment = f"named barrier {c.target}" + (f", and the next {count - 1}" if count > 1 else "")
    identifier = b.constant(c.target.upper(), str(first.id), comment)
    if c.instance is not None and canonical(c.instance, s.scope.env).value != 0:
        identifier = f"{identifier} + {py_factor(c.instance, s.scope)}"
    method = "barrier_arrive" if c.method == "arrive" else "barrier"
    return Statement("ops/barrier", {"method": method, "id": identifier, "threads": first.threads}, s.note(c))


def _completion(s: TaskState, c: CallStep) -> Statement:
    n = s.py(c.args["n"].expr) if "n" in c.args else ""
    call = {
        ("wgmma", "wait_group"): f"warpgroup.wait_group({n})",
        ("bulk", "wait_group"): f"cute.arch.cp_async_bulk_wait_group({n})",
        ("bulk", "wait_group_read"): f"cute.arch.cp_async_bulk_wait_group({n}, read=True)",
        ("cp_async", "wait_group"): f"cute.arch.cp_async_wait_group({n})",
        ("tcgen05", "wait_ld"): "cute.arch.fence_view_async_tmem_load()",
        ("tcgen05", "wait_st"): "cute.arch.fence_view_async_tmem_store()",
    }.get((c.target, c.method))
    if call is None:
        refuse(f"the step `{c.text}` on {s.builder.kernel.target}", c.span)
    return Statement("ops/completion", {"call": call, "lead": s.lead_warp if c.target == "bulk" else None}, s.note(c))


def _once(s: TaskState, issued: Statement) -> list[Statement]:
    """What a lane of each warp would issue, in a task of several warps: by the first."""
    if s.lead_warp is None:
        return [issued]
    return [Statement("blocks/if", {"condition": s.lead_warp}, None, (issued,))]


def _full_barrier(s: TaskState, c: CallStep, at: str) -> str:
    """The mbarrier that a work's copies into a stage complete on."""
    r = ring(s.builder, c.target)
    state = at.removesuffix(".index")
    if c.instance is None:
        return r.full_barrier(state) if at.endswith(".index") else f"{r.full} + {at}"
    if not at.endswith(".index") and r.stages != "1":
        first = f"{in_product(s.py(c.instance))} * {in_product(r.stages)}"
        return f"{r.full} + {first} + {at}"
    return r.full_barrier(state, s.py(c.instance))


def _work(s: TaskState, c: CallStep) -> list[Statement]:
    b = s.builder
    w = b.kernel.work(c.target, c.method)
    assert w is not None
    each = b.kernel.resources[w.owner].each if w.owner in b.kernel.resources else None
    if each is not None and w.op not in ("tma_load", "tcgen05_mma", "tmem_load", "tmem_store", "store", "load"):
        refuse(f"a work of one of the instances of `{c.target}`", c.span, "use a leading dimension for `each`")
    for access in stray_transposes(w) if w.op is not None else ():
        help = "only a WGMMA or tcgen05_mma takes an operand transposed"
        refuse(f"`{text(access.ref)}` in `{w.owner}.{w.name}`: nothing is transposed on the way", access.span, help)
    if w.op is None:
        if w.body is None and w.call is None:
            raise Unsupported(work_without_code(f"{w.owner}.{w.name}", w.span))
        return [*bodies.lower_body(s, w, c), *fence_after(b, [w], "generic"), *closing(s, w)]
    bound = bind(w, c, each)
    match w.op:
        case "tma_load":
            if b.kernel.resources[w.owner].pipeline is None:
                refuse("tma_load into a resource without a pipeline", w.span)
            at = stage(s, w.owner, w)
            assert at is not None
            return [tma.tma_load(s, bound, c, at, _full_barrier(s, c, at))]
        case "tma_store":
            source, _ = ref_of(bound, "from")
            return [tma.tma_store(s, bound, c, stage(s, source.resource or "", w))]
        case "peer_store":
            at = stage(s, w.owner, w)
            assert at is not None
            stored = peer_store(s, bound, c, at, _full_barrier(s, c, at))
            return [stored, *(fence_after(b, [w], "tx") if b.derived.peers[w.owner] == 1 else [])]
        case "wgmma":
            stages = {}
            for which in ("a", "b"):
                ref, _ = ref_of(bound, which)
                at = stage(s, ref.resource or "", w)
                if at is not None:
                    stages[which] = at
            init = bound.args["init"]
            assert isinstance(init, Placed)
            return [wgmma(s, bound, c, init.expr, stages)]
        case "tcgen05_mma":
            at_stage = {}
            for which, ref in umma.operands(bound).items():
                at = stage(s, ref.resource or "", w)
                if at is not None:
                    at_stage[which] = at
            init = bound.args["init"]
            assert isinstance(init, Placed)
            factors = tuple(scales.scales_of(s, bound, x).tensor for x in ("sfa", "sfb") if x in bound.args)
            return _once(s, umma.tcgen05_mma(s, bound, c, init.expr, at_stage, factors))
        case "tcgen05_cp":
            return _once(s, scales.tcgen05_cp(s, bound, c))
        case "tmem_load":
            return tmem.tmem_load(s, bound, c)
        case "tmem_store":
            return tmem.tmem_store(s, bound, c)
        case "map" if tile_maps.is_tile_map(s, w):
            return tile_maps.lower_map(s, w, c)
        case "map":
            arguments = {name: s.py(p.expr) for name, p in c.args.items()}
            for name in arguments:
                s.define(name, name)
            done = maps.lower_map(s, w, c, arguments, None)
            return [] if done is None else [done]
        case "cp_async_load":
            return cp_async_load(s, bound, c)
        case "load":
            return tiles.load(s, bound if each is not None else w, c)
        case "store":
            return tiles.store(s, bound if each is not None else w, c)
    refuse(f"the op {w.op} on {b.kernel.target}", w.span)
