"""Inline bodies: each becomes a function over the names it uses."""

from __future__ import annotations

import ast
import textwrap

from tsgen.lower.context import TaskState
from tsgen.lower.errors import refuse
from tsgen.lower.mma import fragment
from tsgen.lower.positions import stage
from tsgen.lower.program import Statement
from tsgen.lower.smem import slot, smem_field, tile_rank
from tsgen.lower.tile_copies import tile_of
from tsgen.lower.tokens import TileToken
from tsgen.model.algebra import substitute
from tsgen.model.expr import Full, Name, Placed, Ref, text
from tsgen.model.kernel import Work
from tsgen.model.steps import CallStep

_MODULES = frozenset(("cute", "cutlass", "math"))


def lower_body(s: TaskState, w: Work, step: CallStep) -> list[Statement]:
    """The call of a body's function. Free names bind as LANGUAGE section 6 says."""
    b = s.builder
    if w.call is not None:
        return [_external(s, w, step)]
    assert w.body is not None
    body = textwrap.dedent(w.body).strip("\n")
    free = _free_names(body, w)
    values = {name: _value(s, w, step, name) for name in free}
    bound = {name: text for name, text in values.items() if text is not None}
    name = f"{w.owner}_{w.name}"
    if name not in b.functions:
        lines = body.split("\n")
        if w.returns:
            lines.append(f"return {', '.join(w.returns)}")
        constants = {n: t for n, t in bound.items() if t in b.constants.values() and t != n and n not in step.args}
        lines = [f"{n} = {t}" for n, t in constants.items()] + lines
        params = [n for n in bound if n not in constants]
        fields = {"name": b.function_name(name), "params": params, "lines": lines, "doc": None}
        b.functions[name] = Statement(
            "functions/body", {**fields, "constants": tuple(constants)}, b.note(w.span.line, f"{w.owner}.{w.name}")
        )
    f = b.functions[name].values
    constants_used = f["constants"]
    assert isinstance(constants_used, tuple)
    args = [text for n, text in bound.items() if n not in constants_used]
    return [_call(s, w, step, str(f["name"]), args)]


def _call(s: TaskState, w: Work, step: CallStep, function: str, args: list[str]) -> Statement:
    results = []
    for spec_name in step.results:
        results.append(s.scalar_token(spec_name, None))
    return Statement("ops/call", {"function": function, "args": args, "results": results}, s.note(step))


def _external(s: TaskState, w: Work, step: CallStep) -> Statement:
    """`call: module:function`: the same names, as keywords."""
    assert w.call is not None
    module, _, function = w.call.partition(":")
    s.builder.needs.add(f"import:{module}:{function}")
    names = [*w.takes, *w.static, *w.reads, *w.writes]
    args = [f"{n}={v}" for n in names if (v := _value(s, w, step, n)) is not None]
    return _call(s, w, step, function, args)


def _free_names(body: str, w: Work) -> list[str]:
    """Names the body reads before it assigns them, in order; `returns` are its own."""
    tree = ast.parse(body)
    stored: set[str] = set(w.returns)
    seen: dict[str, None] = {}
    loads = sorted(
        (n for n in ast.walk(tree) if isinstance(n, ast.Name)),
        key=lambda n: (n.lineno, isinstance(n.ctx, ast.Store), n.col_offset),
    )
    for n in loads:
        if isinstance(n.ctx, ast.Load) and n.id not in stored:
            seen[n.id] = None
        elif isinstance(n.ctx, ast.Store):
            stored.add(n.id)
    return list(seen)


def _value(s: TaskState, w: Work, step: CallStep, name: str) -> str | None:
    """What a free name of the body is at this call; None for modules and builtins of Python."""
    b = s.builder
    if name in step.args:
        passed = step.args[name].expr
        token = s.tokens.get(passed.id) if isinstance(passed, Name) else None
        return token.name if isinstance(token, TileToken) else s.py(passed)
    owner = b.kernel.resources.get(w.owner)
    if owner is not None and name in owner.fields:
        return _field_view(s, w, Ref(w.owner, None, name))
    for places in (w.reads, w.writes):
        if name in places:
            return _place(s, w, step, places[name])
    if name in b.kernel.tensors and b.kernel.tensors[name].shape:
        return b.tensor(name)
    if name == "stage":
        return _stage_text(s, w)
    if name in _MODULES:
        return None
    try:
        return s.scope.names[name]
    except KeyError:
        return None


def _place(s: TaskState, w: Work, step: CallStep, p: Placed) -> str:
    """What `reads` or `writes` bind a name to: a tensor, a field, or the part of one that a window takes."""
    b = s.builder
    e = substitute(p.expr, {name: a.expr for name, a in step.args.items()})
    if not isinstance(e, Ref) or e.transposed:
        refuse(f"`{text(p.expr)}` in `reads` or `writes` of the body `{w.owner}.{w.name}`", p.span)
    if e.resource is not None:
        return _field_view(s, w, e)
    shape = b.kernel.tensors[e.name].shape
    return tile_of(s, b.tensor(e.name), e.window or tuple(Full() for _ in shape), shape, "")


def _field_view(s: TaskState, w: Work, ref: Ref) -> str:
    b = s.builder
    field = b.field(ref)
    if b.kind(ref) == "rmem":
        if ref.window is not None:
            refuse(f"`{text(ref)}`, part of a register field, in the body `{w.owner}.{w.name}`", w.span)
        return fragment(s, field)
    shared = smem_field(b, ref)
    assert ref.resource is not None
    lead = len(field.shape) - tile_rank(field)
    window = (*(ref.window or ()), *(Full() for _ in field.shape))[lead : len(field.shape)]
    return tile_of(s, shared.name, window, field.dims[lead:], slot(b, ref, stage(s, ref.resource, w), s.scope))


def _stage_text(s: TaskState, w: Work) -> str:
    at = stage(s, w.owner, w)
    if at is None:
        refuse(f"`stage` in the body of `{w.owner}.{w.name}`, which is not on a pipeline", w.span)
    return at
