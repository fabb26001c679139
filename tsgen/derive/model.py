"""What is derived from a kernel (LANGUAGE.md section 9): the numbers a spec leaves out. Filled by `derive()`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from tsgen.diagnostics import Span
from tsgen.frozen import frozen

Signal = Literal["thread", "warp", "arm", "umma"]


@frozen
class Arrivals:
    """Barrier counts of one pipelined resource: `full` and `empty` are mbarrier arrival counts of one phase.

    `why_full` and `why_empty` are the arithmetic in words, for messages: "8 warps x 2 CTAs". `full_by` and `empty_by`
    say who arrives: every thread, one elected lane of each warp, the lane that arms the bytes, or an MMA's commit.
    """

    full: int
    empty: int
    why_full: str
    why_empty: str
    full_by: Signal = "thread"
    empty_by: Signal = "thread"


@frozen
class SmemBlock:
    """One allocation in shared memory: `name` is `resource.field`, or `resource` for its mbarriers. Bytes."""

    name: str
    offset: int
    size: int  # all stages
    align: int
    stages: int
    is_barrier: bool


@frozen
class TmemBlock:
    """One allocation in tensor memory: `name` is `resource.field`. Columns of 32 bits."""

    name: str
    offset: int
    columns: int  # all stages
    stages: int


@frozen
class NamedBarrier:
    """A named barrier of the CTA: id 1..15 and participating threads of one phase."""

    id: int
    threads: int


class At(NamedTuple):
    """A step: its text and its place."""

    text: str
    span: Span


class Clash(NamedTuple):
    """Two steps by which lanes of a warp touch the same elements of a field, without a place in between to meet."""

    step: At
    other: At
    field: str


@frozen
class Lanes:
    """What orders the lanes of a warp: steps and blocks (by task and place) before which they meet, and the field on
    account of which; and the steps that no meeting can order."""

    meetings: Mapping[tuple[str, Span], str]
    clashes: tuple[Clash, ...] = ()


@frozen
class Derived:
    arrivals: Mapping[str, Arrivals]  # by pipelined resource
    tx_bytes: Mapping[str, int]  # of one stage, by pipelined resource that counts bytes; 0 for others
    swizzles: Mapping[tuple[str, str], int]  # (resource, field) -> 0, 32, 64, 128 bytes
    smem: tuple[SmemBlock, ...]
    smem_bytes: int
    barriers: Mapping[tuple[str, int], NamedBarrier]  # (resource, instance)
    block_warps: int  # padding included
    padding: Mapping[str, tuple[int, ...]]  # task -> padding warps that execute its setmaxnreg
    launch_registers: int  # per thread, before setmaxnreg
    src: Mapping[str, tuple[str, ...]]  # task -> resources it consumes
    dst: Mapping[str, tuple[str, ...]]
    peers: Mapping[str, int]  # by pipelined resource: CTAs a release arrives at (multicast), 1 = own only
    lanes: Lanes
    pairs: frozenset[str] = frozenset()  # resources that MMAs of two CTAs write or read
    tmem: tuple[TmemBlock, ...] = ()
    tmem_columns: int = 0  # allocated: a power of two from 32
