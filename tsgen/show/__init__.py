"""Views of a kernel. VIEWS is the list of what can be shown and in which formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from tsgen.derive.model import Derived
from tsgen.diagnostics.jsontext import Json, dumps
from tsgen.model.kernel import Kernel


@dataclass(frozen=True, slots=True)
class View:
    """One view: its formats, the first of which is the default, and what prints it in one of them."""

    summary: str
    formats: tuple[str, ...]
    render: Callable[[Kernel, Derived, str], str]


def _schedule(kernel: Kernel, derived: Derived, format: str) -> str:
    from tsgen.show import html, schedule, schedule_text

    table = schedule.schedule_table(kernel, derived)
    if format == "json":
        columns: Json = [{"task": c.task, "warps": c.warps, "loop": c.loop} for c in table.columns]
        return dumps({**asdict(table), "columns": columns})
    return html.schedule_html(table) if format == "html" else schedule_text.schedule_text(table)


def _graph(kernel: Kernel, derived: Derived, format: str) -> str:
    from tsgen.show import graph, html

    g = graph.resource_graph(kernel, derived)
    if format == "json":
        return dumps(asdict(g))
    if format == "html":
        return html.graph_html(g)
    return graph.graph_mermaid(g) if format == "mermaid" else graph.graph_text(g)


def _memory(kernel: Kernel, derived: Derived, format: str) -> str:
    from tsgen.show import memory

    m = memory.memory_map(kernel, derived)
    return dumps(asdict(m)) if format == "json" else memory.memory_text(m)


def _registers(kernel: Kernel, derived: Derived, format: str) -> str:
    from tsgen.show import registers

    b = registers.register_budget(kernel, derived)
    return dumps(asdict(b)) if format == "json" else registers.registers_text(b)


def _timeline(kernel: Kernel, derived: Derived, format: str) -> str:
    from tsgen.show import timeline

    t = timeline.timeline(kernel, derived)
    return dumps(asdict(t)) if format == "json" else timeline.timeline_text(t)


VIEWS: Mapping[str, View] = {
    "schedule": View("the steps of every task, side by side", ("text", "html", "json"), _schedule),
    "graph": View("what flows into what, through which task", ("text", "mermaid", "html", "json"), _graph),
    "memory": View("the map of shared memory", ("text", "json"), _memory),
    "registers": View("the register budget of each warpgroup", ("text", "json"), _registers),
    "timeline": View("a run of the schedule, step by step", ("text", "json"), _timeline),
}
