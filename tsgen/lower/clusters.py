"""CTAs of a cluster that write each other's shared memory: along which axis, how many, and their ranks."""

from __future__ import annotations

from tsgen.lower.context import Builder
from tsgen.lower.queue import cluster_ranks, cluster_text


def peers_axis(b: Builder, resource: str) -> str | None:
    """The cluster axis along which a ring's stages are written by all CTAs."""
    for w in b.kernel.resources[resource].works.values():
        if w.op == "peer_store":
            return str(w.args["peers"])
    return None


def peer_count(b: Builder, axis: str) -> str:
    """CTAs along a cluster axis, as Python."""
    return cluster_text(b, next(a for a in b.kernel.launch.axes if a.name == axis))


def peer_rank(b: Builder, axis: str, lane: str) -> str:
    """Rank in the cluster of the CTA with this number along an axis."""
    ranks = cluster_ranks(b)
    if len(ranks) <= 1:
        return lane
    stride = 1
    for a in b.kernel.launch.axes:
        if a.name == axis:
            break
        stride *= a.cluster
    return f"cta_rank + ({lane} - cta_{axis}) * {stride}"
