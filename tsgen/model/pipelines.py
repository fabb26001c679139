"""The registry of pipeline types (docs/language.md section 5): who produces and consumes, what their barriers count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tsgen.model.targets import ALL, SM100

Agent = Literal["tma", "async", "umma", "clc", "peer"]


@dataclass(frozen=True, slots=True)
class PipelineType:
    """A kind of ring: `producer` fills a stage, `consumer` empties it.

    `kinds` are the resources that may have it. `counts_bytes`: the full barrier also waits for transaction bytes.
    `interleaves`: `interleave_stride` other than 1 is possible (ts-semantics 2.6).
    """

    name: str
    doc: str
    producer: Agent
    consumer: Agent
    targets: tuple[str, ...]
    kinds: tuple[str, ...]
    counts_bytes: bool = False
    interleaves: bool = True


PIPELINES: dict[str, PipelineType] = {
    p.name: p
    for p in (
        PipelineType(
            "tma_async",
            "TMA fills, threads (or WGMMA) read; full counts transaction bytes.",
            "tma",
            "async",
            ALL,
            ("smem",),
            True,
        ),
        PipelineType(
            "tma_umma",
            "TMA fills, tcgen05 reads and releases; full counts transaction bytes.",
            "tma",
            "umma",
            SM100,
            ("smem",),
            True,
        ),
        PipelineType(
            "async_async", "Threads (or cp.async) fill, threads read.", "async", "async", ALL, ("smem", "tmem")
        ),
        PipelineType(
            "async_umma", "Threads fill, tcgen05 reads and releases.", "async", "umma", SM100, ("smem", "tmem")
        ),
        PipelineType(
            "umma_async", "tcgen05 fills and commits, threads read.", "umma", "async", SM100, ("smem", "tmem")
        ),
        PipelineType(
            "umma_umma", "tcgen05 fills, tcgen05 reads.", "umma", "umma", SM100, ("smem", "tmem"), interleaves=False
        ),
        PipelineType(
            "clc_fetch_async",
            "The hardware answers a tile query with 16 bytes, all tasks read the answer.",
            "clc",
            "async",
            SM100,
            ("work_queue",),
            True,
            False,
        ),
        PipelineType(
            "peer_async",
            "Every CTA of the cluster stores into the stage; full is one own arrival and the bytes of all.",
            "peer",
            "async",
            ALL,
            ("smem",),
            True,
            False,
        ),
    )
}

SIGNALING = ("all", "cta_leader", "task_warp_leader", "cta_leader|task_warp_leader")
