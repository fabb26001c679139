"""Time: a discrete-event model with a cost for each step and each engine's operation.

The numbers are round figures of the architectures: peak rates from NVIDIA's data sheets divided by multiprocessors and
clock, latencies as public microbenchmarks give them. They show where a pipeline stalls and which engine is the limit;
they do not replace `tsgen bench`.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from tsgen.frozen import frozen
from tsgen.model.expr import Call, Const, Expr, Name, Ref, walk
from tsgen.simulate.scheduler import Actor, Operation, Scheduler

if TYPE_CHECKING:
    from tsgen.simulate.trace import Recorder
    from tsgen.simulate.warp import Warp


@frozen
class Costs:
    """Cycles, bytes for each cycle and multiprocessor, and operations for each cycle and multiprocessor."""

    step: float = 8  # a step's own instructions: an elected lane, a barrier's address, an arrival
    wake: float = 24  # from a barrier's completion to the waiting warp's next instruction
    remote: float = 200  # an arrival or a store into another CTA's shared memory
    global_latency: float = 700  # of a first access; later ones of a pipeline overlap
    global_bytes: float = 64  # from L2; HBM gives a third of that where all multiprocessors read at once
    shared_latency: float = 30
    shared_bytes: float = 128
    tensor_flops: float = 4096  # of 16-bit operands
    tensor_latency: float = 60
    tmem_bytes: float = 512
    clc: float = 600


COSTS: dict[str, Costs] = {
    "sm_90a": Costs(),
    "sm_100a": Costs(tensor_flops=8192),
    "sm_103a": Costs(tensor_flops=8192),
    "sm_120a": Costs(tensor_flops=2048),
}


SPECIAL = {"exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh"}  # 16 lanes for each cycle and multiprocessor
LONG = {"erf", "gelu", "gelu_tanh", "silu", "sigmoid", "activation"}  # a handful of instructions and a special one


def issue_slots(e: Expr) -> int:
    """Cycles in which one warp issues an expression for 32 elements."""
    slots = 0
    for part in walk(e):
        if isinstance(part, Call):
            slots += 8 if part.function in SPECIAL else 16 if part.function in LONG else 1
        elif not isinstance(part, Const | Name | Ref):
            slots += 1
    return slots


class Clock(Scheduler):
    """Everything moves as early as it can. An engine of a multiprocessor serves one operation at a time."""

    def __init__(self, seed: int, costs: Costs, recorder: Recorder) -> None:
        super().__init__(seed)
        self.policy = "in time"
        self.costs = costs
        self.recorder: Recorder = recorder
        self.heap: list[tuple[float, int, Actor]] = []
        self.count = 0
        self.free: dict[tuple[str, int, int], float] = {}
        self.last: dict[int, float] = {}  # by in-order queue: when its last operation finishes

    def add(self, actor: Actor) -> None:
        self._at(self.now + actor.take_cost(), actor)

    def wake(self, warp: Warp) -> None:
        self._at(self.now + self.costs.wake, warp)

    def _at(self, time: float, actor: Actor) -> None:
        self.count += 1
        heapq.heappush(self.heap, (time, self.count, actor))

    def issue(self, operation: Operation) -> None:
        operation.site.warp.cluster.flying += 1
        self.begin(operation)

    def begin(self, operation: Operation) -> None:
        warp = operation.site.warp
        engine, busy, latency = self._service(operation)
        lane = warp.warp % 4 if operation.engine == "WGMMA" else 0  # each quarter has a tensor core of its own
        key = (engine, warp.cta, lane)
        start = max(self.now, self.free.get(key, 0.0))
        self.free[key] = start + busy
        finish = start + busy + latency
        if operation.queue is not None:
            finish = max(finish, self.last.get(id(operation.queue), 0.0))
            self.last[id(operation.queue)] = finish
            operation.queue = None  # its order is in the times
        if busy or latency:
            self.recorder.engine(operation, engine, lane, start, finish, busy)
        self._at(finish, operation)

    def _service(self, operation: Operation) -> tuple[str, float, float]:
        """The engine, how long it is busy, and how much later the operation is complete."""
        c, size = self.costs, operation.size
        match operation.engine:
            case "WGMMA":
                return "tensor cores", size / (c.tensor_flops / 4) * operation.width, c.tensor_latency
            case "tcgen05":
                return "tensor cores", size / c.tensor_flops * operation.width, c.tensor_latency
            case "tcgen05.cp":
                return "tensor cores", size / c.shared_bytes, c.shared_latency
            case "tcgen05.ld" | "tcgen05.st":
                return "tensor memory", size / c.tmem_bytes, c.shared_latency
            case "TMA load":
                return "TMA", size / c.global_bytes, c.global_latency
            case "cp.async":
                return "cp.async", size / c.global_bytes, c.global_latency
            case "bulk read":
                return "bulk stores", size / c.global_bytes, c.shared_latency
            case "bulk store":
                return "bulk stores", 0.0, c.global_latency
            case "remote store":
                return "cluster network", size / c.global_bytes, c.remote
            case "CLC":
                return "CLC", 0.0, c.clc
        return operation.engine, 0.0, 0.0

    def run(self, limit: int) -> bool:
        while self.heap:
            self.moves += 1
            if self.moves > limit:
                return False
            self.now, _, actor = heapq.heappop(self.heap)
            actor.move()
        return True

    def work(self, warp: Warp, shared: float, global_: float, instructions: float) -> float:
        """Cycles of a warp's own work: bytes of shared and global memory, and issue slots, which the warps of one
        quarter of the multiprocessor share."""
        c = self.costs
        cycles = c.step + instructions
        if instructions:
            key = ("issue", warp.cta, (warp.instance.first_warp + warp.warp) % 4)
            start = max(self.now, self.free.get(key, 0.0))
            self.free[key] = start + instructions
            cycles += start - self.now
        if shared:
            cycles += c.shared_latency + shared / (c.shared_bytes / 4)  # a quarter of what all four quarters have
        if global_:
            cycles += c.global_latency + global_ / (c.global_bytes / 4)
        return cycles
