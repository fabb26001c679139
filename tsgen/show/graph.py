"""The resource graph: what flows into what, and which task carries it; as text and as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tsgen.derive.model import Derived
from tsgen.diagnostics.formats.full import counted
from tsgen.model.algebra import fold
from tsgen.model.expr import text
from tsgen.model.kernel import Kernel

GMEM = "gmem"


@dataclass(frozen=True, slots=True)
class Node:
    """A tensor (kind `gmem`) or a resource of the graph."""

    name: str
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Flow:
    """An edge, carried by the tasks that consume the upstream and produce the downstream resource."""

    upstream: str
    downstream: str
    tasks: tuple[str, ...]
    line: int


@dataclass(frozen=True, slots=True)
class ResourceGraph:
    kernel: str
    target: str
    variant: str | None
    nodes: tuple[Node, ...]
    flows: tuple[Flow, ...]


def resource_graph(kernel: Kernel, derived: Derived) -> ResourceGraph:
    """The graph as written, each edge with its tasks."""
    flows = tuple(
        Flow(
            e.upstream,
            e.downstream,
            tuple(t.name for t in kernel.tasks if _touches(derived, t.name, e.upstream, e.downstream)),
            e.span.line,
        )
        for e in kernel.graph
    )
    names = dict.fromkeys((*(n for f in flows for n in (f.upstream, f.downstream)), *kernel.roots))
    return ResourceGraph(
        kernel.name, kernel.target, kernel.variant, tuple(_node(kernel, derived, n) for n in names), flows
    )


def _touches(derived: Derived, task: str, upstream: str, downstream: str) -> bool:
    return upstream in derived.src.get(task, ()) and downstream in derived.dst.get(task, ())


def _node(kernel: Kernel, derived: Derived, name: str) -> Node:
    tensor = kernel.tensors.get(name)
    if tensor is not None:
        shape = ", ".join(text(fold(e, kernel.env)) for e in tensor.shape)
        return Node(name, GMEM, f"{text(fold(tensor.dtype, kernel.env))} [{shape}]")
    resource = kernel.resources.get(name)
    if resource is None:
        return Node(name, "group", kernel.groups[name].mode if name in kernel.groups else "")
    detail = "; ".join(_field(kernel, name, f) for f in resource.fields)
    if resource.pipeline is not None:
        p, tx = resource.pipeline, derived.tx_bytes.get(name, 0)
        ring = f"{counted(p.num_stages, 'stage')} {p.type}" + (f", {tx} bytes each" if tx else "")
        detail = f"{ring}; {detail}" if detail else ring
    return Node(name, resource.kind, detail)


def _field(kernel: Kernel, resource: str, name: str) -> str:
    f = kernel.resources[resource].fields[name]
    if f.view is not None:
        return f"{name} = {text(f.view)}"
    return f"{name} {text(fold(f.dtype, kernel.env))} [{', '.join(map(str, f.shape))}]"


def graph_text(g: ResourceGraph) -> str:
    """Nodes with what they hold, then one line for each edge."""
    width = max((len(n.name) for n in g.nodes), default=0)
    kinds = max((len(n.kind) for n in g.nodes), default=0)
    out = [f"{n.name:<{width}}  {n.kind:<{kinds}}  {n.detail}".rstrip() for n in g.nodes]
    out += ["", *(f"{f.upstream:>{width}} {_arrow(f)} {f.downstream}" for f in g.flows)]
    return "\n".join(out).strip("\n") + "\n"


def _arrow(f: Flow) -> str:
    return f"-- {', '.join(f.tasks)} -->" if f.tasks else "-->"


_SHAPES = {GMEM: ("[(", ")]"), "smem": ("[", "]"), "tmem": ("[[", "]]"), "pdl": ("{{", "}}"), "group": ("([", "])")}


def graph_mermaid(g: ResourceGraph) -> str:
    """A flowchart from left to right; tensors are cylinders, edges carry their tasks."""
    return "\n".join(["flowchart LR", *_nodes(g), *_flows(g)]) + "\n"


def _nodes(g: ResourceGraph) -> Iterator[str]:
    for n in g.nodes:
        left, right = _SHAPES.get(n.kind, ("[", "]"))
        label = "<br/>".join([n.name, *n.detail.split("; ")]) if n.detail else n.name
        yield f'    {_id(n.name)}{left}"{_escape(label)}"{right}'


def _flows(g: ResourceGraph) -> Iterator[str]:
    for f in g.flows:
        label = f'|"{_escape(", ".join(f.tasks))}"|' if f.tasks else ""
        yield f"    {_id(f.upstream)} -->{label} {_id(f.downstream)}"


def _id(name: str) -> str:
    """A node id; the prefix keeps names like `end`, which Mermaid reserves, apart."""
    return f"r_{name}"


def _escape(label: str) -> str:
    return (
        label.replace("<br/>", "\0")
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace('"', "&quot;")
        .replace("\0", "<br/>")
    )
