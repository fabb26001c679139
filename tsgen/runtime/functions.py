"""The functions of `reference` (docs/language.md sections 2 and 9): plain mathematics in float32, one place for each.

A function takes the arrays' library and evaluated arguments: arrays, numbers, words, None.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from tsgen.model.expr import Scalar
from tsgen.runtime.arrays import Array, Arrays, Operand
from tsgen.runtime.errors import CannotRun

if TYPE_CHECKING:
    from random import Random

Value = Array | Scalar | None
Function = Callable[..., Value]
F = TypeVar("F", bound=Function)

FUNCTIONS: dict[str, Function] = {}
RANDOM: dict[str, Function] = {}  # in `inputs` only; these also take the source of randomness
BINARY: dict[str, Function] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
}
COMPARE: dict[str, Function] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _function(f: F) -> F:
    FUNCTIONS[f.__name__.rstrip("_")] = f
    return f


def _random(f: F) -> F:
    RANDOM[f.__name__] = f
    return f


# ---- numbers and elements ---------------------------------------------------------------------------------------
@_function
def ceil_div(xp: Arrays, a: int, b: int) -> int:
    return -(-a // b)


@_function
def max_(xp: Arrays, *values: Operand) -> Operand:
    """Of several values by element; of one array its largest element."""
    if len(values) == 1:
        return xp.largest(xp.array(values[0]))
    numbers = [v for v in values if isinstance(v, int | float)]
    return max(numbers) if len(numbers) == len(values) else reduce(xp.maximum, values)


@_function
def min_(xp: Arrays, *values: Operand) -> Operand:
    """Of several values by element; of one array its smallest element."""
    if len(values) == 1:
        return xp.smallest(xp.array(values[0]))
    numbers = [v for v in values if isinstance(v, int | float)]
    return min(numbers) if len(numbers) == len(values) else reduce(xp.minimum, values)


@_function
def abs_(xp: Arrays, x: Operand) -> Array:
    return xp.abs(x)


@_function
def exp(xp: Arrays, x: Operand) -> Array:
    return xp.unary("exp", x)


@_function
def exp2(xp: Arrays, x: Operand) -> Array:
    return xp.unary("exp2", x)


@_function
def log(xp: Arrays, x: Operand) -> Array:
    return xp.unary("log", x)


@_function
def log2(xp: Arrays, x: Operand) -> Array:
    return xp.unary("log2", x)


@_function
def sqrt(xp: Arrays, x: Operand) -> Array:
    return xp.unary("sqrt", x)


@_function
def rsqrt(xp: Arrays, x: Operand) -> Array:
    return 1.0 / xp.unary("sqrt", x)


@_function
def tanh(xp: Arrays, x: Operand) -> Array:
    return xp.unary("tanh", x)


@_function
def erf(xp: Arrays, x: Operand) -> Array:
    return xp.erf(x)


@_function
def where(xp: Arrays, condition: Operand, a: Operand, b: Operand) -> Array:
    return xp.where(condition, a, b)


# ---- activations ------------------------------------------------------------------------------------------------
@_function
def relu(xp: Arrays, x: Operand) -> Array:
    return xp.maximum(x, 0.0)


@_function
def gelu(xp: Arrays, x: Operand) -> Array:
    """The erf form."""
    return 0.5 * x * (1.0 + xp.erf(x * 0.7071067811865476))


@_function
def gelu_tanh(xp: Arrays, x: Operand) -> Array:
    return 0.5 * x * (1.0 + tanh(xp, 0.7978845608028654 * (x + 0.044715 * x * x * x)))


@_function
def sigmoid(xp: Arrays, x: Operand) -> Array:
    return 0.5 + 0.5 * tanh(xp, 0.5 * x)


@_function
def silu(xp: Arrays, x: Operand) -> Array:
    return x * sigmoid(xp, x)


ACTIVATIONS: dict[str, Callable[[Arrays, Operand], Operand]] = {
    "none": lambda xp, x: x,
    "relu": relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}


@_function
def activation(xp: Arrays, word: str, x: Operand) -> Operand:
    """`activation(gelu, x)` is `gelu(x)`; `none` is x."""
    if word not in ACTIVATIONS:
        raise CannotRun(f"activation `{word}` is unknown", f"one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[word](xp, x)


# ---- shapes -----------------------------------------------------------------------------------------------------
@_function
def transpose(xp: Arrays, x: Array) -> Array:
    """The last two dimensions exchanged."""
    return xp.swap(x, -1, -2)


@_function
def reshape(xp: Arrays, x: Array, *shape: int) -> Array:
    return x.reshape(shape)


@_function
def repeat(xp: Arrays, x: Array, n: int) -> Array:
    """Each entry of the first dimension n times."""
    return xp.repeat(x, n)


@_function
def diff(xp: Arrays, x: Array) -> Array:
    """Differences of neighbours along the first dimension."""
    return x[1:] - x[:-1]


@_function
def rows(xp: Arrays, x: Array) -> Array:
    """The row index of each element: [M, 1]."""
    return xp.arange(x.shape[-2])[:, None]


@_function
def cols(xp: Arrays, x: Array) -> Array:
    return xp.arange(x.shape[-1])


@_function
def rowmax(xp: Arrays, x: Array) -> Array:
    return xp.largest(x, -1)


@_function
def rowsum(xp: Arrays, x: Array) -> Array:
    return xp.total(x, -1)


@_function
def pad_segments(xp: Arrays, x: Array, offsets: Array, width: int) -> Array:
    """Row i is x[offsets[i] : offsets[i+1]], zeros up to `width`."""
    start, length = offsets[:-1][:, None], diff(xp, offsets)[:, None]
    col = xp.arange(width)[None, :]
    inside = col < length
    if not len(x):
        return xp.where(inside, 0.0, 0.0)
    return xp.where(inside, x[xp.where(inside, start + col, 0)], 0.0)


# ---- linear algebra ---------------------------------------------------------------------------------------------
@_function
def matmul(xp: Arrays, a: Array, b: Array) -> Array:
    return xp.matmul(a, b)


@_function
def rmsnorm(xp: Arrays, x: Array, weight: Array, eps: float) -> Array:
    """x / sqrt(mean(x²) + eps) · weight along the last dimension."""
    mean = xp.total(x * x, -1) / x.shape[-1]
    return x / xp.unary("sqrt", mean + eps) * weight


@_function
def scaled(xp: Arrays, x: Array, scale: Array, vec: int) -> Array:
    """x[L, M, K] · scale, one for each `vec` elements of a row. The scales come in blocks of 128 rows by 4, of 512
    entries each: [L, ⌈M/128⌉, ⌈K/(4·vec)⌉, 512]; the scale of row r and vector v is entry (r mod 32)·16 + (r mod 128
    // 32)·4 + v mod 4 of block (r // 128, v // 4)."""
    r, v = xp.arange(x.shape[-2])[:, None], xp.arange(x.shape[-1])[None, :] // vec
    return x * scale[..., r // 128, v // 4, r % 32 * 16 + r % 128 // 32 * 4 + v % 4]


@_function
def attention(
    xp: Arrays,
    q: Array,
    k: Array,
    v: Array,
    scale: float | None = None,
    causal: bool = False,
    cu_q: Array | None = None,
    cu_k: Array | None = None,
) -> Array:
    """softmax(scale q kᵀ) v on [B, S, H, D], or packed on [1, total, H, D] with the sequences' offsets.

    Query heads share key heads in groups. Causal: query i sees keys up to i + len_k - len_q. A query that sees no
    key gives zeros. One head at a time, so that long sequences fit.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    group = q.shape[2] // k.shape[2]
    out = q * 0.0
    for b, rows_q, rows_k in _sequences(q, k, cu_q, cu_k):
        for head in range(q.shape[2]):
            kv = head // group
            out[b, rows_q, head] = _attend(xp, q[b, rows_q, head], k[b, rows_k, kv], v[b, rows_k, kv], scale, causal)
    return out


def _sequences(q: Array, k: Array, cu_q: Array | None, cu_k: Array | None) -> list[tuple[int, slice, slice]]:
    if cu_q is None or cu_k is None:
        return [(b, slice(0, q.shape[1]), slice(0, k.shape[1])) for b in range(q.shape[0])]
    at = [(int(cu_q[i].item()), int(cu_k[i].item())) for i in range(len(cu_q))]
    return [(0, slice(a, c), slice(b, d)) for (a, b), (c, d) in pairwise(at)]


def _attend(xp: Arrays, q: Array, k: Array, v: Array, scale: float, causal: bool) -> Array:
    if not len(q) or not len(k):
        return q * 0.0
    s = xp.matmul(q, xp.swap(k, 0, 1)) * scale
    if causal:
        seen = xp.arange(len(k))[None, :] <= xp.arange(len(q))[:, None] + (len(k) - len(q))
        s = xp.where(seen, s, -math.inf)
    top = xp.largest(s, -1)
    p = xp.unary("exp", s - xp.where(top > -math.inf, top, 0.0))  # a row that sees nothing: exp(-inf - 0) = 0
    total = xp.total(p, -1)
    return xp.matmul(p, v) / xp.where(total > 0.0, total, 1.0)


# ---- random inputs ----------------------------------------------------------------------------------------------
@_random
def randint(xp: Arrays, random: Random, low: int, high: int, *shape: int) -> Array:
    """Uniform from low to high - 1."""
    return xp.uniform_integers(low, high, shape)


@_random
def segments(xp: Arrays, random: Random, n: int, total: int) -> Array:
    """n + 1 offsets from 0 to `total`: random lengths, some empty, none above twice the mean (rounded up)."""
    lengths = [total // n + (i < total % n) for i in range(n)]
    for i in range(0, n - 1, 2):
        moved = random.randint(0, lengths[i])
        lengths[i], lengths[i + 1] = lengths[i] - moved, lengths[i + 1] + moved
    random.shuffle(lengths)
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return xp.integers(offsets)
