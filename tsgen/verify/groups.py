"""Pipeline groups: members must agree on what they share (TS33x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, Related, check
from tsgen.model.kernel import Group, Kernel, Pipeline
from tsgen.model.pipelines import PIPELINES

_SHARED = (  # what members must have in common, and in which modes
    ("num_stages", "stages", ("merge", "fork", "fused_merge")),
    ("interleave_stride", "lanes", ("merge", "fork", "fused_merge")),
    ("producer_signaling", "producer signaling", ("fork", "fused_merge")),
    ("consumer_signaling", "consumer signaling", ("merge", "fused_merge")),
    ("consumer_wait_signaling", "wait signaling", ("fused_merge",)),
)

_FIRST = (  # what a group takes from its first member
    "num_bytes_per_warp_per_cta",
    "producer_signaling",
    "consumer_signaling",
    "consumer_wait_signaling",
    "advance_on_wait",
    "advance_on_acquire",
)


def _members(kernel: Kernel, group: Group) -> list[tuple[str, Pipeline]]:
    found = []
    for name in group.members:
        pipeline = kernel.resources[name].pipeline if name in kernel.resources else None
        if pipeline is not None:
            found.append((name, pipeline))
    return found


@check("TS330", "group-members-differ")
def group_members_differ(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Members of a group differ in what they share.

    A group moves through its members' stages together: the numbers of stages, the lanes and the signaling of the shared
    side are the same for all.
    """
    for group in kernel.groups.values():
        members = _members(kernel, group)
        for key, words, modes in _SHARED:
            values = {name: getattr(p, key) for name, p in members}
            if group.mode in modes and len(set(values.values())) > 1:
                listed = ", ".join(f"{v} in `{n}`" for n, v in values.items())
                places = tuple(Related(f"{values[n]} in `{n}`", p.spans.get(key, p.span)) for n, p in members)
                yield Finding(f"members of `{group.name}` have different {words}: {listed}", group.span, None, places)


@check("TS331", "group-mode")
def group_mode(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """The mode of a group does not fit the types of its members.

    `merge` and `fused_merge` are released together, so their members have one kind of consumer; `fork` is committed
    once, so its members have one kind of producer.
    """
    for group in kernel.groups.values():
        kinds = [(name, PIPELINES[p.type]) for name, p in _members(kernel, group)]
        producers, consumers = {k.producer for _, k in kinds}, {k.consumer for _, k in kinds}
        wrong = []
        if len(consumers) > 1 and group.mode in ("merge", "fused_merge"):
            wrong.append("consumers")
        if len(producers) > 1 and group.mode == "fork":
            wrong.append("producers")
        if wrong:
            listed = ", ".join(f"`{n}` is {k.name}" for n, k in kinds)
            yield Finding(
                f"`{group.name}` is a {group.mode} group, but its members' {' and '.join(wrong)} differ in kind:"
                f" {listed}",
                group.span,
            )


@check("TS332", "fork-bytes")
def fork_bytes(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Members of a fork group announce different numbers of bytes.

    A fork shares the full barrier: it has one number of bytes, that of all the works between the acquires and the
    commit.
    """
    for group in kernel.groups.values():
        written = {n: p.num_bytes for n, p in _members(kernel, group) if p.num_bytes is not None}
        if group.mode == "fork" and len(set(written.values())) > 1:
            listed = ", ".join(f"{v} by `{n}`" for n, v in written.items())
            yield Finding(f"members of `{group.name}` share a full barrier, but announce {listed}", group.span)


@check("TS333", "group-pipeline")
def group_pipeline(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """The `pipeline` written for a group is not what follows from its members.

    Stages, lanes and type are the members'. `merge` and `fused_merge` add up producers and bytes and share the
    consumers; `fork` adds up consumers and shares producers and bytes. The signaling is the first member's. Nothing of
    it needs to be written.
    """
    for group in kernel.groups.values():
        members = _members(kernel, group)
        if group.pipeline is None or not members:
            continue
        for key, expected in _merged(group, members, derived).items():
            written = getattr(group.pipeline, key)
            if key in group.pipeline.spans and (written or None) != (expected or None):
                yield Finding(
                    f"`{key}` of `{group.name}` is {_words(written)}, its members make it {_words(expected)}",
                    group.pipeline.spans[key],
                    "leave it out",
                    tuple(Related(f"member `{n}`", p.spans.get(key, p.span)) for n, p in members),
                )


def _merged(group: Group, members: list[tuple[str, Pipeline]], derived: Derived) -> dict[str, object]:
    """What follows from the members for each key of the group's pipeline (ts-semantics 2.8)."""
    first = members[0][1]
    producers = [derived.arrivals[n].full for n, _ in members]
    consumers = [derived.arrivals[n].empty for n, _ in members]
    nbytes = [derived.tx_bytes.get(n, 0) for n, _ in members]
    fork = group.mode == "fork"
    kinds = [PIPELINES[p.type] for _, p in members]
    producer = kinds[0].producer if len({k.producer for k in kinds}) == 1 else "async"
    consumer = kinds[0].consumer if len({k.consumer for k in kinds}) == 1 else "async"
    return {
        "type": next(k.name for k in PIPELINES.values() if (k.producer, k.consumer) == (producer, consumer)),
        "producer_group": max(producers) if fork else sum(producers),
        "consumer_group": sum(consumers) if fork else max(consumers),
        "num_bytes": max(nbytes) if fork else sum(nbytes),
        **{key: getattr(first, key) for key in ("num_stages", "interleave_stride", *_FIRST)},
    }


def _words(value: object) -> str:
    if not value:
        return "not written"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "true" if value is True else str(value)


CAUSES = (group_members_differ, group_mode, fork_bytes, group_pipeline)
