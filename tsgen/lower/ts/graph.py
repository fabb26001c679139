"""The dependency graph that TS wants: over the resources that its tasks have, each edge backed by a task."""

from __future__ import annotations

from dataclasses import dataclass

from tsgen.lower.context import Builder
from tsgen.lower.ts.program import base
from tsgen.model.kernel import Kernel
from tsgen.model.ops import accesses


@dataclass
class TaskUse:
    """Which resources a TS task works on, on which sides."""

    uses: dict[str, set[str]]
    order: list[str]  # the resources of its works, and "pdl_wait", step by step

    def src(self) -> list[str]:
        return [r for r, sides in self.uses.items() if "consumer" in sides]

    def waits_before(self, resource: str) -> bool:
        """Whether it works on a resource only after its wait for the kernel before."""
        if resource not in self.order:
            return True
        return "pdl_wait" in self.order[: self.order.index(resource)]

    def dst(self) -> list[str]:
        return [r for r, sides in self.uses.items() if "producer" in sides]


def dependencies(b: Builder, uses: list[TaskUse], barriers: set[str]) -> dict[str, list[str]]:
    """Upstream resources of each resource: the spec's edges, over what TS does not see, where a task backs them."""
    kernel = b.kernel
    present = {r for u in uses for r in u.uses}
    out: dict[str, list[str]] = {r: [] for u in uses for r in u.uses}
    for d in out:
        for u in _upstream(kernel, d, present):
            if u in present and _backed(kernel, u, d, uses, barriers) and u not in out[d]:
                out[d].append(u)
    for d in [r for r in out if base(r) in kernel.resources and kernel.resources[base(r)].kind == "rmem"]:
        for u in [x for r in _read_by(kernel, d) for x in _present(r, d, present)]:
            if u in present and _backed(kernel, u, d, uses, barriers) and u not in out[d]:
                out[d].append(u)
    return out


def _upstream(kernel: Kernel, d: str, present: set[str], seen: frozenset[str] = frozenset()) -> list[str]:
    """The nearest resources upstream that TS sees."""
    out: list[str] = []
    for e in kernel.graph:
        if e.downstream != base(d) or e.upstream in seen:
            continue
        r = kernel.resources.get(e.upstream)
        found = _present("pdl_wait" if r is not None and r.kind == "pdl" else e.upstream, d, present)
        out += found or _upstream(kernel, e.upstream, present, seen | {base(d)})
    return out


def _present(name: str, d: str, present: set[str]) -> list[str]:
    """The resources of TS that a resource is: of its instances the one with the index of `d`, if `d` has one."""
    index = d[len(base(d)) :]
    if index and f"{name}{index}" in present:
        return [f"{name}{index}"]
    return sorted(x for x in present if base(x) == name)


def _backed(kernel: Kernel, u: str, d: str, uses: list[TaskUse], barriers: set[str]) -> bool:
    if u == "pdl_wait":  # TS sees a wait in the same task alone, and wants it before the first work
        return any(d in t.uses and u in t.uses for t in uses) and all(
            t.waits_before(d) for t in uses if d in t.uses and ("producer" in t.uses[d] or _plain(kernel, d))
        )
    if u == d:
        return any("producer" in t.uses.get(d, ()) for t in uses) and any("consumer" in t.uses.get(d, ()) for t in uses)
    if u in barriers or d in barriers or _edge(kernel, u, u) or _edge(kernel, d, d):
        return any(u in t.uses and d in t.uses for t in uses)
    for t in uses:
        if "consumer" in t.uses.get(u, ()) and "producer" in t.uses.get(d, ()):
            return True
    for t in uses:  # written and read by one task: it is a source of that task, too
        if u in t.uses and _plain(kernel, u) and "producer" in t.uses.get(d, ()):
            t.uses[u].add("consumer")
            return True
    return False


def _plain(kernel: Kernel, r: str) -> bool:
    return base(r) not in kernel.resources or kernel.resources[base(r)].pipeline is None


def _edge(kernel: Kernel, u: str, d: str) -> bool:
    return any((e.upstream, e.downstream) == (base(u), base(d)) for e in kernel.graph)


def _read_by(kernel: Kernel, resource: str) -> list[str]:
    """The resources that the works of a resource read, in the order of its works."""
    out: dict[str, None] = {}
    for w in kernel.resources[base(resource)].works.values():
        for a in accesses(w):
            if a.mode == "read" and a.ref.resource not in (None, resource):
                out[str(a.ref.resource)] = None
    return list(out)
