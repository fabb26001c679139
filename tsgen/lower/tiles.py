"""`load` and `store`: single elements, and tiles spread over the threads of a task."""

from __future__ import annotations

from dataclasses import replace

from tsgen.lower import elements, tile_functions, tile_maps
from tsgen.lower.binding import bind
from tsgen.lower.context import TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.fragments import load_fragment, store_fragment
from tsgen.lower.matrix import load_matrix, store_matrix
from tsgen.lower.mma import a_operand, accumulator, fragment, has_wgmma, ref_of
from tsgen.lower.positions import stage
from tsgen.lower.program import Statement, assign
from tsgen.lower.row_fields import is_row_field
from tsgen.lower.rows import is_row, store_rows
from tsgen.lower.smem import slot, smem_field
from tsgen.lower.spread import field_spread, row_spread, spread_of
from tsgen.lower.tile_copies import convert, read_tile, write_tile
from tsgen.lower.tmem_works import moves_tmem
from tsgen.lower.tokens import TileToken
from tsgen.model.algebra import evaluate, is_constant, prune
from tsgen.model.expr import Expr, Placed, Ref, text
from tsgen.model.kernel import Field, Work
from tsgen.model.steps import CallStep


def load(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """A `load`: an element to a token or a scalar field, or a tile to a token or a register field."""
    bound = bind(w, step)
    source, _ = ref_of(bound, "from")
    where = _where(s, bound)
    if source.resource is None and elements.picks_element(source):
        return elements.load_element(s, bound, step, source, where)
    field = s.builder.field(ref_of(bound, "to")[0]) if "to" in bound.args else None
    if field is not None and accumulator(s.builder, field) is not None:
        return load_fragment(s, bound, step, source, field)
    if field is not None and (reader := a_operand(s.builder, field)) is not None:
        return load_matrix(s, bound, step, source, field, reader)
    if field is not None and is_row_field(s, field):
        return noted(s, step, [_load_whole(s, bound, source, field, where)])
    spread = spread_of(s, bound, source)
    mask, before = tile_maps.mask(s, w, step, where, spread) if where is not None else (None, [])
    name = s.names.new(step.results[0]) if field is None else None
    token, loads = read_tile(s, bound, source, name or f"{source.name}_tile", _into(s, field, source), mask)
    out = [*before, *loads]
    if field is not None:
        out += _to_field(s, bound, field, token)
    else:
        s.tokens[step.results[0]] = token
    return noted(s, step, out)


def _load_whole(s: TaskState, w: Work, source: Ref, field: Field, where: Expr | None) -> Statement:
    """All of a field in shared memory to registers of each thread."""
    b = s.builder
    rows = row_spread(s, field)
    same = source.resource is not None and b.dtype_word(b.field(source).dtype) == b.dtype_word(field.dtype)
    if not same or source.window is not None or where is not None or b.field(source).shape != field.shape:
        help = "load all of a field of its shape"
        refuse(f"a load of `{text(source)}` into `{field.owner}.{field.name}`", w.span, help)
    by_thread = field.shape == (s.threads, 1) and moves_tmem(s.task, b.kernel)  # each thread its row
    if not by_thread and (rows is None or rows.down > 1):
        refuse(f"a load into `{field.owner}.{field.name}`, some of whose rows a thread owns", w.span)
    shared = smem_field(b, source)
    at = slot(b, source, stage(s, source.resource or "", w), s.scope)
    if by_thread:
        return assign(f"{fragment(s, field)}[0]", f"{shared.name}[{s.scope.names['thread']}, 0, {at}]")
    part = f"{shared.name}[{'None, ' * (len(shared.shape) - 1)}{at}]"
    return Statement("ops/copy", {"source": part, "target": fragment(s, field)})


def _into(s: TaskState, field: Field | None, source: Ref) -> TileToken | None:
    """The register field that a load can fill directly: one of the source's dtype."""
    b = s.builder
    if field is None:
        return None
    e = b.field(source).dtype if source.resource is not None else b.kernel.tensors[source.name].dtype
    return tile_field(s, field) if b.dtype_word(e) == b.dtype_word(field.dtype) else None


def _to_field(s: TaskState, w: Work, field: Field, token: TileToken) -> list[Statement]:
    to = tile_field(s, field)
    if to is None:
        refuse(f"a load of a tile into `{field.owner}.{field.name}`", w.span, "the field must have the tile's shape")
    if to.spread != token.spread:
        refuse(f"a load of a {_size(token)} tile into `{field.owner}.{field.name}` of {_size(to)}", w.span)
    return [] if to.name == token.name else [convert(token, to)]


def tile_field(s: TaskState, field: Field) -> TileToken | None:
    """A register field as a tile; None for what a WGMMA spreads, for row fields and scalars."""
    b = s.builder
    spread = None if tile_functions.of_wgmma(s, field) else field_spread(s, field)
    if spread is None:
        return None
    return TileToken(fragment(s, field), spread, b.dtype(field.dtype), b.dtype_word(field.dtype))


def store(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """A `store`: an element, a WGMMA accumulator, or an expression over tiles."""
    b = s.builder
    bound = bind(w, step)
    target, _ = ref_of(bound, "to")
    placed = bound.args["value"]
    assert isinstance(placed, Placed)
    value = prune(placed.expr, s.scope.env)
    where = _where(s, bound)
    if target.resource is None and elements.picks_element(target):
        return [elements.store_element(s, bound, step, target, value, where)]
    if isinstance(value, Ref) and b.kind(value) == "rmem" and accumulator(b, b.field(value)) is not None:
        if target.resource is None:
            return store_fragment(s, bound, step, target, value, where)
        if where is not None:
            refuse(f"`where` on the store `{w.owner}.{w.name}` of an accumulator to shared memory", w.span)
        return store_matrix(s, bound, step, target, value, stage(s, target.resource, bound))
    if isinstance(value, Ref) and b.kind(value) == "rmem" and target.resource is None and is_row(b.field(value)):
        if not has_wgmma(s.task, b.kernel):
            refuse(f"the store `{w.owner}.{w.name}` of row values of a tile that is spread over threads", w.span)
        return [store_rows(s, w, step, target, b.field(value))]
    spread = spread_of(s, bound, target)
    e = b.field(target).dtype if target.resource is not None else b.kernel.tensors[target.name].dtype
    token, out = tile_maps.value(s, w, step, spread, e)
    mask, masks = None, list[Statement]()
    if where is not None and tile_maps.varies(s, w, where):
        mask, masks = tile_maps.mask(s, w, step, where, spread)
        where = None
    out += [*masks, *write_tile(s, bound, target, token, mask)]
    if where is not None:
        out = [Statement("blocks/if", {"condition": elements.condition(s, bound, where)}, None, tuple(out))]
    return noted(s, step, out)


def _where(s: TaskState, bound: Work) -> Expr | None:
    """The condition of a load or store; None where it is known to hold."""
    p = bound.args.get("where")
    if p is None:
        return None
    assert isinstance(p, Placed)
    e = prune(p.expr, s.scope.env)
    return None if is_constant(e, s.scope.env) and evaluate(e, s.scope.env) else e


def noted(s: TaskState, step: CallStep, out: list[Statement]) -> list[Statement]:
    """The statements with the spec's line before the first."""
    return [replace(out[0], note=s.note(step)), *out[1:]] if out else out


def _size(t: TileToken) -> str:
    return f"{t.spread.rows}x{t.spread.cols}"
