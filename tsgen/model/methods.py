"""The registry of step methods (docs/language.md section 7): what stands after the dot of a step that is no work."""

from __future__ import annotations

from typing import Literal

from tsgen.frozen import frozen
from tsgen.model.targets import ALL, SM90, SM100

Receiver = Literal["pipeline", "queue", "barrier", "pdl", "wgmma", "bulk", "cp_async", "tcgen05"]
Side = Literal["producer", "consumer", "neither"]


@frozen
class Method:
    """A step method. `counted`: it takes one number by position, `n`."""

    receiver: Receiver
    name: str
    doc: str
    side: Side = "neither"
    counted: bool = False
    targets: tuple[str, ...] = ALL


_LIST = (
    Method("pipeline", "try_acquire", "tests whether the next stage to fill is empty, without blocking", "producer"),
    Method("pipeline", "acquire", "waits until the next stage to fill is empty", "producer"),
    Method("pipeline", "commit", "says that the stage is full", "producer"),
    Method("pipeline", "try_wait", "tests whether the next stage to read is full, without blocking", "consumer"),
    Method("pipeline", "wait", "waits until the next stage to read is full", "consumer"),
    Method("pipeline", "release", "says that the stage may be filled again", "consumer"),
    Method("pipeline", "skip", "moves the consumer position n stages on without waiting", "consumer", True),
    Method("queue", "try_acquire", "tests whether a slot for a tile is free, without blocking", "producer"),
    Method("queue", "acquire", "waits for a free slot for the next tile", "producer"),
    Method("queue", "fetch_work_tile", "asks for the next tile", "producer"),
    Method("queue", "commit", "says that the next tile is on its way", "producer"),
    Method("queue", "try_wait", "tests whether the next tile is known, without blocking", "consumer"),
    Method("queue", "wait", "waits until the next tile is known", "consumer"),
    Method("queue", "get_and_advance_work_tile", "takes the next tile's coordinates", "consumer"),
    Method("queue", "release", "says that the next tile's slot has been read", "consumer"),
    Method("barrier", "arrive", "arrives without waiting"),
    Method("barrier", "wait", "waits until all have arrived, itself arriving as a waiting thread"),
    Method("barrier", "sync", "arrives and waits until all have arrived"),
    Method("pdl", "wait_griddep", "waits until the kernels before this one are complete", "consumer"),
    Method("pdl", "launch_griddep", "lets the next kernel of the stream start", "producer"),
    Method("wgmma", "wait_group", "all but the last n WGMMA groups are complete", counted=True, targets=SM90),
    Method("bulk", "wait_group", "all but the last n bulk stores are complete", counted=True),
    Method("bulk", "wait_group_read", "all but the last n bulk stores have read their source", counted=True),
    Method("cp_async", "wait_group", "all but the last n cp.async groups are complete", counted=True),
    Method("tcgen05", "wait_ld", "all tensor memory loads of the thread are complete", targets=SM100),
    Method("tcgen05", "wait_st", "all tensor memory stores of the thread are complete", targets=SM100),
)

METHODS: dict[Receiver, dict[str, Method]] = {}
for _m in _LIST:
    METHODS.setdefault(_m.receiver, {})[_m.name] = _m

ENGINES: tuple[Receiver, ...] = ("wgmma", "bulk", "cp_async", "tcgen05")  # targets of completion steps

GROUP_METHODS: dict[str, tuple[str, ...]] = {  # mode -> steps that stand on the group and not on its members
    "merge": ("release",),
    "fork": ("commit",),
    "fused_merge": ("try_wait", "wait", "release"),
}
RESERVED = frozenset(METHODS["pipeline"]) | frozenset(METHODS["queue"])  # no work may be called so

QUEUE_STEPS = ("try_wait", "wait", "get_and_advance_work_tile", "release")  # appended to a tile loop without `wait`
