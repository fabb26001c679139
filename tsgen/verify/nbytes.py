"""Transaction bytes of pipelines, as written against as derived (TS32x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.filling import byteless
from tsgen.derive.model import Derived
from tsgen.derive.spread import role_only
from tsgen.derive.storage import bits
from tsgen.derive.unfold import Env, calls, constant, work_env
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, Related, Span, check
from tsgen.model.expr import Full, Index, Ref, Slice, text
from tsgen.model.kernel import Kernel, Pipeline, Resource
from tsgen.model.pipelines import PIPELINES
from tsgen.model.steps import CallStep


@check("TS320", "byte-count")
def byte_count(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """`num_bytes` is not what the copies of a stage write.

    The full barrier waits until as many bytes have arrived as were announced: with too many it never completes, with
    too few it completes early or wraps around. The number is the sum of the copies' boxes between acquire and commit,
    of both CTAs of a pair, and of every warp with `scope: warp`.
    """
    for resource in kernel.resources.values():
        p = resource.pipeline
        if p is None or p.num_bytes is None:
            continue
        span = p.spans.get("num_bytes", p.span)
        expected = derived.tx_bytes[resource.name]
        if not PIPELINES[p.type].counts_bytes:
            if p.num_bytes:
                yield Finding(f"`num_bytes` of `{resource.name}`: {p.type} counts no bytes", span, "leave it out")
        elif p.num_bytes != expected:
            yield Finding(
                f"`num_bytes` of `{resource.name}` is {p.num_bytes}, expected {expected}",
                span,
                f"write {expected}, or leave it out",
            )
        elif PIPELINES[p.type].producer == "tma" and expected % 16:
            yield Finding(f"`num_bytes` of `{resource.name}` is {expected}: TMA moves multiples of 16 bytes", span)


@check("TS321", "bytes-differ")
def bytes_differ(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A stage is filled with different numbers of bytes at different commits.

    One number of bytes is announced for every stage. Let every path from acquire to commit make the same copies.
    """
    for resource in kernel.resources.values():
        p = resource.pipeline
        if p is None or not PIPELINES[p.type].counts_bytes or resource.queue is not None:
            continue
        if any(resource.name in g.members for g in kernel.groups.values() if g.mode == "fork"):
            continue
        found: dict[int, Span] = {}
        for brackets in uses.bracket_bytes.get(resource.name, {}).values():
            for n, span in brackets:
                found.setdefault(n, span)
        if len(found) > 1:
            expected = derived.tx_bytes[resource.name] // (2 if resource.name in uses.pair else 1)
            odd = next(n for n in found if n != expected)
            yield Finding(
                f"`{resource.name}` is committed with {odd} bytes here, elsewhere with {expected}: expected one number",
                found[odd],
                "make the same copies between every acquire and its commit",
                tuple(Related(f"with {n} bytes", span) for n, span in found.items() if n != odd),
            )


