"""The graph against the steps: it is the reviewer's summary, so it must say what happens (TS27x)."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.derive.model import Derived
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Finding, Related, Span, check
from tsgen.model.kernel import Kernel
from tsgen.model.steps import calls
from tsgen.verify.flows import Flow, flows
from tsgen.verify.mentions import mentioned
from tsgen.verify.windows import same, tensor_accesses


@check("TS270", "edge-without-task")
def edge_without_task(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """The graph has an edge that no task makes true.

    `d: [u]` says that some task reads u and writes d. A task also reads the tensors that its bounds, conditions and
    windows are made from, be it through a `let`. `x: [x]` says that x is produced and consumed in place, so it needs a
    task for each side. Remove the edge, or add the steps.
    """
    read = {t.name: {*derived.src[t.name], *mentioned(kernel, t)} for t in kernel.tasks}
    for edge in kernel.graph:
        u, d = edge.upstream, edge.downstream
        if u in kernel.resources and kernel.resources[u].kind == "pdl":
            if not any(d in (*read[t.name], *derived.dst[t.name]) for t in kernel.tasks):
                yield Finding(f"no task touches `{d}`", edge.span)
            continue
        if u == d:
            sides = [
                any(u in derived.src[t.name] for t in kernel.tasks),
                any(u in derived.dst[t.name] for t in kernel.tasks),
            ]
            if not all(sides):
                yield Finding(
                    f"`{u}: [{u}]`, but no task {'consumes' if not sides[0] else 'produces'} `{u}`", edge.span
                )
            elif u in kernel.tensors or kernel.resources[u].pipeline is None:
                place = kernel.tensors[u].span if u in kernel.tensors else kernel.resources[u].span
                yield Finding(
                    f"`{u}: [{u}]`, but `{u}` has no pipeline: its users cannot take turns",
                    edge.span,
                    "let them take turns on a resource with a pipeline of one stage",
                    (Related(f"`{u}`", place),),
                )
            continue
        if not any(u in read[t.name] and d in _written(uses, derived, t.name) for t in kernel.tasks):
            readers = [t.name for t in kernel.tasks if u in read[t.name]]
            writers = [t.name for t in kernel.tasks if d in _written(uses, derived, t.name)]
            yield Finding(
                f"no task reads `{u}` and writes `{d}` (read by {_list(readers)}; written by {_list(writers)})",
                edge.span,
                None,
                (
                    *_declared(kernel, u),
                    *_declared(kernel, d),
                    *_first(kernel, readers, u),
                    *_first(kernel, writers, d),
                ),
            )


def _declared(kernel: Kernel, name: str) -> tuple[Related, ...]:
    place = kernel.resources.get(name) or kernel.tensors.get(name)
    return () if place is None else (Related(f"`{name}`", place.span),)


def _first(kernel: Kernel, tasks: list[str], name: str) -> tuple[Related, ...]:
    """The first step with which each of some tasks uses a resource or tensor."""
    found: dict[Span, str] = {}
    for task in kernel.tasks:
        if task.name in tasks:
            step = next((s for s in calls(task.schedule.steps) if s.target == name), None)
            if step is not None:
                found.setdefault(step.span, f"`{step.text}` of {task.name}")
    return tuple(Related(text, span) for span, text in found.items())


@check("TS271", "flow-not-in-graph")
def flow_not_in_graph(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """Data flows in the steps where the graph has no path.

    A work reads one resource and writes another, directly or through registers and tokens. Whoever reviews the graph
    must find that flow in it: add the edge.
    """
    below: dict[str, set[str]] = {}
    for edge in kernel.graph:
        below.setdefault(edge.upstream, set()).add(edge.downstream)
    reported: set[tuple[str, str]] = set()
    for flow in flows(kernel, uses):
        key = (flow.source, flow.target)
        if key in reported or _reaches(below, *key):
            continue
        reported.add(key)
        yield _missing(flow)


def _missing(flow: Flow) -> Finding:
    related = (Related(f"`{flow.source}` is read here", flow.read),) if flow.read != flow.span else ()
    return Finding(
        f"`{flow.target}` is made from `{flow.source}` here, but the graph has no path from `{flow.source}` to "
        f"`{flow.target}`",
        flow.span,
        f"add `{flow.source}` to `{flow.target}` in the graph",
        related,
    )


def _reaches(below: dict[str, set[str]], source: str, target: str) -> bool:
    seen, ready = set(), [source]
    while ready:
        for n in below.get(ready.pop(), ()):
            if n == target:
                return True
            if n not in seen:
                seen.add(n)
                ready.append(n)
    return False


@check("TS272", "not-in-any-edge")
def not_in_any_edge(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A resource or tensor that tasks use does not occur in the graph.

    The graph names every tensor and every shared or tensor memory that data flows through; a ring without storage is
    a signal and may be left out. What is made from no other of them, as from constants alone, is an entry with nothing
    in it: `y: []`.
    """
    known = {n for e in kernel.graph for n in (e.upstream, e.downstream)} | kernel.roots.keys()
    for task in kernel.tasks:
        for name in (*derived.src[task.name], *derived.dst[task.name]):
            signal = name in kernel.resources and not kernel.resources[name].fields
            if name not in known and not signal:
                known.add(name)
                span: Span = kernel.resources[name].span if name in kernel.resources else kernel.tensors[name].span
                yield Finding(
                    f"`{name}` is used by `{task.name}`, but does not occur in the graph",
                    kernel.spans.get("graph", kernel.span),
                    None,
                    (Related(f"`{name}`", span),),
                )


