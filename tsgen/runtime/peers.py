"""The other sides of `tsgen bench`: what PyTorch offers for the same work, and a copy of as many bytes."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tsgen.model.algebra import prune
from tsgen.model.expr import Call, Const, Expr, Name, Ref, walk
from tsgen.runtime.buffers import Buffers
from tsgen.runtime.cost import is_causal
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.problem import Problem


@dataclass(frozen=True, slots=True)
class Peer:
    """A call of PyTorch into an output of its own. It may be less than the reference: the product without the bias."""

    name: str
    call: Callable[[], object]


def torch_peer(problem: Problem, buffers: Buffers) -> Peer:
    """PyTorch's product, attention, normalisation or copy in the reference. Raises CannotRun where there is none."""
    reference = problem.kernel.reference
    assert reference is not None
    name, placed = next(iter(reference.values.items()))
    e = prune(placed.expr, problem.env)
    if isinstance(e, Name) and e.id in problem.tensors:
        return _copy(buffers, e.id, name)
    for part in walk(e):
        found = _peer(part, problem, buffers) if isinstance(part, Call) else None
        if found is not None:
            return Peer(*found)
    raise CannotRun(f"{problem.kernel.name}: PyTorch has no single call for its reference", "--against another module")


def copy_peer(problem: Problem, buffers: Buffers) -> Peer:
    """A device copy that moves as many bytes as the problem's tensors have: what memory gives at most."""
    torch = importlib.import_module("torch")
    half = sum(t.nbytes for t in problem.tensors.values()) // 2
    source = torch.zeros(half, dtype=torch.uint8, device="cuda")
    out = torch.empty_like(source)
    return Peer("a device copy of as many bytes", lambda: out.copy_(source))


def _copy(b: Buffers, source: str, output: str) -> Peer:
    torch = importlib.import_module("torch")
    out = torch.empty_like(b.arguments[output])
    return Peer("torch copy", lambda: out.copy_(b.arguments[source]))


def _peer(e: Call, p: Problem, b: Buffers) -> tuple[str, Callable[[], object]] | None:
    torch = importlib.import_module("torch")
    functional = torch.nn.functional
    operands = [_tensor(a, b) for a in e.args]
    match e.function:
        case "matmul" if all(o is not None for o in operands):
            return _product(torch, operands)
        case "rmsnorm":
            x, weight, eps = operands[0], operands[1], b.arguments.get(str(getattr(e.args[2], "id", "")))
            return "torch rms_norm", lambda: functional.rms_norm(x, (x.shape[-1],), weight, eps)
        case "attention" if len(e.args) < 7 or e.args[5] == e.args[6] == Const("None"):
            q, k, v = (t.transpose(1, 2) for t in operands[:3])
            scale = b.arguments.get(str(getattr(e.args[3], "id", ""))) if len(e.args) > 3 else None
            keys = {"scale": scale, "is_causal": is_causal(e, p), "enable_gqa": q.shape[1] != k.shape[1]}
            if keys["is_causal"] and q.shape[2] != k.shape[2]:
                return None  # torch aligns the diagonal with the first key
            return _sdpa(lambda: functional.scaled_dot_product_attention(q, k, v, **keys))
    return None


def _sdpa(call: Callable[[], object]) -> tuple[str, Callable[[], object]]:
    """PyTorch's attention by cuDNN, its fastest; by whatever it chooses where cuDNN does not take the problem."""
    attention = importlib.import_module("torch.nn.attention")

    def by_cudnn() -> object:
        with attention.sdpa_kernel(attention.SDPBackend.CUDNN_ATTENTION):
            return call()

    try:
        by_cudnn()
    except RuntimeError:
        return "torch SDPA", call
    return "torch SDPA by cuDNN", by_cudnn


def _product(torch: Any, operands: list[Any]) -> tuple[str, Callable[[], object]]:
    """torch.mm for one product (cuBLAS), torch.matmul for several."""
    a, b = operands
    if all(n == 1 for t in operands for n in t.shape[:-2]):
        a, b = (t.reshape(t.shape[-2:]) if t.is_contiguous() else t[(0,) * (t.ndim - 2)] for t in operands)
        out = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        return "torch.mm", lambda: torch.mm(a, b, out=out)
    return "torch.matmul", lambda: torch.matmul(a, b)


def _tensor(e: Expr, b: Buffers) -> Any:
    """A tensor argument as the kernel gets it, transposed where the reference says so; None for anything else."""
    match e:
        case Name():
            value = b.arguments.get(e.id)
            return value if hasattr(value, "stride") else None
        case Ref(resource=None, window=None):
            value = b.arguments.get(e.name)
            return value.transpose(-1, -2) if e.transposed else value  # type: ignore[union-attr]
        case Call(function="transpose"):
            inner = _tensor(e.args[0], b)
            return None if inner is None else inner.transpose(-1, -2)
    return None
