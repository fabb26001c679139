"""Functions of a generated module, run in NumPy on all 128 threads of a warpgroup at once.

A register fragment holds one array of 128 values for each of its elements; shuffles exchange values between lanes.
What `cute` and `cutlass` do here is written from the DSL's documentation, not from tsgen's code.
"""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

LANES = np.arange(128)
Nested = int | tuple["Nested", ...]


def product(x: Nested) -> int:
    return x if isinstance(x, int) else int(np.prod([product(i) for i in x], dtype=np.int64))


def offset(coordinate: Any, shape: Nested, stride: Nested) -> int:
    """Offset of a coordinate in a nested mode: nested itself, or linear, leftmost fastest."""
    if isinstance(coordinate, tuple):
        assert isinstance(shape, tuple) and isinstance(stride, tuple)
        return sum(offset(c, n, s) for c, n, s in zip(coordinate, shape, stride, strict=True))
    if isinstance(shape, int):
        assert isinstance(stride, int) and 0 <= coordinate < shape
        return coordinate * stride
    assert isinstance(stride, tuple)
    total = 0
    for n, s in zip(shape, stride, strict=True):
        total += offset(coordinate % product(n), n, s)
        coordinate //= product(n)
    return total


@dataclass
class Vector:
    """A value of `load()`: several elements."""

    values: np.ndarray

    def to(self, dtype: Any) -> Vector:
        return Vector(np.asarray(self.values, dtype=np.float32))

    def __getitem__(self, i: int) -> np.ndarray:
        return self.values[i]


@dataclass
class Tensor:
    """Elements of `data` (one row of 128 lanes each), or of a global tensor (`data` of any shape), behind a layout."""

    data: np.ndarray
    shape: tuple[Nested, ...]
    stride: tuple[Nested, ...]
    start: int = 0
    element_type: Any = np.float32

    @property
    def iterator(self) -> SimpleIterator:
        return SimpleIterator(self, self.start)

    def place(self, index: tuple[Any, ...]) -> int:
        return self.start + sum(offset(i, n, s) for i, n, s in zip(index, self.shape, self.stride, strict=True))

    def __getitem__(self, index: Any) -> Any:
        index = index if isinstance(index, tuple) else (index,)
        if any(i is None or (isinstance(i, tuple) and None in i) for i in index):
            return self.slice(index)
        return self.data[self.place(index)]

    def slice(self, index: tuple[Any, ...]) -> Tensor:
        start, shape, stride = self.start, [], []
        for i, n, s in zip(index, self.shape, self.stride, strict=True):
            parts = [(i, n, s)]
            if isinstance(i, tuple):
                assert isinstance(n, tuple) and isinstance(s, tuple)
                parts = list(zip(i, n, s, strict=True))
            for at, extent, step in parts:
                if at is None:
                    shape.append(extent)
                    stride.append(step)
                else:
                    start += offset(at, extent, step)
        return Tensor(self.data, tuple(shape), tuple(stride), start)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[self.place(index if isinstance(index, tuple) else (index,))] = value

    def load(self) -> Vector:
        return Vector(np.array([self[i] for i in range(product(self.shape))]))

    def store(self, v: Vector) -> None:
        for i in range(product(self.shape)):
            self[i] = v[i]


@dataclass
class SimpleIterator:
    tensor: Tensor
    start: int

    def __add__(self, n: int) -> SimpleIterator:
        return SimpleIterator(self.tensor, self.start + n)


