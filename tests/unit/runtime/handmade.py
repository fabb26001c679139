"""Small kernels made by hand: what the runtime reads of a model, without loading a spec."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.diagnostics import Span
from tsgen.model.dtypes import DTYPES
from tsgen.model.expr import Const, Placed, Scalar
from tsgen.model.kernel import CopyArg, Kernel, Launch, Memory, Param, Reference, Tensor, Work
from tsgen.spec.parse import parse_expr, parse_ref

AT = Span(1, 1, 1, 2)


def placed(text: str, reference: bool = False) -> Placed:
    return Placed(parse_expr(text, AT, reference=reference), AT)


def param(name: str, value: Scalar) -> Param:
    return Param(name, value, None, (), (), None, AT, False)


def tensor(
    name: str, dtype: str, *shape: str, output: bool = False, default: str | None = None, **more: object
) -> Tensor:
    """`tensor("a", "io", "M", "K")`; more: works, major, present."""
    dims = tuple(parse_expr(s, AT) for s in shape)
    values: dict[str, object] = {"works": {}, "major": len(shape) - 1, "present": True, **more}
    return Tensor(
        name,
        Const(dtype) if dtype in DTYPES else parse_expr(dtype, AT),
        dims,
        output,
        placed(default) if default else None,
        16,
        doc=None,
        span=AT,
        **values,  # type: ignore[arg-type]
    )


def tma_load(source: str) -> Work:
    """A work that loads a tensor through TMA, as its owner sees it."""
    copy = CopyArg(parse_ref("t[0:+1, 0:+1]", AT), parse_ref(source, AT), None, AT, AT, AT)  # type: ignore[arg-type]
    return Work(
        "load", "ring", "producer", "tma_load", {"copies": (copy,)}, (), (), (), "task", False, None, None, {}, {},
        None, None, None, AT, {},
    )  # fmt: skip


def kernel(
    tensors: list[Tensor],
    reference: Mapping[str, str] | None = None,
    *,
    params: Mapping[str, Scalar] | None = None,
    dims: str = "",
    inputs: Mapping[str, str] | None = None,
    shapes: tuple[Mapping[str, int], ...] = (),
    tolerance: tuple[float, float] | None = None,
    assume: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> Kernel:
    launch = Launch((), optional, (), tuple(placed(a) for a in assume), False, 1, AT)
    rtol, atol = tolerance or (None, None)
    ref = None
    if reference is not None:
        values = {k: placed(v, True) for k, v in reference.items()}
        given = {k: placed(v, True) for k, v in (inputs or {}).items()}
        ref = Reference(values, given, shapes, rtol, atol, AT)
    named = {k: param(k, v) for k, v in (params or {}).items()}
    return Kernel(
        "kernel", "sm_90a", ("sm_90a",), "", None, named, {}, {t.name: t for t in tensors}, tuple(dims.split()), launch,
        {}, {}, (), {}, (), Memory(), ref, {}, AT,
    )  # fmt: skip


def gemm(**more: object) -> Kernel:
    """d = act(a bᵀ + bias), as far as the runtime looks."""
    tensors = [
        tensor("a", "io", "L", "M", "K", works={"load": tma_load("a[0, 0:+1, 0:+1]")}),
        tensor("b", "io", "L", "N", "K"),
        tensor("bias", "io", "N"),
        tensor("d", "io", "L", "M", "N", output=True),
    ]
    values: dict[str, object] = {
        "params": {"io": "f16", "act": "gelu"},
        "dims": "L M K N",
        "shapes": ({"L": 2, "M": 5, "N": 8, "K": 16},),
        "tolerance": (1e-2, 1e-2),
        "optional": ("L",),
        "assume": ("K >= 1",),
        **more,
    }
    return kernel(tensors, {"d": "activation(act, matmul(a, transpose(b)) + bias)"}, **values)  # type: ignore[arg-type]