@check("TS273", "unused-resource")
def unused_resource(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A resource is declared and no step uses it.

    It would cost memory for nothing. Remove it, or give it an `if:` where it is needed in some variants only.
    """
    used = {n for t in kernel.tasks for n in (*derived.src[t.name], *derived.dst[t.name])}
    used |= {r for (r, _, _) in uses.methods} | {r for r, _ in uses.engines}
    for resource in kernel.resources.values():
        grouped = any(resource.name in g.members for g in kernel.groups.values())
        if resource.kind in ("smem", "tmem") and resource.name not in used and not grouped:
            yield Finding(f"no step uses `{resource.name}`", resource.span, "remove it")


def _written(uses: Uses, derived: Derived, task: str) -> set[str]:
    """What a task produces, or writes in place as its consumer."""
    return {*derived.dst[task], *uses.written.get(task, set())}


@check("TS274", "tensor-passed-on", "warning")
def tensor_passed_on(kernel: Kernel, derived: Derived, uses: Uses) -> Iterator[Finding]:
    """A tensor is written by one task and read by another task of the same kernel, and not proven to be in order.

    It is proven where threads read the very window that threads of another task have written, in the same tile and
    iteration. Other tiles run in any order and on other CTAs; copies by TMA and threads do not see each other's data
    without a fence. Let the data pass through shared memory, or through a second kernel of the chain.
    """
    for tensor in kernel.tensors:
        writers = [t.name for t in kernel.tasks if tensor in uses.written.get(t.name, ())]
        readers = [t.name for t in kernel.tasks if tensor in derived.src[t.name]]
        for reader in readers:
            other = next((w for w in writers if w != reader), None)
            if other is not None and not _handed_over(kernel, uses, tensor, reader):
                yield Finding(
                    f"`{tensor}` is written by `{other}` and read by `{reader}`: nothing proves that they are ordered",
                    kernel.tensors[tensor].span,
                )
                break


def _handed_over(kernel: Kernel, uses: Uses, tensor: str, reader: str) -> bool:
    """Whether all that a task reads of a tensor is what others write in the same tile and iteration, by threads: then
    the run of the machine decides whether it is ordered."""
    read, written = [], []
    for (task, _), program in uses.programs.items():
        for work, access, found in tensor_accesses(kernel, uses, program):
            plain = access.engine == "generic" and work.op is not None and "where" not in work.args
            if access.ref.name == tensor and access.mode == "write" and task != reader and plain:
                written.append(found)
            elif access.ref.name == tensor and access.mode == "read" and task == reader:
                read.append(found if plain else None)
    return all(r is not None and any(w is not None and same(r, w, kernel.env) for w in written) for r in read)


def _list(names: list[str]) -> str:
    return ", ".join(f"`{n}`" for n in names) or "none"


CHECKS = (edge_without_task, flow_not_in_graph, not_in_any_edge, unused_resource, tensor_passed_on)
