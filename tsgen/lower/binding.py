"""A work at one of its calls: the call's arguments in place of `takes` and `static`."""

from __future__ import annotations

from dataclasses import replace

from tsgen.model.algebra import substitute
from tsgen.model.expr import Expr, Placed, Ref
from tsgen.model.kernel import ArgValue, Assign, CopyArg, Work
from tsgen.model.steps import CallStep


def bind(w: Work, c: CallStep) -> Work:
    """The work with the call's arguments in place of their names."""
    values = {name: p.expr for name, p in c.args.items()}
    return replace(w, args={k: _bound(v, values) for k, v in w.args.items()}) if values else w


def _bound(v: ArgValue, values: dict[str, Expr]) -> ArgValue:
    if isinstance(v, Placed):
        return Placed(substitute(v.expr, values), v.span)
    if not isinstance(v, tuple):
        return v
    copies = tuple(
        replace(x, to=_ref(x.to, values), source=_ref(x.source, values)) for x in v if isinstance(x, CopyArg)
    )
    assigns = tuple(replace(x, value=substitute(x.value, values)) for x in v if isinstance(x, Assign))
    return copies or assigns


def _ref(r: Ref, values: dict[str, Expr]) -> Ref:
    e = substitute(r, values)
    assert isinstance(e, Ref)
    return e
