"""The registry of built-in works (docs/language.md section 6). Schema, docs, verifier, simulator and emitter follow it.

One entry says what parameters an op has, what it reads and writes through which engine, how many bytes it announces,
who issues it and on which targets it exists. Adding an op is adding an entry here and a template in templates/ops/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from tsgen.diagnostics.model import Span
from tsgen.frozen import frozen
from tsgen.model.expr import Call, Expr, Placed, Ref, children, walk
from tsgen.model.kernel import Assign, CopyArg, Work
from tsgen.model.targets import ALL, SM90, SM100

Engine = Literal["generic", "tx", "bulk", "cp_async", "wgmma", "tcgen05", "tcgen05_ld", "tcgen05_st"]
Issue = Literal["threads", "warpgroup", "elected"]
Place = Literal["own", "smem", "rmem", "tmem", "tensor"]
ParamKind = Literal["ref", "value", "static", "condition", "copies", "assigns", "axis", "word", "int", "result_or_ref"]


@frozen
class OpParam:
    """A parameter of an op. `places` bounds where a ref may point; `role` is how the op uses what it points to."""

    kind: ParamKind
    doc: str
    required: bool = True
    places: tuple[Place, ...] = ()
    words: tuple[str, ...] = ()
    default: str | int | None = None


@frozen
class Access:
    """Bytes that a work touches. An access by an engine other than `generic` outlives the step that issues it."""

    ref: Ref
    mode: Literal["read", "write"]
    engine: Engine
    span: Span


@frozen
class Op:
    name: str
    doc: str
    params: dict[str, OpParam]
    issue: Issue
    targets: tuple[str, ...]
    owners: tuple[str, ...]  # kinds of resource (or "tensor") that may own it
    role: Literal["producer", "consumer", "by_access"]
    completes: str  # in words, for the docs
    accesses: Callable[[Work], Iterator[Access]]
    engine: Engine = "generic"


def value_refs(e: Expr) -> Iterator[Ref]:
    """The refs whose data an expression reads: all but those that rows() and cols() only take the shape of."""
    if isinstance(e, Call) and e.function in ("rows", "cols"):
        return
    if isinstance(e, Ref):
        yield e
    for c in children(e):
        yield from value_refs(c)


def _placed(w: Work, key: str) -> Placed | None:
    v = w.args.get(key)
    assert v is None or isinstance(v, Placed)
    return v


def _ref(w: Work, key: str, mode: Literal["read", "write"], engine: Engine) -> Iterator[Access]:
    p = _placed(w, key)
    if p is None:
        return
    if mode == "write":
        if isinstance(p.expr, Ref):
            yield Access(p.expr, "write", engine, p.span)
            for c in children(p.expr):
                yield from (Access(r, "read", "generic", p.span) for r in value_refs(c))
        return
    first = True
    for r in value_refs(p.expr):
        yield Access(r, "read", engine if first else "generic", p.span)
        first = False


def _values(w: Work, *keys: str) -> Iterator[Access]:
    for key in keys:
        p = _placed(w, key)
        if p is not None:
            for r in value_refs(p.expr):
                yield Access(r, "read", "generic", p.span)


def copies(w: Work) -> tuple[CopyArg, ...]:
    """The copies of a `tma_load` or `cp_async_load`."""
    v = w.args["copies"]
    assert isinstance(v, tuple)
    return tuple(c for c in v if isinstance(c, CopyArg))


def assigns(w: Work) -> tuple[Assign, ...]:
    """The statements of a `map`."""
    v = w.args["set"]
    assert isinstance(v, tuple)
    return tuple(a for a in v if isinstance(a, Assign))


def _copies(engine: Engine) -> Callable[[Work], Iterator[Access]]:
    def accesses(w: Work) -> Iterator[Access]:
        for c in copies(w):
            yield Access(c.source, "read", engine, c.source_span)
            for e in children(c.source):
                yield from (Access(r, "read", "generic", c.source_span) for r in value_refs(e))
            yield Access(c.to, "write", engine, c.to_span)

    return accesses


def _load(w: Work) -> Iterator[Access]:
    yield from _ref(w, "from", "read", "generic")
    yield from _ref(w, "to", "write", "generic")
    yield from _values(w, "where")


def _store(w: Work) -> Iterator[Access]:
    yield from _values(w, "value", "where")
    yield from _ref(w, "to", "write", "generic")


def _peer_store(w: Work) -> Iterator[Access]:
    yield from _values(w, "value")
    yield from _ref(w, "to", "write", "tx")


def _tma_store(w: Work) -> Iterator[Access]:
    yield from _ref(w, "from", "read", "bulk")
    yield from _ref(w, "to", "write", "bulk")


def _tmem_load(w: Work) -> Iterator[Access]:
    yield from _ref(w, "from", "read", "tcgen05_ld")
    yield from _ref(w, "to", "write", "tcgen05_ld")


def _tmem_store(w: Work) -> Iterator[Access]:
    yield from _values(w, "value")
    yield from _ref(w, "to", "write", "tcgen05_st")


def _tcgen05_cp(w: Work) -> Iterator[Access]:
    yield from _ref(w, "from", "read", "tcgen05")
    yield from _ref(w, "to", "write", "tcgen05")


def _mma(engine: Engine) -> Callable[[Work], Iterator[Access]]:
    def accesses(w: Work) -> Iterator[Access]:
        for key in ("a", "b", "sfa", "sfb"):
            yield from _ref(w, key, "read", engine)
        yield from _ref(w, "c", "read", engine)
        yield from _ref(w, "c", "write", engine)
        yield from _values(w, "init")

    return accesses


def _map(w: Work) -> Iterator[Access]:
    for a in assigns(w):
        for r in value_refs(a.value):
            yield Access(r, "read", "generic", a.span)
        target = map_target(w, a)
        if target is not None:
            yield Access(target, "write", "generic", a.span)


def map_target(w: Work, a: Assign) -> Ref | None:
    """The own field that a statement of a `map` writes, or None for a temporary. Set by resolve in `spans`."""
    return Ref(w.owner, None, a.name) if f"set.{a.name}" in w.spans else None


def nothing(w: Work) -> Iterator[Access]:
    """Accesses of a work without op: what `reads` and `writes` say."""
    engine: Engine = w.engine or "generic"  # type: ignore[assignment]
    for p in w.reads.values():
        if isinstance(p.expr, Ref):
            yield Access(p.expr, "read", engine, p.span)
    for p in w.writes.values():
        if isinstance(p.expr, Ref):
            yield Access(p.expr, "write", engine, p.span)


OPS: dict[str, Op] = {
    op.name: op
    for op in (
        Op(
            "load",
            "Reads a window into registers: a result token, or a field.",
            {
                "from": OpParam("ref", "what is read", places=("own", "smem", "rmem", "tensor")),
                "to": OpParam("ref", "the register field; left out, the work returns the value", False, ("rmem",)),
                "where": OpParam("condition", "elements for which it does not hold are read as zero", False),
            },
            "threads",
            ALL,
            ("smem", "rmem", "tensor"),
            "by_access",
            "at once",
            _load,
        ),
        Op(
            "store",
            "Writes an expression over fields and tokens to a window; converts to its dtype.",
            {
                "value": OpParam("value", "what is written"),
                "to": OpParam("ref", "where", places=("own", "smem", "tensor")),
                "where": OpParam("condition", "elements for which it does not hold are not written", False),
            },
            "threads",
            ALL,
            ("smem", "tensor", "rmem"),
            "by_access",
            "at once",
            _store,
        ),
        Op(
            "cp_async_load",
            "Copies tensor windows to shared memory with cp.async.",
            {"copies": OpParam("copies", "`{to: own field, from: tensor window}` each")},
            "threads",
            ALL,
            ("smem",),
            "producer",
            "the pipeline's full barrier (async pipelines), else cp_async.wait_group",
            _copies("cp_async"),
            "cp_async",
        ),
        Op(
            "tma_load",
            "Copies tensor windows to shared memory with TMA; announces their bytes on the full barrier.",
            {"copies": OpParam("copies", "`{to: own field, from: tensor window, multicast: axis}` each")},
            "elected",
            ALL,
            ("smem",),
            "producer",
            "transaction bytes on the full barrier",
            _copies("tx"),
            "tx",
        ),
        Op(
            "tma_store",
            "Copies shared memory to a tensor window with TMA; one call closes one bulk group.",
            {
                "from": OpParam("ref", "the staged tile", places=("smem",)),
                "to": OpParam("ref", "the tensor window", places=("tensor",)),
                "reduce": OpParam(
                    "word",
                    "how the destination is combined",
                    False,
                    words=("none", "add", "min", "max"),
                    default="none",
                ),
            },
            "elected",
            ALL,
            ("tensor", "smem"),
            "by_access",
            "bulk.wait_group_read (source), bulk.wait_group (destination)",
            _tma_store,
            "bulk",
        ),
        Op(
            "peer_store",
            "Stores a value into the same field of every CTA along a cluster axis, or of one of them.",
            {
                "value": OpParam("value", "what is written"),
                "to": OpParam("ref", "own field or window of it", places=("own",)),
                "peers": OpParam("axis", "the cluster axis"),
                "peer": OpParam("static", "the number along it of the one CTA that gets it; all without it", False),
            },
            "threads",
            ALL,
            ("smem",),
            "producer",
            "transaction bytes on each CTA's full barrier",
            _peer_store,
            "tx",
        ),
        Op(
            "tmem_load",
            "Reads tensor memory into registers.",
            {
                "from": OpParam("ref", "the tensor memory window", places=("tmem",)),
                "to": OpParam("ref", "the register field", places=("rmem",)),
            },
            "threads",
            SM100,
            ("rmem", "tmem"),
            "by_access",
            "tcgen05.wait_ld",
            _tmem_load,
            "tcgen05_ld",
        ),
        Op(
            "tmem_store",
            "Writes registers to tensor memory.",
            {
                "value": OpParam("value", "what is written"),
                "to": OpParam("ref", "the tensor memory window", places=("own", "tmem")),
            },
            "threads",
            SM100,
            ("tmem", "rmem"),
            "by_access",
            "tcgen05.wait_st",
            _tmem_store,
            "tcgen05_st",
        ),
        Op(
            "tcgen05_cp",
            "Copies shared memory to tensor memory (scale factors).",
            {
                "from": OpParam("ref", "the shared memory source", places=("smem",)),
                "to": OpParam("ref", "own tensor memory field", places=("own",)),
                "cta_group": OpParam("int", "1 or 2 CTAs", False, default=1),
            },
            "elected",
            SM100,
            ("tmem",),
            "producer",
            "in order with the MMAs of the task; umma commit or release",
            _tcgen05_cp,
            "tcgen05",
        ),
        Op(
            "wgmma",
            "Warpgroup matrix multiply: c (+)= a bᵀ over one tile; one call closes one WGMMA group.",
            {
                "a": OpParam("ref", "[M, K], in shared memory or registers", places=("smem", "rmem", "own")),
                "b": OpParam("ref", "[N, K], in shared memory", places=("smem",)),
                "c": OpParam("ref", "own accumulator [M, N]", places=("own",)),
                "init": OpParam("condition", "c is overwritten where it holds, else accumulated into"),
            },
            "warpgroup",
            SM90,
            ("rmem",),
            "by_access",
            "wgmma.wait_group",
            _mma("wgmma"),
            "wgmma",
        ),
        Op(
            "tcgen05_mma",
            "Blackwell matrix multiply: c (+)= a bᵀ into tensor memory.",
            {
                "a": OpParam("ref", "[M, K], in shared or tensor memory", places=("smem", "tmem")),
                "b": OpParam("ref", "[N, K], in shared memory", places=("smem",)),
                "c": OpParam("ref", "own accumulator [M, N]", places=("own",)),
                "init": OpParam("condition", "c is overwritten where it holds, else accumulated into"),
                "cta_group": OpParam("int", "1 or 2 CTAs", False, default=1),
                "sfa": OpParam("ref", "scale factors of a", False, ("tmem",)),
                "sfb": OpParam("ref", "scale factors of b", False, ("tmem",)),
            },
            "elected",
            SM100,
            ("tmem",),
            "producer",
            "umma commit (c), umma release (a, b)",
            _mma("tcgen05"),
            "tcgen05",
        ),
        Op(
            "map",
            "Element-wise expressions and row reductions over register tiles and own shared fields.",
            {
                "set": OpParam(
                    "assigns", "statements `name = expression`, in order; names that are not fields are temporaries"
                )
            },
            "threads",
            ALL,
            ("rmem", "smem"),
            "by_access",
            "at once",
            _map,
        ),
    )
}


def accesses(w: Work) -> Iterator[Access]:
    """What a work reads and writes. A body or call without `reads`/`writes` touches its owner's fields as its
    role says; that is resolved into `reads` and `writes` when the model is built."""
    return OPS[w.op].accesses(w) if w.op is not None else nothing(w)


def stray_transposes(w: Work) -> Iterator[Access]:
    """Accesses through `.T` other than by operands of an MMA in memory: only the descriptors of those can say it."""
    operands: list[Expr] = []
    if w.op in ("wgmma", "tcgen05_mma"):
        operands = [p.expr for k in ("a", "b") if isinstance(p := w.args.get(k), Placed)]
    return (a for a in accesses(w) if a.ref.transposed and not any(a.ref == r for e in operands for r in walk(e)))
