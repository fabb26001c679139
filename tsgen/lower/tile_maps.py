"""Element expressions over tiles that are spread over threads: `map` over fields and tokens, `value` and `where`.

Each thread computes its own elements, in float32 (integers among themselves as integers). One function for each work,
one line for each statement; what it reads from memory is loaded before the call, what it writes there is stored after.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tsgen.lower import elements
from tsgen.lower.context import TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.mma import fragment, has_wgmma
from tsgen.lower.program import Statement, assign
from tsgen.lower.row_fields import is_row_field
from tsgen.lower.spread import field_spread, row_spread, spread_of
from tsgen.lower.tile_copies import convert, fresh, read_tile, write_tile
from tsgen.lower.tile_functions import (
    TILE_INDEX,
    TileFunction,
    function_call,
    is_element,
    of_wgmma,
    operand,
    register_tile,
    token_of,
    uses_index,
)
from tsgen.lower.tile_rows import is_row, row_line, rows_first, uses_rows
from tsgen.lower.tokens import Spread, TileToken
from tsgen.model.algebra import prune, substitute
from tsgen.model.expr import Call, Expr, Name, Placed, Ref, text, walk
from tsgen.model.kernel import Work
from tsgen.model.ops import assigns, map_target
from tsgen.model.steps import CallStep


def is_tile_map(s: TaskState, w: Work) -> bool:
    """Whether a map works on tiles spread over threads, or on single values: on no WGMMA fragment, nor its rows."""
    b = s.builder
    for a in assigns(w):
        target = map_target(w, a)
        for r in (*walk(a.value), *([target] if target is not None else [])):
            if not isinstance(r, Ref) or r.resource is None or b.kind(r) != "rmem":
                continue
            f = b.field(r)
            if of_wgmma(s, f) or (is_row_field(s, f) and has_wgmma(s.task, b.kernel)):
                return False
    return True


def lower_map(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """A `map` over tiles, or over single values."""
    b = s.builder
    targets = [t for a in assigns(w) if (t := map_target(w, a)) is not None]
    spreads = [x for r in (*targets, *_tiles(s, w, step)) if (x := _spread(s, w, r)) is not None]
    if not spreads:
        return _scalar_map(s, w, step)
    spread = max(spreads, key=lambda x: (x.rank, x.rows))
    statements = [(a, prune(a.value, s.scope.env)) for a in assigns(w)]
    used = [*(e for _, e in statements), *targets]
    f = TileFunction(s, w, step, spread, uses_index(used) or uses_rows(s, used, spread))
    read = {text(r) for _, e in statements for r in walk(e) if isinstance(r, Ref)}
    after = list[tuple[Ref, TileToken]]()
    for a, e in statements:
        target = map_target(w, a)
        f.reduced.clear()
        if target is None:
            f.temporary(a.name, f.names.new(a.name), rows_first(f, e))
        elif b.kind(target) == "rmem" and is_row_field(s, b.field(target)):
            f.lines.append(row_line(f, target, e))
        else:
            name = _target(f, target, text(target) in read, after)
            if name in f.vectors:
                refuse(f"`{a.name}`, one row, in a map over {spread.rows} rows", a.span, "make it in a map of its own")
            value = f.converted(rows_first(f, e), f"{name}.element_type", f.words[name])
            f.lines.append(("tile", f"{name}[{f.element}] = {value}"))
    doc = "; ".join(f"{a.name} = {text(e)}" for a, e in statements)
    out = [*f.before, function_call(f, f"{w.owner}_{w.name}", doc, [e for _, e in statements])]
    for ref, token in after:
        out += write_tile(s, w, ref, token)
    return [replace(out[0], note=s.note(step)), *out[1:]]


def _tiles(s: TaskState, w: Work, step: CallStep) -> Iterable[Ref | TileToken]:
    """The fields and tokens that a work's expressions name."""
    for a in assigns(w):
        for e in walk(prune(a.value, s.scope.env)):
            if isinstance(e, Ref) and e.resource is not None:
                yield e
            elif isinstance(e, Name) and isinstance(token := token_of(s, w, step, e.id), TileToken):
                yield token


def _spread(s: TaskState, w: Work, x: Ref | TileToken) -> Spread | None:
    if isinstance(x, TileToken):
        return x.spread
    f = s.builder.field(x)
    if all(n == 1 for n in f.shape):
        return None
    if s.builder.kind(x) != "rmem":
        return spread_of(s, w, x)
    return row_spread(s, f) if is_row_field(s, f) else field_spread(s, f)


