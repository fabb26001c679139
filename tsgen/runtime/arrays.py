"""The few array operations that `reference` needs, over torch tensors or NumPy arrays.

Both libraries share most names; a class here holds what differs. Values are float32 or int64: see `value`.
"""
# Both are loaded at run time, so that what they return has no type that mypy sees.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import ModuleType
from typing import Protocol, TypeGuard, Union

from tsgen.model.dtypes import DTYPES, TORCH_TYPES
from tsgen.runtime.errors import NEEDS_NUMPY, NEEDS_TORCH, CannotRun
from tsgen.runtime.rounding import SMALL, to_power_of_two, to_small

NUMPY_TYPES = {"u16": "uint16", "u32": "uint32", "u64": "uint64"}  # those that PyTorch lacks

Number = int | float | bool
Operand = Union["Array", int, float, bool]
Shape = Sequence[int]


class Array(Protocol):
    """What torch tensors and NumPy arrays have in common."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> object: ...
    def __add__(self, other: Operand, /) -> Array: ...
    def __radd__(self, other: Operand, /) -> Array: ...
    def __sub__(self, other: Operand, /) -> Array: ...
    def __rsub__(self, other: Operand, /) -> Array: ...
    def __mul__(self, other: Operand, /) -> Array: ...
    def __rmul__(self, other: Operand, /) -> Array: ...
    def __truediv__(self, other: Operand, /) -> Array: ...
    def __rtruediv__(self, other: Operand, /) -> Array: ...
    def __floordiv__(self, other: Operand, /) -> Array: ...
    def __mod__(self, other: Operand, /) -> Array: ...
    def __pow__(self, other: Operand, /) -> Array: ...
    def __and__(self, other: Operand, /) -> Array: ...
    def __or__(self, other: Operand, /) -> Array: ...
    def __neg__(self) -> Array: ...
    def __invert__(self) -> Array: ...
    def __lt__(self, other: Operand, /) -> Array: ...
    def __le__(self, other: Operand, /) -> Array: ...
    def __gt__(self, other: Operand, /) -> Array: ...
    def __ge__(self, other: Operand, /) -> Array: ...
    def __getitem__(self, index: object, /) -> Array: ...
    def __setitem__(self, index: object, value: Operand, /) -> None: ...
    def __len__(self) -> int: ...
    def reshape(self, shape: Shape, /) -> Array: ...
    def item(self) -> Number: ...


class Arrays(ABC):
    """One array library. Functions take and give arrays of it; shapes are in elements."""

    xp: ModuleType

    @abstractmethod
    def is_array(self, v: object) -> TypeGuard[Array]: ...

    def unary(self, name: str, x: Operand) -> Array:
        """exp, exp2, log, log2, sqrt or tanh, in float32, of an array or a number."""
        return getattr(self.xp, name)(self.cast(self.array(x), "f32"))

    def abs(self, x: Operand) -> Array:
        return self.xp.abs(self.array(x))

    def where(self, condition: Operand, a: Operand, b: Operand) -> Array:
        return self.value(self.xp.where(self.array(condition), a, b))

    def minimum(self, a: Operand, b: Operand) -> Array:
        return self.value(self.xp.minimum(self.array(a), self.array(b)))

    def maximum(self, a: Operand, b: Operand) -> Array:
        return self.value(self.xp.maximum(self.array(a), self.array(b)))

    def matmul(self, a: Array, b: Array) -> Array:
        return self.xp.matmul(a, b)

    def isnan(self, x: Array) -> Array:
        return self.xp.isnan(x)

    def equal(self, a: Operand, b: Operand) -> Array:
        """Whether elements are equal."""
        return self.xp.eq(a, b) if hasattr(self.xp, "eq") else self.xp.equal(a, b)

    def broadcast(self, x: Array, shape: Shape) -> Array:
        return self.xp.broadcast_to(x, tuple(shape))

    @abstractmethod
    def distance(self, a: Array, b: Array) -> Array:
        """|a - b| in float32; NaN for two infinities of one sign."""

    @abstractmethod
    def array(self, v: Operand) -> Array:
        """A number as an array without dimensions (float32 or int64); an array as it is."""

    @abstractmethod
    def value(self, x: Array) -> Array:
        """An array of any dtype as float32, int64 or bool: what references compute with."""

    @abstractmethod
    def cast(self, x: Array, dtype: str) -> Array:
        """To a dtype of the spec, as the library stores it."""

    @abstractmethod
    def is_float(self, x: Array) -> bool: ...

    @abstractmethod
    def zeros(self, shape: Shape, dtype: str) -> Array: ...

    @abstractmethod
    def arange(self, n: int) -> Array:
        """0 … n-1, int64."""

    @abstractmethod
    def integers(self, values: Sequence[int]) -> Array:
        """A list as int64."""

    @abstractmethod
    def repeat(self, x: Array, n: int) -> Array:
        """Each entry of the first dimension n times."""

    @abstractmethod
    def swap(self, x: Array, i: int, j: int) -> Array:
        """Two dimensions exchanged."""

    @abstractmethod
    def total(self, x: Array, axis: int | None = None) -> Array:
        """The sum of all elements, or along an axis that is kept with extent 1."""

    @abstractmethod
    def largest(self, x: Array, axis: int | None = None) -> Array: ...

    @abstractmethod
    def smallest(self, x: Array) -> Array: ...

    @abstractmethod
    def first(self, x: Array) -> Array:
        """The index of the first true element of a vector."""

    @abstractmethod
    def erf(self, x: Operand) -> Array: ...

    @abstractmethod
    def normal(self, shape: Shape, dtype: str) -> Array:
        """Random normal, in a float dtype of the spec."""

    @abstractmethod
    def laid_out(self, x: Array, strides: Sequence[int]) -> Array:
        """A copy with these strides, in elements, where the library's users see strides."""

    @abstractmethod
    def uniform_integers(self, low: int, high: int, shape: Shape) -> Array:
        """Random from low to high - 1, int64."""


