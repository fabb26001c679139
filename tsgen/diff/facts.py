"""A kernel as a list of facts that can be compared: what it means, without how it is written.

Expressions are folded with the params' values, so that a renamed param or a reordered key is no change; comments,
`doc` texts and places are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tsgen.derive.model import Derived
from tsgen.model.algebra import fold
from tsgen.model.expr import Expr, Placed, text
from tsgen.model.kernel import ArgValue, Assign, CopyArg, Kernel, Resource, Tensor, Work
from tsgen.show.registers import register_budget

Section = Literal[
    "kernel",
    "params",
    "variants",
    "tensors",
    "launch",
    "resources",
    "pipelines",
    "works",
    "groups",
    "graph",
    "tasks",
    "memory",
    "registers",
    "reference",
]


@dataclass(frozen=True, slots=True)
class Fact:
    """One property of one thing: `pipelines`, `ab`, `stages`, `4`. `line` is where the spec says it, 0 if derived."""

    section: Section
    subject: str
    attribute: str
    value: str
    line: int = 0


def facts(kernel: Kernel, derived: Derived) -> Iterator[Fact]:
    """All facts of a kernel but its steps."""
    yield from _Facts(kernel, derived).all()


class _Facts:
    def __init__(self, kernel: Kernel, derived: Derived) -> None:
        self.kernel = kernel
        self.derived = derived

    def all(self) -> Iterator[Fact]:
        k = self.kernel
        yield Fact("kernel", k.name, "targets", ", ".join(k.targets), k.span.line)
        yield from self.params()
        for t in k.tensors.values():
            yield from self.tensor(t)
        yield from self.launch()
        for r in k.resources.values():
            yield from self.resource(r)
            yield from self.pipeline(r)
        for works in (*(r.works for r in k.resources.values()), *(t.works for t in k.tensors.values())):
            for w in works.values():
                yield Fact("works", f"{w.owner}.{w.name}", "is", self.work(w), w.span.line)
        for g in k.groups.values():
            yield Fact("groups", g.name, "is", f"{g.mode} of {', '.join(g.members)}", g.span.line)
        for e in k.graph:
            yield Fact("graph", f"{e.upstream} → {e.downstream}", "flows", "yes", e.span.line)
        for name, span in k.roots.items():
            yield Fact("graph", name, "flows", "from nothing", span.line)
        yield from self.tasks()
        yield from self.totals()
        yield from self.reference()

    def params(self) -> Iterator[Fact]:
        for p in self.kernel.params.values():
            yield Fact("params", p.name, "value", str(p.value), p.span.line)
            if p.choices:
                yield Fact("params", p.name, "choices", ", ".join(map(str, p.choices)), p.span.line)
        for name, values in self.kernel.variants.items():
            yield Fact("variants", name, "sets", ", ".join(f"{p} = {v}" for p, v in values.items()) or "nothing")

    def tensor(self, t: Tensor) -> Iterator[Fact]:
        line = t.span.line
        shape = ", ".join(self.text(e) for e in t.shape)
        yield Fact("tensors", t.name, "is", f"{self.text(t.dtype)} [{shape}]{' output' if t.output else ''}", line)
        yield Fact("tensors", t.name, "alignment", f"{t.align} bytes", line)
        yield Fact("tensors", t.name, "contiguous dimension", str(t.major), line)
        yield Fact("tensors", t.name, "present", _yes(t.present), line)
        if t.default is not None:
            yield Fact("tensors", t.name, "default", self.text(t.default.expr), line)

    def launch(self) -> Iterator[Fact]:
        launch = self.kernel.launch
        for a in launch.axes:
            yield Fact("launch", f"axis {a.name}", "tiles", self.text(a.extent), a.span.line)
            yield Fact("launch", f"axis {a.name}", "cluster", str(a.cluster), a.span.line)
        for let in launch.lets:
            yield Fact("launch", f"let {let.name}", "is", self.text(let.value), let.span.line)
        for p in launch.assume:
            yield Fact("launch", f"assume {self.text(p.expr)}", "assumed", "yes", p.span.line)
        line = launch.span.line
        yield Fact("launch", "optional dims", "are", ", ".join(launch.optional) or "none", line)
        yield Fact("launch", "programmatic launch", "on", _yes(launch.pdl), line)
        yield Fact("launch", "blocks per multiprocessor", "at least", str(launch.min_blocks), line)

    def resource(self, r: Resource) -> Iterator[Fact]:
        line = r.span.line
        yield Fact("resources", r.name, "kind", r.kind, line)
        if r.each is not None:
            yield Fact("resources", r.name, "instances", str(r.each.count), line)
        for f in r.fields.values():
            swizzle = self.derived.swizzles.get((r.name, f.name), 0)
            content = (
                f"view of {text(f.view)}"
                if f.view is not None
                else (
                    f"{self.text(f.dtype)} [{', '.join(map(str, f.shape))}]"
                    + (f", swizzle {swizzle}" if swizzle else "")
                )
            )
            yield Fact("resources", r.name, f"field {f.name}", content, f.span.line)
        if r.queue is not None:
            order = ", ".join(("-" if a.reverse else "") + a.axis for a in r.queue.raster)
            serpentine = ", serpentine" if r.queue.serpentine else ""
            words = f"{r.queue.scheduler}, raster {order}, swizzle {r.queue.swizzle}{serpentine}"
            yield Fact("resources", r.name, "order", words, line)
        threads = [b.threads for (name, _), b in self.derived.barriers.items() if name == r.name]
        if threads:
            yield Fact("resources", r.name, "threads", ", ".join(map(str, threads)), line)

    def pipeline(self, r: Resource) -> Iterator[Fact]:
        p, arrivals = r.pipeline, self.derived.arrivals.get(r.name)
        if p is None:
            return
        line = p.span.line
        yield Fact("pipelines", r.name, "type", p.type, line)
        yield Fact("pipelines", r.name, "stages", str(p.num_stages), line)
        yield Fact("pipelines", r.name, "bytes per stage", str(self.derived.tx_bytes.get(r.name, 0)), line)
        if arrivals is not None:
            yield Fact("pipelines", r.name, "full arrivals", f"{arrivals.full} ({arrivals.why_full})", line)
            yield Fact("pipelines", r.name, "empty arrivals", f"{arrivals.empty} ({arrivals.why_empty})", line)
        written = [
            ("producer signaling", p.producer_signaling),
            ("consumer signaling", p.consumer_signaling),
            ("consumer wait signaling", p.consumer_wait_signaling),
        ]
        yield from (Fact("pipelines", r.name, name, value, line) for name, value in written if value is not None)
        if p.interleave_stride != (1, 1, 1, 1):
            yield Fact("pipelines", r.name, "interleave stride", ", ".join(map(str, p.interleave_stride)), line)

    def work(self, w: Work) -> str:
        """A work in one line: its signature, its op with arguments or its code, and what it touches."""
        code = w.op or (f"call {w.call}" if w.call else f"body {w.body!r}" if w.body else "no code")
        parts = [f"{key}={self.argument(v)}" for key, v in w.args.items()]
        parts += [
            f"{key} {name}={self.text(p.expr)}"
            for key, refs in (("reads", w.reads), ("writes", w.writes))
            for name, p in refs.items()
        ]
        parts += [f"async {w.engine}"] if w.engine else []
        parts += [f"bytes {self.text(w.nbytes.expr)}"] if w.nbytes else []
        signature = ", ".join([*w.takes, *(f"static {s}" for s in w.static)])
        results = f" → {', '.join(w.returns)}" if w.returns else ""
        kind = ("auxiliary " if w.auxiliary else "") + w.role + ("" if w.scope == "task" else f" of each {w.scope}")
        return f"{kind} ({signature}){results}: {code}({'; '.join(parts)})"

    def argument(self, v: ArgValue) -> str:
        if isinstance(v, Placed):
            return self.text(v.expr)
        if isinstance(v, str | int):
            return str(v)
        return ", ".join(self.part(part) for part in v)

    def part(self, v: CopyArg | Assign) -> str:
        if isinstance(v, Assign):
            return f"{v.name} = {self.text(v.value)}"
        multicast = f" multicast {v.multicast}" if v.multicast else ""
        return f"{self.text(v.source)} → {self.text(v.to)}{multicast}"

    def tasks(self) -> Iterator[Fact]:
        for t in self.kernel.tasks:
            line = t.span.line
            warps = ", ".join(f"{i.first_warp}-{i.first_warp + i.num_warps - 1}" for i in t.instances)
            yield Fact("tasks", t.name, "warps", warps, line)
            registers = dict.fromkeys(str(i.num_registers or "as launched") for i in t.instances)
            yield Fact("tasks", t.name, "registers", ", ".join(registers), line)
            if t.cta is not None:
                yield Fact("tasks", t.name, "CTA", str(t.cta), line)

    def totals(self) -> Iterator[Fact]:
        memory = self.kernel.memory
        yield Fact("memory", "shared memory", "bytes", str(self.derived.smem_bytes))
        yield Fact("memory", "shared memory", "capacity", str(memory.smem_capacity))
        for a in memory.aliases:
            phases = (" + ".join(m.resource + (f".{m.field}" if m.field else "") for m in p) for p in a.phases)
            yield Fact("memory", f"alias {a.name}", "phases", " | ".join(phases), a.span.line)
        budget = register_budget(self.kernel, self.derived)
        yield Fact("registers", "block", "threads", str(budget.block_threads))
        yield Fact("registers", "block", "registers at launch", f"{budget.launch_registers} each")
        yield Fact("registers", "block", "sum over warpgroups", str(budget.total))

    def reference(self) -> Iterator[Fact]:
        r = self.kernel.reference
        if r is None:
            return
        for name, p in r.values.items():
            yield Fact("reference", name, "is", self.text(p.expr), p.span.line)
        for name, p in r.inputs.items():
            yield Fact("reference", f"input {name}", "is", self.text(p.expr), p.span.line)
        shapes = "; ".join(", ".join(f"{d}={n}" for d, n in s.items()) for s in r.shapes)
        yield Fact("reference", "shapes", "are", shapes, r.span.line)
        yield Fact("reference", "tolerance", "is", f"rtol {r.rtol}, atol {r.atol}", r.span.line)

    def text(self, e: Expr) -> str:
        return text(fold(e, self.kernel.env))


def _yes(value: bool) -> str:
    return "yes" if value else "no"
