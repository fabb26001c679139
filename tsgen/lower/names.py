"""Python identifiers for the names of a spec, without collisions."""

from __future__ import annotations

import keyword
from collections.abc import Iterable

_TEMPLATE_NAMES = (
    "abs bool ceil_div cute cutlass const_expr cpasync dict enumerate float fitting getattr hasattr int "
    "isinstance len list lru_cache math max min operator pipeline pow print range ranked self set slice str "
    "sum tuple type warp warpgroup zip Boolean CUstream Float32 Int16 Int32 Int64 META Optional "
    "OperandMajorMode SmemAllocator ValueError TypeError as_tensor by_row col_of columns compile compiled "
    "across_lanes blockscaled_layout cluster cluster_tiles clusters combine cta_rank erf fake fold gelu "
    "gelu_tanh make_fake_stream make_fake_tensor mma mma_operand "
    "need next_tile nth pack quad relu row_of rounds serpentine_rounds serpentine_tile sigmoid silu smem smem_layouts "
    "sms stream tcgen05 tid tile tile_coord tmem tmem_free tmem_slot torch vector warp_idx left_out part r c "
    "pool store_pairs held self stage_info Held Resource full_barrier "
)
RESERVED = frozenset(_TEMPLATE_NAMES.split())


class Namer:
    """Gives each thing one identifier; a wish that is taken or reserved gets a trailing underscore or a number."""

    def __init__(self, taken: Iterable[str] = (), reserved: frozenset[str] = RESERVED) -> None:
        self._taken: set[str] = {*reserved, *taken}

    def new(self, wish: str) -> str:
        name = wish
        if keyword.iskeyword(name) or name in self._taken:
            name = wish + "_"
        n = 2
        while name in self._taken:
            name, n = f"{wish}{n}", n + 1
        self._taken.add(name)
        return name

    @property
    def given(self) -> frozenset[str]:
        """The names given so far, in this scope and those around it."""
        return frozenset(self._taken - RESERVED)

    def child(self) -> Namer:
        """A namer for a nested scope: everything taken so far stays taken."""
        inner = Namer()
        inner._taken = set(self._taken)
        return inner
