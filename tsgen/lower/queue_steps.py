"""Steps on a queue whose tiles the hardware hands out (CLC): the scheduler asks, every task takes the answer.

A query is asynchronous: it writes 16 bytes to each CTA of the cluster, which the stage's full barrier counts.
"""

from __future__ import annotations

from tsgen.lower import pipelines
from tsgen.lower.context import Builder, TaskState
from tsgen.lower.positions import position
from tsgen.lower.program import Statement, assign
from tsgen.lower.queue import cluster_size, clustered, tile_var
from tsgen.lower.rings import ring
from tsgen.model.kernel import Resource
from tsgen.model.steps import CallStep


def queue_step(s: TaskState, c: CallStep) -> list[Statement]:
    """The statements of a step on the queue; none where the loop over tiles is the queue."""
    b = s.builder
    queue = b.kernel.resources[c.target]
    if queue.pipeline is None:
        return []
    match c.method:
        case "fetch_work_tile":
            state = position(s, c.target, "acquire")
            values = {"pipeline": ring(b, c.target).pipeline, "state": state, "response": response(b, queue)}
            return [Statement("ops/fetch_work_tile", values, s.note(c))]
        case "get_and_advance_work_tile":
            next_tile(b)
            state = position(s, c.target, "wait")
            return [assign(tile_var(b), f"next_tile({response(b, queue)} + {state}.index)", s.note(c))]
        case "try_wait":
            return []  # right before its wait, as it stands in tile loops, a try does nothing
    return pipelines.step(s, c)


def next_tile(b: Builder) -> None:
    """Adds the function that reads an answer to the module."""
    cluster = cluster_size(b) if clustered(b) else None
    function = {"cluster": f"({cluster})" if cluster and " " in cluster else cluster}
    b.functions.setdefault("next_tile", Statement("functions/next_tile", function))


def response(b: Builder, queue: Resource) -> str:
    """The array in shared memory that the answers are written to."""
    key = f"response:{queue.name}"
    if key not in b.scalars:
        b.scalars[key] = b.names.new(f"{queue.name}_response")
    return b.scalars[key]
