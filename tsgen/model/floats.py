"""Which names, elements and fields of a kernel hold floats. Scalars of unsigned and of short types are taken for such,
too: arithmetic on them wraps around (elements and registers are widened first)."""

from __future__ import annotations

from collections.abc import Set

from tsgen.model.algebra import NotConstant, NoValue, evaluate, rebuild
from tsgen.model.dtypes import DTYPES, WIDENED
from tsgen.model.expr import Expr, Name, Ref
from tsgen.model.inexact import MARK, inexact
from tsgen.model.kernel import Kernel


def floats(kernel: Kernel) -> frozenset[str]:
    """The scalars and the `let` values that may be floats."""
    scalars = [t for t in kernel.tensors.values() if not t.shape]
    found = {t.name for t in scalars if float_dtype(t.dtype, kernel) or _word(t.dtype, kernel) in WIDENED}
    for let in kernel.launch.lets:
        if inexact(marked(let.value, kernel, found), kernel.env):
            found.add(let.name)
    return frozenset(found)


def float_dtype(dtype: Expr, kernel: Kernel) -> bool:
    """Whether numbers of a type may be floats. A type that is no known word may be one."""
    known = DTYPES.get(_word(dtype, kernel))
    return known is None or known.kind == "float"


def unsigned(dtype: Expr, kernel: Kernel) -> bool:
    """Whether numbers of a type are never negative."""
    known = DTYPES.get(_word(dtype, kernel))
    return known is not None and known.kind in ("uint", "bool")


def _word(dtype: Expr, kernel: Kernel) -> str:
    try:
        return str(evaluate(dtype, kernel.env))
    except (NotConstant, NoValue):
        return ""


def float_ref(ref: Ref, kernel: Kernel) -> bool:
    """Whether a reference is one to floats."""
    if ref.resource is None:
        tensor = kernel.tensors.get(ref.name)
        return tensor is None or float_dtype(tensor.dtype, kernel)
    resource = kernel.resources.get(ref.resource)
    field = resource.fields.get(ref.name) if resource is not None else None
    if field is None:
        return True
    return float_ref(field.view, kernel) if field.view is not None else float_dtype(field.dtype, kernel)


def marked(e: Expr, kernel: Kernel, names: Set[str]) -> Expr:
    """An expression in which floats carry their mark: those of `names`, and elements of tensors and fields."""
    if isinstance(e, Name) and e.id in names:
        return Name(e.id + MARK)
    e = rebuild(e, lambda c: marked(c, kernel, names))
    if isinstance(e, Ref) and MARK not in e.name and float_ref(e, kernel):
        return Ref(e.resource, e.instance, e.name + MARK, e.window, e.transposed)
    return e