def _target(f: TileFunction, ref: Ref, read: bool, after: list[tuple[Ref, TileToken]]) -> str:
    """The parameter for a field that the map writes; shared fields are stored after the call."""
    s, b = f.s, f.s.builder
    key = text(ref)
    if key in f.tiles:
        if b.kind(ref) == "smem" and all(r != ref for r, _ in after):
            after.append((ref, _known(f, key)))
        return f.tiles[key]
    x = b.field(ref)
    if b.kind(ref) == "rmem":
        return f.tile(key, x.name, register_tile(f, ref))
    name = s.names.new(x.name)
    if read:
        token, loads = read_tile(s, f.work, ref, name)
        f.before += loads
    else:
        token, made = fresh(s, name, f.spread, b.dtype(x.dtype), b.dtype_word(x.dtype))
        f.before.append(made)
    after.append((ref, token))
    return f.tile(key, x.name, token)


def _known(f: TileFunction, key: str) -> TileToken:
    """The tile behind a parameter, as a token."""
    parameter = f.tiles[key]
    return TileToken(f.params[parameter], f.spread, "", f.words[parameter])


def value(s: TaskState, w: Work, step: CallStep, spread: Spread, dtype: Expr) -> tuple[TileToken, list[Statement]]:
    """The value of a `store` as a tile of its target's dtype, and what computes it."""
    b = s.builder
    placed = w.args["value"]
    assert isinstance(placed, Placed)
    e = prune(placed.expr, s.scope.env)
    to, word = b.dtype(dtype), b.dtype_word(dtype)
    wish = f"{w.owner}_tile"
    if isinstance(e, Name) and isinstance(token := token_of(s, w, step, e.id), TileToken):
        return _as(s, token, wish, to, word)
    f = TileFunction(s, w, step, spread, uses_index([e]) or uses_rows(s, [e], spread))
    if isinstance(e, Ref) and not is_element(e) and not is_row(s, e):
        token = operand(f, e)
        converted, made = _as(s, token, wish, to, word)
        return converted, [*f.before, *made]
    out, made_out = fresh(s, s.names.new(wish), spread, to, word)
    name = f.tile("=", w.owner, out)
    value = f.converted(rows_first(f, e), f"{name}.element_type", word)
    f.lines.append(("tile", f"{name}[{f.element}] = {value}"))
    call = function_call(f, f"{w.owner}_{w.name}", text(e), [e])
    return out, [*f.before, made_out, call]


def _as(s: TaskState, token: TileToken, wish: str, dtype: str, word: str) -> tuple[TileToken, list[Statement]]:
    """A tile in another type."""
    if token.word == word:
        return token, []
    out, made = fresh(s, s.names.new(wish), token.spread, dtype, word)
    return out, [made, convert(token, out)]


def varies(s: TaskState, w: Work, where: Expr) -> bool:
    """Whether a condition differs from element to element of a tile."""
    for e in walk(where):
        if isinstance(e, Call) and e.function in TILE_INDEX:
            return True
        if isinstance(e, Name) and isinstance(s.tokens.get(e.id), TileToken):
            return True
        if isinstance(e, Ref) and e.resource is not None and any(n != 1 for n in s.builder.field(e).shape):
            return True
    return False


def mask(s: TaskState, w: Work, step: CallStep, where: Expr, spread: Spread) -> tuple[str, list[Statement]]:
    """A tile of truth values for the `where` of a work, and what computes it."""
    placed = w.args["where"]
    assert isinstance(placed, Placed)
    e = prune(placed.expr, s.scope.env)
    f = TileFunction(s, w, step, spread, uses_index([e]) or uses_rows(s, [e], spread))
    out, made = fresh(s, s.names.new("keep"), spread, "cutlass.Boolean", "bool")
    name = f.tile("=", "keep", out)
    f.lines.append(("tile", f"{name}[{f.element}] = {f.printer().print(rows_first(f, e))}"))
    call = function_call(f, f"{w.owner}_{w.name}_where", text(e), [e])
    return out.name, [*f.before, made, call]


def _scalar_map(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """A map over single values of each thread: assignments in place."""
    b = s.builder
    passed = {name: p.expr for name, p in step.args.items()}
    p = elements.printer(s, w)
    out: list[Statement] = []
    for a in assigns(w):
        e = prune(substitute(a.value, passed), s.scope.env)
        target = map_target(w, a)
        if target is None:
            number = p.number(e)
            name = s.scalar_token(a.name, {"float": "f32", "int": "i32", "bool": "bool"}[number])
            out.append(assign(name, p.float(e) if number == "float" else p.print(e)))
            continue
        x = b.field(target)
        word = b.dtype_word(x.dtype)
        out.append(assign(f"{fragment(s, x)}[0]", elements.converted(s, w, e, b.dtype(x.dtype), word)))
    return [replace(out[0], note=s.note(step)), *out[1:]]
