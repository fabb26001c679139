"""Stores into the shared memory of every CTA of a cluster: st.async, whose bytes complete each one's full barrier."""

from __future__ import annotations

from tsgen.lower.clusters import peer_count, peer_rank
from tsgen.lower.context import TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.mma import fragment, ref_of
from tsgen.lower.program import Statement
from tsgen.lower.pyexpr import Scope, py
from tsgen.lower.row_fields import warp_columns
from tsgen.lower.smem import slot, smem_field
from tsgen.lower.spread import field_spread
from tsgen.lower.tokens import Spread
from tsgen.model.algebra import canonical, prune
from tsgen.model.expr import Full, Placed, Ref, Slice
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep


def peer_store(s: TaskState, w: Work, step: CallStep, stage: str, barrier: str) -> Statement:
    """Each warp stores its column of a field, one lane for each CTA; or each thread its row."""
    b = s.builder
    to, to_placed = ref_of(w, "to")
    placed = w.args["value"]
    assert isinstance(placed, Placed)
    value = prune(placed.expr, s.scope.env)
    source = b.field(value) if isinstance(value, Ref) and b.kind(value) == "rmem" and value.window is None else None
    spread = field_spread(s, source) if source is not None and not warp_columns(s, source) else None
    if source is None or (spread is None and not warp_columns(s, source)):
        help = "a field that `warp_rowsum` writes has one column for each warp"
        refuse(f"`{w.owner}.{w.name}`, whose value is no field with a column for each warp", placed.span, help)
    if spread is not None:
        return _rows(s, w, step, source, spread, stage, barrier)
    one = w.args.get("peer")
    if isinstance(one, Placed):
        refuse(f"`{w.owner}.{w.name}` of a column for each warp to one CTA", one.span, "leave `peer` out")
    if b.dtype_word(source.dtype) != "f32" or b.dtype_word(b.field(to).dtype) != "f32":
        refuse(f"`{w.owner}.{w.name}` of elements that are not f32", placed.span)
    shared = smem_field(b, to)
    rows, columns = (*(to.window or ()), Full(), Full())[:2]
    start = columns.start if isinstance(columns, Slice) else None
    length = canonical(columns.length, s.scope.env).value if isinstance(columns, Slice) else b.field(to).shape[-1]
    if len(b.field(to).shape) != 2 or not isinstance(rows, Full) or length != source.shape[-1]:
        refuse(f"`{w.owner}.{w.name}` to this window", to_placed.span, "write all rows and a column for each warp")
    axis = str(w.args["peers"])
    lane, warp = s.scope.names["lane"], s.scope.names["warp"]
    values = {
        "value": fragment(s, source),
        "bits": s.names.new(f"{source.name}_bits"),
        "full": s.names.new(f"{w.owner}_full"),
        "barrier": barrier,
        "lane": lane,
        "peers": peer_count(b, axis),
        "rank": peer_rank(b, axis, lane),
        "i": s.names.new("i"),
        "rows": py(b.field(to).dims[0], Scope(b.kernel.env, b.constants)),
        "to": s.names.new(f"{shared.name}_to"),
        "field": shared.name,
        "column": warp if start is None else f"{s.py(start)} + {warp}",
        "slot": slot(b, to, stage, s.scope),
    }
    template = "ops/peer_store" if b.derived.peers[w.owner] > 1 else "ops/own_store"
    return Statement(template, values, s.note(step))


def _rows(s: TaskState, w: Work, step: CallStep, source: Field, spread: Spread, stage: str, barrier: str) -> Statement:
    """Each thread stores the row that it holds, to all CTAs of the axis or to one, 16 bytes at a time."""
    b = s.builder
    to, to_placed = ref_of(w, "to")
    what = f"`{w.owner}.{w.name}`"
    if spread.across != 1 or spread.rows != s.threads:
        help = "a row of tensor memory is a thread's"
        refuse(f"{what} of a tile whose rows several threads hold", w.span, help)
    field = b.field(to)
    whole = (
        to.window is None or all(isinstance(x, Full) for x in to.window[-2:]) or len(to.window) <= len(field.shape) - 2
    )
    if b.dtype_word(source.dtype) != "f32" or b.dtype_word(field.dtype) != "f32" or not whole:
        refuse(f"{what} to this window, or of elements that are not f32", to_placed.span, "write whole tiles of f32")
    shared = smem_field(b, to)
    axis, one = str(w.args["peers"]), w.args.get("peer")
    peer = s.names.new("peer")
    values: dict[str, object] = {
        "value": fragment(s, source),
        "field": shared.name,
        "slot": slot(b, to, stage, s.scope),
        "thread": s.scope.names["thread"],
        "columns": py(source.dims[-1], Scope(b.kernel.env, b.constants)),
        "i": s.names.new("i"),
    }
    if b.derived.peers[w.owner] == 1:
        return Statement("ops/own_rows", values, s.note(step))
    values |= {
        "bits": s.names.new(f"{source.name}_bits"),
        "full": s.names.new(f"{w.owner}_full"),
        "barrier": barrier,
        "row": s.names.new(f"{shared.name}_row"),
        "to": s.names.new(f"{shared.name}_to"),
        "four": s.names.new("values"),
        "j": s.names.new("j"),
        "vector": next(n for n in (4, 2, 1) if source.shape[-1] % n == 0),
        "peer": peer,
        "peers": peer_count(b, axis),
        "peer_rank": peer_rank(b, axis, peer),
        "rank": peer_rank(b, axis, s.py(one.expr)) if isinstance(one, Placed) else None,
    }
    return Statement("ops/peer_rows", values, s.note(step))
