"""Fields as bytes: sizes of stages and windows, and the field whose bytes a view shows."""

from __future__ import annotations

from math import prod

from tsgen.derive.unfold import Env, constant
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Expr, Full, Index, Ref
from tsgen.model.kernel import Field, Kernel, Resource


def bits(kernel: Kernel, dtype: Expr) -> int:
    """Bits of one element; 32 if the word is no dtype (which is reported elsewhere)."""
    word = constant(dtype, kernel.env)
    return DTYPES[word].bits if isinstance(word, str) and word in DTYPES else 32


def root(kernel: Kernel, field: Field) -> Field:
    """The field that owns the bytes: a view's target, through views of views."""
    seen = set()
    while field.view is not None and (field.owner, field.name) not in seen:
        seen.add((field.owner, field.name))
        owner = kernel.resources.get(field.view.resource or field.owner)
        target = owner.fields.get(field.view.name) if owner is not None else None
        if target is None:
            return field
        field = target
    return field


def stage_bytes(kernel: Kernel, field: Field) -> int:
    """Bytes of one stage of a field."""
    field = root(kernel, field)
    return -(-prod(field.shape) * bits(kernel, field.dtype) // 8)


def stages(resource: Resource) -> int:
    """Stages of a resource's storage: 1 without a pipeline."""
    return resource.pipeline.num_stages if resource.pipeline is not None else 1


def find_field(kernel: Kernel, ref: Ref) -> Field | None:
    """The field a reference names (through views), or None for a tensor."""
    owner = kernel.resources.get(ref.resource) if ref.resource is not None else None
    field = owner.fields.get(ref.name) if owner is not None else None
    return None if field is None else root(kernel, field)


def window_shape(ref: Ref, shape: tuple[int, ...], env: Env) -> tuple[int, ...]:
    """Elements of the window along each dimension (1 for an index); lengths without a value count as the whole."""
    if ref.window is None:
        return shape
    lengths = []
    for w, extent in zip(ref.window, shape, strict=False):
        if isinstance(w, Full):
            lengths.append(extent)
        elif isinstance(w, Index):
            lengths.append(1)
        else:
            n = constant(w.length, env)
            lengths.append(int(n) if isinstance(n, int) else extent)
    return (*lengths, *shape[len(lengths) :])


def window_bytes(kernel: Kernel, ref: Ref, env: Env) -> int:
    """Bytes of a window of a field; 0 for a tensor."""
    field = find_field(kernel, ref)
    if field is None:
        return 0
    return -(-prod(window_shape(ref, field.shape, env)) * bits(kernel, field.dtype) // 8)