class NumpyArrays(Arrays):
    """On the CPU. Dtypes that NumPy lacks are held as float32, rounded to their values."""

    def __init__(self, seed: int = 0) -> None:
        try:
            self.xp = importlib.import_module("numpy")
        except ImportError:
            raise CannotRun("this needs NumPy", NEEDS_NUMPY) from None
        self.random = self.xp.random.default_rng(seed)

    def is_array(self, v: object) -> TypeGuard[Array]:
        return isinstance(v, self.xp.ndarray | self.xp.generic)

    def distance(self, a: Array, b: Array) -> Array:
        with self.xp.errstate(invalid="ignore"):
            return self.cast(self.abs(a - b), "f32")

    def array(self, v: Operand) -> Array:
        return self.xp.asarray(v, dtype=self.xp.float32 if isinstance(v, float) else None)

    def value(self, x: Array) -> Array:
        xp = self.xp
        kind = xp.asarray(x).dtype.kind
        return xp.asarray(x, dtype={"b": xp.bool_, "i": xp.int64, "u": xp.int64}.get(kind, xp.float32))

    def cast(self, x: Array, dtype: str) -> Array:
        xp = self.xp
        if dtype == "bf16":
            bits = xp.asarray(x, dtype=xp.float32).view(xp.uint32)
            rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & xp.uint32(0xFFFF0000)
            return xp.where(xp.isnan(x), xp.float32(math.nan), rounded.view(xp.float32))
        if dtype in SMALL:
            return to_small(xp, x, dtype)
        if dtype == "f8e8m0":
            return to_power_of_two(xp, x)
        return xp.asarray(x).astype(getattr(xp, NUMPY_TYPES.get(dtype, TORCH_TYPES.get(dtype, "")), xp.float32))

    def is_float(self, x: Array) -> bool:
        return bool(self.xp.asarray(x).dtype.kind == "f")

    def zeros(self, shape: Shape, dtype: str) -> Array:
        return self.cast(self.xp.zeros(tuple(shape)), dtype)

    def arange(self, n: int) -> Array:
        return self.xp.arange(n)

    def integers(self, values: Sequence[int]) -> Array:
        return self.xp.asarray(values, dtype=self.xp.int64)

    def repeat(self, x: Array, n: int) -> Array:
        return self.xp.repeat(x, n, axis=0)

    def swap(self, x: Array, i: int, j: int) -> Array:
        return self.xp.swapaxes(x, i, j)

    def total(self, x: Array, axis: int | None = None) -> Array:
        return self.xp.sum(x, axis=axis, keepdims=axis is not None)

    def largest(self, x: Array, axis: int | None = None) -> Array:
        return self.xp.max(x, axis=axis, keepdims=axis is not None)

    def smallest(self, x: Array) -> Array:
        return self.xp.min(x)

    def first(self, x: Array) -> Array:
        return self.xp.argmax(x)

    def erf(self, x: Operand) -> Array:
        return self.xp.vectorize(math.erf, otypes=[self.xp.float32])(x)

    def normal(self, shape: Shape, dtype: str) -> Array:
        return self.cast(self.random.standard_normal(tuple(shape), dtype=self.xp.float32), dtype)

    def uniform_integers(self, low: int, high: int, shape: Shape) -> Array:
        return self.random.integers(low, high, tuple(shape))

    def laid_out(self, x: Array, strides: Sequence[int]) -> Array:
        return self.xp.array(x)