def fragment(rows: int, columns: int) -> Tensor:
    """Registers of a WGMMA accumulator of a tile, or of an A operand: ((2, 2, N/8), M/64, 1) for each thread."""
    shape = ((2, 2, columns // 8), rows // 64, 1)
    data = np.zeros((product(shape), 128), np.float32)
    return Tensor(data, shape, ((1, 2, 4), columns // 2, 0))


def row_values(rows: int) -> Tensor:
    """Registers of a [rows, 1] field."""
    return Tensor(np.zeros((rows // 32, 128), np.float32), (rows // 32,), (1,))


def owned(i: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of the tile that element i of each thread's fragment is (PTX ISA, wgmma m64nNk16, D)."""
    tile, i = divmod(i, columns // 2)
    row = 64 * tile + 16 * (LANES // 32) + LANES % 32 // 4 + 8 * (i // 2 % 2)
    return row, 8 * (i // 4) + 2 * (LANES % 4) + i % 2


def scatter(tile: np.ndarray) -> Tensor:
    """A tile of rows and columns as the fragment of 128 threads."""
    out = fragment(*tile.shape)
    for i in range(len(out.data)):
        out.data[i] = tile[owned(i, tile.shape[1])]
    return out


def gather(x: Tensor, rows: int, columns: int) -> np.ndarray:
    """The tile of a fragment."""
    tile = np.full((rows, columns), np.nan, np.float32)
    for i in range(len(x.data)):
        tile[owned(i, columns)] = x.data[i]
    return tile


def gather_rows(x: Tensor, *, shares: bool = False) -> np.ndarray:
    """The column of a row field; whole values must be equal in the four lanes of a quad, shares are added up."""
    out = np.zeros(32 * len(x.data), np.float32)
    for i, values in enumerate(x.data):
        quads = values.reshape(32, 4)
        if not shares:
            assert (quads == quads[:, :1]).all() or np.isnan(quads).any()
        rows = 64 * (i // 2) + 8 * (i % 2) + 16 * (np.arange(32) // 8) + np.arange(32) % 8
        out[rows] = quads.sum(1) if shares else quads[:, 0]
    return out


def _shuffle(x: Any, offset: int) -> np.ndarray:
    return np.broadcast_to(x, 128)[LANES ^ offset]


def _local_tile(x: Tensor, tile: tuple[int], at: tuple[int]) -> Tensor:
    assert isinstance(x.stride[0], int)
    return Tensor(x.data, tile, x.stride, x.start + tile[0] * at[0] * x.stride[0])


class Float32(np.float32):
    inf = np.float32(np.inf)


def _layout(shape: Any, stride: Any = None) -> tuple[Any, Any]:
    shape = shape if isinstance(shape, tuple) else (shape,)
    return shape, stride if stride is not None else (1,)


def _size(x: Tensor, mode: list[int] | None = None) -> int:
    shape: Nested = x.shape
    for m in mode or ():
        assert isinstance(shape, tuple)
        shape = shape[m]
    return product(shape)


def _registers(n: int, dtype: Any) -> Tensor:
    return Tensor(np.zeros(n, np.float32), (n,), (1,))


CUTE = SimpleNamespace(
    Tensor=Tensor,
    jit=lambda f: f,
    size=_size,
    make_layout=_layout,
    make_tensor=lambda it, layout: Tensor(it.tensor.data, layout[0], layout[1], it.start),
    local_tile=_local_tile,
    make_rmem_tensor=_registers,
    autovec_copy=lambda x, to: to.store(x.load()),
    arch=SimpleNamespace(
        fmax=np.fmax, fmin=np.fmin, rcp_approx=lambda x: np.float32(1) / x, shuffle_sync_bfly=_shuffle
    ),
    math=SimpleNamespace(
        exp2=lambda x, fastmath: np.exp2(x, dtype=np.float32),
        exp=lambda x, fastmath: np.exp(x, dtype=np.float32),
        log=lambda x, fastmath: np.log(x, dtype=np.float32),
        tanh=lambda x, fastmath: np.tanh(x, dtype=np.float32),
    ),
)
CUTLASS = SimpleNamespace(min=np.minimum, max=np.maximum, range_constexpr=range, Constexpr=object)


class _Select(ast.NodeTransformer):
    """`a if c else b` for all lanes: both values, and a choice for each lane."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.Call:
        self.generic_visit(node)
        return ast.Call(ast.Name("select", ast.Load()), [node.test, node.body, node.orelse], [])


def functions(text: str, *, lanes: bool = True) -> dict[str, Any]:
    """The constants and functions of a module before its kernel; `lanes` for code that runs on all threads at once."""
    tree = ast.parse(text[: text.index("@cute.kernel")])
    tree.body = [n for n in tree.body if not isinstance(n, ast.Import | ast.ImportFrom)]
    if lanes:
        tree = ast.fix_missing_locations(_Select().visit(tree))
    scope: dict[str, Any] = {
        "cute": CUTE,
        "cutlass": CUTLASS,
        "operator": operator,
        "Float32": Float32,
        "Int32": int,
        "select": lambda c, a, b: np.where(c, np.float32(a), np.float32(b)),
    }
    for name in ("Float16", "BFloat16"):
        setattr(CUTLASS, name, np.float32)
    with np.errstate(all="ignore"):
        exec(compile(tree, "module", "exec"), scope)
    return scope
