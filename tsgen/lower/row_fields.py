"""Register fields that say something of rows: one value each, a column for each warp, or a few columns held whole."""

from __future__ import annotations

from tsgen.lower.context import TaskState
from tsgen.model.algebra import prune
from tsgen.model.expr import Call
from tsgen.model.kernel import Field
from tsgen.model.ops import assigns


def warp_columns(s: TaskState, f: Field) -> bool:
    """Whether a field has a column for each warp: those that `warp_rowsum` writes. A warp holds its own column."""
    if len(f.shape) != 2:
        return False
    for w in s.builder.kernel.resources[f.owner].works.values():
        for a in assigns(w) if w.op == "map" else ():
            value = prune(a.value, s.scope.env)
            if a.name == f.name and isinstance(value, Call) and value.function == "warp_rowsum":
                return True
    return False


def held_whole(f: Field) -> bool:
    """Whether each thread that owns part of a row holds all columns of the field: more than one of them."""
    return f.rowwise and len(f.shape) == 2 and f.shape[-1] > 1


def is_row_field(s: TaskState, f: Field) -> bool:
    """Whether a field has registers for the rows that a thread owns part of, and is no tile spread over threads."""
    if not f.shape or all(n == 1 for n in f.shape):
        return False
    return f.shape[-1] == 1 or f.rowwise or warp_columns(s, f)