@check("TS322", "bytes-per-warp")
def bytes_per_warp(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """`num_bytes_per_warp_per_cta` times the warps (and CTAs of a pair) is not the number of bytes of a stage.

    It is needed only where several warps or CTAs fill a stage together with works that have no code yet: then nothing
    else says how the bytes are shared.
    """
    for resource in kernel.resources.values():
        p = resource.pipeline
        if p is None or resource.queue is not None or not PIPELINES[p.type].counts_bytes:
            continue
        if p.num_bytes_per_warp_per_cta is None:
            yield from _needed(resource, p, uses)
            continue
        warps = sum(i.num_warps for _, i in uses.parties(resource.name, "commit")) or 1
        pair = 2 if resource.name in uses.pair else 1
        per = p.num_bytes_per_warp_per_cta
        total = derived.tx_bytes[resource.name]
        if per * warps * pair != total:
            factors = f"{per} x {warps} warps" + (f" x {pair} CTAs" if pair > 1 else "")
            yield Finding(
                f"`num_bytes_per_warp_per_cta` of `{resource.name}`: {factors} = {per * warps * pair}, expected "
                f"{total}",
                p.spans.get("num_bytes_per_warp_per_cta", p.span),
                f"write {total // (warps * pair)}, or leave it out" if total % (warps * pair) == 0 else "leave it out",
            )


def _needed(resource: Resource, pipeline: Pipeline, uses: Uses) -> Iterator[Finding]:
    shared = resource.name in uses.pair or any(i.num_warps > 1 for _, i in uses.parties(resource.name, "commit"))
    written = [w for w in resource.works.values() if w.role == "producer"]
    if shared and pipeline.num_bytes is not None and written and all(role_only(w) for w in written):
        yield Finding(
            f"`{resource.name}` is filled by several warps or CTAs together: `num_bytes_per_warp_per_cta` is missing",
            pipeline.span,
            "write it, or give the works their `op`: then it is derived",
        )


@check("TS323", "box-row")
def box_row(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A row of a TMA box is no multiple of 16 bytes.

    TMA moves boxes whose contiguous dimension has a multiple of 16 bytes; no descriptor can be made for others. Take
    wider windows, or move the tile by threads (`load`, `store`, `cp_async_load`).
    """
    seen = set()
    for task, instance in kernel.instances():
        for node in calls(uses.programs[task.name, instance.index]):
            step = node.step
            work = kernel.work(step.target, step.method) if isinstance(step, CallStep) else None
            if work is None or work.op not in ("tma_load", "tma_store"):
                continue
            for access in uses.accesses(work):
                row = _row_bits(kernel, access.ref, work_env(kernel, node, work)) if access.engine in _TMA else None
                if row is not None and row % 128 and access.span not in seen:
                    seen.add(access.span)
                    size = f"{row // 8} bytes" if row % 8 == 0 else f"{row} bits"
                    yield Finding(
                        f"a row of the box of `{text(access.ref)}` has {size}: TMA moves multiples of 16 bytes",
                        access.span,
                        "widen the window, or move it by threads",
                    )


@check("TS324", "bytes-of-nobody")
def bytes_of_nobody(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A ring's full barrier waits for bytes, and no step writes any.

    The type of a pipeline says what fills a stage: bytes that TMA writes (`tma_async`, `tma_umma`), or that the CTAs of
    a cluster store (`peer_async`). Threads that store, and signals without storage, add no bytes: the barrier would
    never complete, or, with no bytes to wait for, complete at `acquire`, before anything is there.
    """
    for resource, undecided in byteless(kernel, uses):
        pipeline = resource.pipeline
        assert pipeline is not None
        if undecided or not uses.commits(resource.name):
            continue
        kind = PIPELINES[pipeline.type]
        peers = kind.producer == "peer"
        by, op = ("the CTAs of the cluster store", "peer_store") if peers else ("TMA writes", "tma_load")
        yield Finding(
            f"`{resource.name}` is a {pipeline.type} ring, full when bytes arrive that {by}; no step writes any",
            pipeline.spans.get("type", pipeline.span),
            f"fill it by `{op}`; if threads fill it or nothing does, write `type: async_{kind.consumer}`",
        )


_TMA = ("tx", "bulk")


def _row_bits(kernel: Kernel, ref: Ref, env: Env) -> int | None:
    """Bits of the contiguous dimension of a tensor's window; None if it is not known, or no tensor's."""
    tensor = kernel.tensors.get(ref.name) if ref.resource is None else None
    if tensor is None or not tensor.shape:
        return None
    w = ref.window[tensor.major] if ref.window is not None else Full()
    if isinstance(w, Index):
        n: object = 1
    else:
        n = constant(w.length if isinstance(w, Slice) else tensor.shape[tensor.major], env)
    return n * bits(kernel, tensor.dtype) if isinstance(n, int) else None


CAUSES = (byte_count, bytes_differ, bytes_per_warp, bytes_of_nobody, box_row)  # what no TMA can copy is not run
