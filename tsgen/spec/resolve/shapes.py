"""Shapes of references: windows within fields, the two sides of a copy, the operands of a matrix multiply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tsgen.diagnostics import Span
from tsgen.model.algebra import NotConstant, NoValue, evaluate
from tsgen.model.expr import Expr, Full, Index, Placed, Ref, Slice, Window, names, text
from tsgen.model.kernel import Time, Work
from tsgen.model.ops import copies
from tsgen.spec import rules_parts, rules_works
from tsgen.spec.errors import SpecError
from tsgen.spec.resolve.context import Context
from tsgen.spec.rules_expr import not_compile_time

Shape = tuple[int | None, ...]  # None: known at launch only
PAIRS: Mapping[str, tuple[str, str]] = {  # op -> the parameters whose shapes must agree
    "load": ("from", "to"),
    "store": ("value", "to"),
    "tma_store": ("from", "to"),
    "peer_store": ("value", "to"),
    "tmem_load": ("from", "to"),
    "tmem_store": ("value", "to"),
    "tcgen05_cp": ("from", "to"),
}


@dataclass(slots=True)
class _Shapes:
    ctx: Context
    locals: Mapping[str, Time]

    def of(self, r: Ref, span: Span) -> Shape:
        """The shape of a bound reference; windows of fields are checked against the field. Raises SpecError."""
        dims = self.dims(r)
        if r.window is not None:
            taken = [self.entry(r, i, w, d, span) for i, (w, d) in enumerate(zip(r.window, dims, strict=True))]
            dims = tuple(d for w, d in zip(r.window, taken, strict=True) if not isinstance(w, Index))
        if r.transposed:
            if len(dims) < 2:
                raise SpecError(rules_parts.window_range(text(r), "a matrix is needed for `.T`", span))
            dims = (*dims[:-2], dims[-1], dims[-2])
        return dims

    def dims(self, r: Ref) -> Shape:
        if r.resource is not None:
            return tuple(self.known(d) for d in self.ctx.resources[r.resource].fields[r.name])
        return tuple(self.known(d) for d in self.ctx.tensors[r.name].shape)

    def known(self, e: Expr) -> int | None:
        try:
            v = evaluate(e, self.ctx.env)
        except (NotConstant, NoValue):
            return None
        return v if isinstance(v, int) else None

    def entry(self, r: Ref, i: int, w: Window, dim: int | None, span: Span) -> int | None:
        if isinstance(w, Full):
            return dim
        bounded = r.resource is not None and dim is not None
        if isinstance(w, Index):
            at = self.known(w.at)
            if bounded and at is not None and dim is not None and not 0 <= at < dim:
                reason = f"dimension {i} has the indices 0 to {dim - 1}, `{text(w.at)}` is {at}"
                raise SpecError(rules_parts.window_range(text(r), reason, span))
            return 1
        return self.slice(r, i, w, dim if bounded else None, span)

    def slice(self, r: Ref, i: int, w: Slice, dim: int | None, span: Span) -> int | None:
        length, start = self.known(w.length), self.known(w.start)
        if length is None:
            late = next((n for n in sorted(names(w.length)) if self.time(n) != "compile"), None)
            if late is not None:
                raise SpecError(not_compile_time(text(w.length), late, span))
            return None
        if length < 1:
            reason = f"`{text(w.length)}` is {length}, expected at least 1"
            raise SpecError(rules_parts.window_range(text(r), reason, span))
        end = length + (start or 0)
        if dim is not None and (end > dim or (start is not None and start < 0)):
            reason = (
                f"dimension {i} has {dim} elements, `{text(w.start)}:+{text(w.length)}` takes {start or 0} to {end}"
            )
            raise SpecError(rules_parts.window_range(text(r), reason, span))
        return length

    def time(self, name: str) -> Time:
        if name in self.locals:
            return self.locals[name]
        symbol = self.ctx.symbols.get(name)
        return symbol.time if symbol is not None else "step"


def check_shapes(ctx: Context, work: Work, locals: Mapping[str, Time]) -> None:
    """Findings about the shapes of an op's operands."""
    shapes = _Shapes(ctx, locals)
    for key in work.args:
        arg = work.args[key]
        if isinstance(arg, Placed) and isinstance(arg.expr, Ref):
            with ctx.catching():
                shapes.of(arg.expr, arg.span)
    if work.op in ("tma_load", "cp_async_load"):
        for c in copies(work):
            with ctx.catching():
                _agree(shapes, c.source, c.source_span, c.to, c.to_span)
    elif work.op is not None and work.op in PAIRS:
        a, b = (work.args.get(key) for key in PAIRS[work.op])
        if isinstance(a, Placed) and isinstance(b, Placed) and isinstance(a.expr, Ref) and isinstance(b.expr, Ref):
            with ctx.catching():
                _agree(shapes, a.expr, a.span, b.expr, b.span)
    elif work.op in ("wgmma", "tcgen05_mma"):
        with ctx.catching():
            _multiply(shapes, work)


def _agree(shapes: _Shapes, a: Ref, a_span: Span, b: Ref, b_span: Span) -> None:
    """The two sides of a copy have the same shape, 1s apart."""
    x, y = shapes.of(a, a_span), shapes.of(b, b_span)
    left, right = ([d for d in s if d != 1] for s in (x, y))
    same = len(left) == len(right) and all(p is None or q is None or p == q for p, q in zip(left, right, strict=True))
    if not same and not (None in left or None in right):
        raise SpecError(rules_works.box_shape(text(a), show(x), text(b), show(y), a_span, b_span))


def _multiply(shapes: _Shapes, work: Work) -> None:
    """a [M, K], b [N, K], c [M, N]; with `cta_group: 2` each CTA holds half of b's rows."""
    found: dict[str, Shape] = {}
    for key in ("a", "b", "c"):
        arg = work.args[key]
        assert isinstance(arg, Placed) and isinstance(arg.expr, Ref)
        shape = shapes.of(arg.expr, arg.span)
        if len(shape) != 2:
            reason = f"`{key}` is {show(shape)}, expected a matrix"
            raise SpecError(rules_works.mma_shape(str(work.op), reason, arg.span))
        found[key] = shape
    group = work.args.get("cta_group", 1)
    assert isinstance(group, int)
    (m, k), (n, k2), (m2, n2) = found["a"], found["b"], found["c"]
    n = None if n is None else n * group
    for what, p, q in (("K of a and b", k, k2), ("M of a and c", m, m2), ("N of b and c", n, n2)):
        if p is not None and q is not None and p != q:
            a, b, c = (show(found[key]) for key in ("a", "b", "c"))
            reason = f"a is {a}, b {b}, c {c}: {what} differ, {p} and {q}"
            raise SpecError(rules_works.mma_shape(str(work.op), reason, work.spans["op"]))


def show(shape: Shape) -> str:
    """`[128, 64]`."""
    return f"[{', '.join('?' if d is None else str(d) for d in shape)}]"
