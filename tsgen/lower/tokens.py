"""Values that flow between the works of a task: what a token is in the generated code."""

from __future__ import annotations

from tsgen.frozen import frozen


@frozen
class Spread:
    """How a tile of rows x cols lies on threads: `down` x `across` threads, each with vectors of `vector` elements.

    A thread's part is a register tensor of `shape`: its vector, then the repetitions down and across (rank 1: across).
    Element e of repetition i, j is in row `i * down + index // across` and in column
    `(j * across + index % across) * vector + e`.
    """

    thread: str  # the tiled copy's slice, in the task's prelude
    index: str  # the thread's number among those that share the tile
    rows: int
    cols: int
    rank: int
    down: int
    across: int
    vector: int
    dtype: str  # the widest in memory, as Python
    bits: int  # of a vector of it

    @property
    def reps(self) -> tuple[int, int]:
        return self.rows // self.down, self.cols // (self.across * self.vector)

    def row(self, i: str) -> str:
        """Row of a repetition, as Python."""
        if self.down == 1:
            return i
        row = self.index if self.across == 1 else f"{self.index} // {self.across}"
        return row if i == "0" else f"{i} * {self.down} + {row}"

    def column(self, j: str) -> str:
        """First column of a repetition's vector, as Python."""
        if self.across == 1:
            return j if self.vector == 1 or j == "0" else f"{j} * {self.vector}"
        column = self.index if self.down == 1 else f"{self.index} % {self.across}"
        if j != "0":
            column = f"{j} * {self.across} + {column}"
        if self.vector == 1:
            return column
        return f"({column}) * {self.vector}" if j != "0" else f"{column} * {self.vector}"

    @property
    def shape(self) -> str:
        sizes = (self.vector, *self.reps) if self.rank == 2 else (self.vector, self.reps[1])
        return f"({', '.join(map(str, sizes))})"


@frozen
class ScalarToken:
    """One value in each thread. `word` is its dtype; None for what a body made."""

    name: str
    word: str | None = None


@frozen
class TileToken:
    """A tile in registers: a register tensor over a spread."""

    name: str
    spread: Spread
    dtype: str  # as Python
    word: str


Token = ScalarToken | TileToken