class TorchArrays(Arrays):
    """On one device, with full float32 products (no TF32)."""

    def __init__(self, seed: int = 0, device: str = "cuda") -> None:
        try:
            self.xp = importlib.import_module("torch")
        except ImportError:
            raise CannotRun("this needs PyTorch", NEEDS_TORCH) from None
        self.device = device
        self.xp.set_float32_matmul_precision("highest")
        self.random = self.xp.Generator(device=device).manual_seed(seed)

    def is_array(self, v: object) -> TypeGuard[Array]:
        return isinstance(v, self.xp.Tensor)

    def dtype(self, name: str) -> object:
        """torch's dtype of a dtype of the spec. Raises CannotRun where it has none."""
        if name not in TORCH_TYPES:
            raise CannotRun(f"PyTorch has no dtype for {name} ({DTYPES[name].bits} bits)")
        return getattr(self.xp, TORCH_TYPES[name])

    def distance(self, a: Array, b: Array) -> Array:
        return self.cast(self.abs(a - b), "f32")

    def array(self, v: Operand) -> Array:
        if self.is_array(v):
            return v
        return self.xp.tensor(v, device=self.device)

    def value(self, x: Array) -> Array:
        if x.dtype == self.xp.bool:
            return x
        return self.xp.asarray(x, dtype=self.xp.float32 if self.is_float(x) else self.xp.int64)

    def cast(self, x: Array, dtype: str) -> Array:
        return self.xp.asarray(x, dtype=self.dtype(dtype))

    def is_float(self, x: Array) -> bool:
        return bool(self.xp.is_floating_point(x))

    def zeros(self, shape: Shape, dtype: str) -> Array:
        return self.xp.zeros(tuple(shape), dtype=self.dtype(dtype), device=self.device)

    def arange(self, n: int) -> Array:
        return self.xp.arange(n, device=self.device)

    def integers(self, values: Sequence[int]) -> Array:
        return self.xp.tensor(list(values), dtype=self.xp.int64, device=self.device)

    def repeat(self, x: Array, n: int) -> Array:
        return self.xp.repeat_interleave(x, n, dim=0)

    def swap(self, x: Array, i: int, j: int) -> Array:
        return self.xp.transpose(x, i, j)

    def total(self, x: Array, axis: int | None = None) -> Array:
        return self.xp.sum(x) if axis is None else self.xp.sum(x, dim=axis, keepdim=True)

    def largest(self, x: Array, axis: int | None = None) -> Array:
        return self.xp.amax(x) if axis is None else self.xp.amax(x, dim=axis, keepdim=True)

    def smallest(self, x: Array) -> Array:
        return self.xp.amin(x)

    def first(self, x: Array) -> Array:
        return self.xp.nonzero(x)[0]

    def erf(self, x: Operand) -> Array:
        return self.xp.erf(self.array(x))

    def normal(self, shape: Shape, dtype: str) -> Array:
        drawn = self.xp.randn(tuple(shape), generator=self.random, device=self.device, dtype=self.xp.float32)
        return self.cast(drawn, dtype)

    def uniform_integers(self, low: int, high: int, shape: Shape) -> Array:
        return self.xp.randint(low, high, tuple(shape), generator=self.random, device=self.device)

    def synchronize(self) -> None:
        """Waits for the device; errors of kernels come out here."""
        if self.device != "cpu":
            self.xp.cuda.synchronize()

    def clone(self, x: Array) -> Array:
        return self.xp.clone(x)

    def same(self, a: Array, b: Array) -> bool:
        """Whether two tensors are equal, bit by bit but for the NaNs' payloads."""
        return bool(self.xp.all(self.xp.eq(a, b) | (self.xp.ne(a, a) & self.xp.ne(b, b))))

    def laid_out(self, x: Array, strides: Sequence[int]) -> Array:
        out = self.xp.empty_strided(tuple(x.shape), tuple(strides), dtype=x.dtype, device=self.device)
        return out.copy_(x)

    def fill(self, x: Array, value: int) -> None:
        self.xp.Tensor.fill_(x, value)

    def full_bytes(self, n: int, byte: int) -> Array:
        return self.xp.full((n,), byte, dtype=self.xp.uint8, device=self.device)

    def view_bytes(
        self, raw: Array, start: int, nbytes: int, dtype: str, shape: Shape, strides: Sequence[int]
    ) -> Array:
        """A tensor over raw[start : start + nbytes]."""
        return self.xp.as_strided(self.xp.Tensor.view(raw[start : start + nbytes], self.dtype(dtype)), shape, strides)
