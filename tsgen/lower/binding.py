"""A work at one of its calls: the call's arguments in place of `takes` and `static`."""

from __future__ import annotations

from dataclasses import replace

from tsgen.model.algebra import rebuild, substitute
from tsgen.model.expr import Expr, Placed, Ref
from tsgen.model.kernel import ArgValue, Assign, CopyArg, Each, Work
from tsgen.model.steps import CallStep


def bind(w: Work, c: CallStep, each: Each | None = None) -> Work:
    """The work with the call's arguments in place of their names, and of the instance that the call names."""
    values = {name: p.expr for name, p in c.args.items()}
    if each is not None and c.instance is not None:
        values[each.var] = c.instance
        w = replace(w, args={k: _of_instance(v, w.owner, c.instance) for k, v in w.args.items()})
    return replace(w, args={k: _bound(v, values) for k, v in w.args.items()}) if values else w


def _of_instance(v: ArgValue, owner: str, instance: Expr) -> ArgValue:
    """An argument whose references to own fields say of which instance."""

    def own(e: Expr) -> Expr:
        e = rebuild(e, own)
        return replace(e, instance=instance) if isinstance(e, Ref) and (e.resource, e.instance) == (owner, None) else e

    if isinstance(v, Placed):
        return Placed(own(v.expr), v.span)
    if not isinstance(v, tuple):
        return v
    copies = tuple(
        replace(x, to=_as_ref(own(x.to)), source=_as_ref(own(x.source))) for x in v if isinstance(x, CopyArg)
    )
    assigns = tuple(replace(x, value=own(x.value)) for x in v if isinstance(x, Assign))
    return copies or assigns


def _as_ref(e: Expr) -> Ref:
    assert isinstance(e, Ref)
    return e


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
    return _as_ref(substitute(r, values))
