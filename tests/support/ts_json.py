"""`python -m tests.support.ts_json CASE.json`: prints the tsgen spec (YAML) of an oracle case (`-` reads stdin).

The format of a case is described in tests/oracle/ts_oracle.py. What it leaves open is said as plainly as the language
allows: a memory resource without pipeline and allocation is a tensor; works are roles only; a ring without an
allocation gets a field of its transaction bytes; a bound that is unknown when the kernel is built is one scalar
argument, one that a tile decides is an element of an integer tensor.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Node = Any  # a node of a JSON document
Doc = Mapping[str, Node]

DEFAULT_WORKS: tuple[Doc, ...] = (
    {"name": "read", "side": "consumer"},
    {"name": "write", "side": "producer"},
    {"name": "caux", "side": "consumer", "aux": True},
    {"name": "paux", "side": "producer", "aux": True},
)
SCHEDULERS = {"static": "static_persistent", "clc": "clc_dynamic", "none": "static_persistent"}
PLAIN_BYTES = 128  # of a stage whose size the case does not say
LANES = 128  # of tensor memory
ONE_CTA = (1, 1, 1, 1)  # the layout of a cluster as (V, M, N, K)
ACC_COLUMNS = 32  # of a stage of tensor memory whose size the case does not say
BODIES = ("body", "skippable", "first", "last")
RESERVED = ("TILES", "tile", "i", "lengths", "domain", "runtime", "runtime_start", "runtime_step", "skips", "pdl")


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Every node of a body, blocks before what is in them."""
    for node in nodes:
        yield node
        if isinstance(node, dict):
            for key in BODIES:
                if isinstance(node.get(key), list):
                    yield from walk(node[key])


def call_of(node: Node) -> tuple[str, str] | None:
    """Target and method of a call, None for a block."""
    text = node if isinstance(node, str) else node.get("call")
    return None if text is None else tuple(text.split(".", 1))


def flow(value: Node) -> str:
    """A value in YAML's flow style; what YAML would misread is quoted."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(flow(v) for v in value) + "]"
    if isinstance(value, str) and value.replace("_", "").replace(".", "").isalnum() and not value[0].isdigit():
        return value
    return json.dumps(value)


class Converter:
    """One case on its way to a spec."""

    def __init__(self, case: Doc) -> None:
        self.case = case
        self.resources: dict[str, Doc] = {r["name"]: r for r in case["resources"]}
        self.tasks: Sequence[Doc] = case["tasks"]
        self.groups: Sequence[Doc] = case.get("groups", [])
        self.calls = [(t, c) for t in self.tasks for n in walk(t["body"]) if (c := call_of(n)) is not None]
        self.written = {r for t in self.tasks for r in t.get("dst", [])}
        self.taken = {*self.resources, *(g["name"] for g in self.groups), *RESERVED}
        self.scalars: dict[str, str] = {}  # name -> dtype of a rank-0 tensor
        self.conditions = 0  # that test no token
        self.lists: set[str] = set()  # integer tensors with an element for each tile
        self.fields = {a["name"]: f"{r}.{a['name']}" for r, s in self.resources.items() for a in self.allocations(s)}
        self.schedules = {t["name"]: list(self.steps(t["body"], {})) for t in self.tasks}

    # ---- what a resource becomes -------------------------------------------------------------------------------

    def allocations(self, spec: Doc) -> list[Doc]:
        return [*spec.get("smem", []), *spec.get("tmem", [])]

    def kind(self, name: str) -> str:
        """Which kind of thing a resource of the case is in the spec."""
        spec = self.resources[name]
        kind = spec.get("kind", "memory")
        if kind == "work_queue":
            return "work_queue"
        if kind in ("pdl_wait", "pdl_launch"):
            return "pdl"
        if spec.get("tmem") or (not spec.get("smem") and self.pipeline_type(spec).startswith("umma_")):
            return "tmem"
        return "smem" if spec.get("smem") or spec.get("pipeline") else "tensor"

    def pipeline_type(self, spec: Doc) -> str:
        return spec["pipeline"]["type"] if spec.get("pipeline") else ""

    def pair(self, spec: Doc) -> int:
        """CTAs of the resource's MMA pairs."""
        layout = (spec.get("pipeline") or {}).get("cta_layout")
        return layout[0] if layout else 1

    def name(self, target: str) -> str:
        """The name in the spec: both PDL barriers are one resource."""
        return "pdl" if target in self.resources and self.kind(target) == "pdl" else target

    # ---- works -------------------------------------------------------------------------------------------------

    def works(self, spec: Doc) -> dict[str, dict[str, Node]]:
        used = {method for _, (target, method) in self.calls if target == spec["name"]}
        return {
            w["name"]: self.work(spec, w)
            for w in spec.get("works", DEFAULT_WORKS)
            if "works" in spec or w["name"] in used
        }

    def work(self, spec: Doc, work: Doc) -> dict[str, Node]:
        side = work["side"]
        found: dict[str, Node] = {"role": side}
        if work.get("aux"):
            found["attrs"] = ["auxiliary"]
        for key, names in (("takes", "args"), ("static", "constexpr"), ("returns", "returns")):
            if work.get(names):
                found[key] = list(work[names])
        if f"{side}_uses" in spec:
            found["writes" if side == "producer" else "reads"] = {a: self.fields[a] for a in spec[f"{side}_uses"]}
        pipeline = spec.get("pipeline") or {}
        if side == "producer" and pipeline.get("producer_op") == "async_load":
            found["async"] = "cp_async"
        umma = self.pipeline_type(spec).split("_")[0 if side == "producer" else -1] == "umma"
        if umma and self.pair(spec) > 1:
            found["cta_group"] = self.pair(spec)
        return found

    # ---- storage and pipelines ---------------------------------------------------------------------------------

    def storage(self, name: str) -> dict[str, Node]:
        spec = self.resources[name]
        stages = max(1, spec["pipeline"]["stages"]) if spec.get("pipeline") else 1
        found: dict[str, Node] = {}
        for a in spec.get("smem", []):
            found[a["name"]] = {"dtype": "u8", "shape": [-(-a["bytes"] // stages)]}
            if a.get("align"):
                found[a["name"]]["align"] = a["align"]
        for a in spec.get("tmem", []):
            found[a["name"]] = {"dtype": "f32", "shape": [LANES, -(-a["columns"] // stages)]}
        if found:
            return found
        if self.kind(name) == "tmem":
            return {"data": {"dtype": "f32", "shape": [LANES, ACC_COLUMNS]}}
        size = (spec.get("pipeline") or {}).get("bytes") or PLAIN_BYTES
        return {"data": {"dtype": "u8", "shape": [size]}}

    def pipeline(self, p: Doc) -> dict[str, Node]:
        found: dict[str, Node] = {"type": p["type"], "num_stages": p["stages"]}
        if p.get("bytes"):
            found["num_bytes"] = p["bytes"]
        if p.get("bytes_per_warp_per_cta"):
            found["num_bytes_per_warp_per_cta"] = p["bytes_per_warp_per_cta"]
        found["producer_group"] = p.get("producer_threads", 1)
        found["consumer_group"] = p.get("consumer_threads", 1)
        for key in ("producer_signaling", "consumer_signaling", "consumer_wait_signaling"):
            if p.get(key):
                found[key] = "|".join(p[key].split("+"))
        for key in ("advance_on_wait", "advance_on_acquire"):
            if p.get(key):
                found[key] = True
        if p.get("interleave", 1) != 1:
            found["interleave_stride"] = p["interleave"]
        return found

    # ---- schedules ---------------------------------------------------------------------------------------------

    def scalar(self, name: str) -> str:
        """A launch-time integer argument of the kernel."""
        while name in self.taken and name not in self.scalars and name not in RESERVED:
            name += "_"
        self.scalars[name] = "i32"
        return name

    def bound(self, value: Node, unknown: str) -> Node:
        if value == "runtime":
            return self.scalar(unknown)
        if not isinstance(value, dict):
            return value
        if value["dynamic"] is not None:
            return value["dynamic"]
        self.lists.add("lengths")
        return "domain"

    def steps(self, nodes: Sequence[Node], tokens: dict[str, str]) -> Iterator[str | tuple[str, Node, list[Node]]]:
        """Steps as text, blocks as (name, options, steps)."""
        for node in nodes:
            if call_of(node) is not None:
                yield self.call(node, tokens)
            else:
                yield self.block(node, tokens)

    def call(self, node: Node, tokens: dict[str, str]) -> str:
        target, method = (node if isinstance(node, str) else node["call"]).split(".", 1)
        if isinstance(node, str):
            return f"{self.name(target)}.{method}()"
        given = {k: tokens.get(v[1:], v[1:]) if isinstance(v, str) else v for k, v in node.get("args", {}).items()}
        given |= {k: json.dumps(v) for k, v in node.get("const", {}).items()}
        results = []
        for token in node.get("as", []):
            tokens[token] = f"{token}_" if token in self.taken else token
            results.append(tokens[token])
        head = f"{', '.join(results)} = " if results else ""
        return f"{head}{self.name(target)}.{method}({', '.join(f'{k}={v}' for k, v in given.items())})"

    def block(self, node: Doc, tokens: dict[str, str]) -> tuple[str, Node, list[Node]]:
        if "skippable" in node:
            return "skippable", {}, list(self.steps(node["skippable"], tokens))
        if "first" in node or "last" in node:
            kind = "first" if "first" in node else "last"
            return f"{kind}_iter", {}, list(self.steps(node[kind], tokens))
        body = list(self.steps(node["body"], tokens))
        if "loop" in node:
            unknown = ("runtime_start", "runtime", "runtime_step")
            start, end, step = (self.bound(b, u) for b, u in zip(node["loop"], unknown, strict=True))
            options = {"var": "i", "start": start, "end": end, "step": step, "unroll": node.get("unroll")}
            plain = {"start": 0, "step": 1, "unroll": None}
            return "domain_loop", {k: v for k, v in options.items() if k not in plain or v != plain[k]}, body
        if "tiles" in node:
            options = {"queue": node["tiles"]}
            if node.get("skip_if"):
                self.lists.add("skips")
                options["skip_if"] = "skips[tile] != 0"
            return "work_tile_loop", options, body
        if "every" in node:
            period, start = node["every"]
            return "every", {"period": period, "start": start}, body
        kind = "when_true" if "when_true" in node else "when_false"
        token, key = node[kind], node.get("key")
        if token:
            condition = tokens.get(token[1:], token[1:])
        else:
            self.conditions += 1
            condition = f"{self.scalar(key or f'when{self.conditions}')} != 0"
        return kind, {"cond": condition} | ({"key": key} if key else {}), body

    # ---- the document ------------------------------------------------------------------------------------------

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def lines(self) -> Iterator[str]:
        names = list(self.resources)
        kinds = {n: self.kind(n) for n in names}
        types = {self.pipeline_type(r) for r in self.resources.values()}
        clc = any(r.get("scheduler") == "clc" for r in self.resources.values())
        blackwell = clc or "tmem" in kinds.values() or any("umma" in t for t in types)
        case = str(self.case.get("name", "case"))
        yield "tsgen: 1"
        yield "kernel: " + "".join(c if c.isalnum() else "_" for c in Path(case).stem)
        yield "target: " + ("sm_100a" if blackwell else "sm_90a")
        yield f"doc: {json.dumps(f'The oracle case {case}.')}"
        yield from self.tensor_lines([n for n in names if kinds[n] == "tensor"])
        yield from self.launch_lines("pdl" in kinds.values())
        yield from self.resource_lines([n for n in names if kinds[n] != "tensor"])
        if self.groups:
            yield "groups:"
            for g in self.groups:
                yield f"  {g['name']}: {flow({'mode': g['mode'], 'members': g['members']})}"
        yield from self.memory_lines()
        yield from self.graph_lines(kinds)
        yield "schedules:"
        for name, steps in self.schedules.items():
            yield f"  {name}:" if steps else f"  {name}: []"
            yield from step_lines(steps, "    ")
        yield "tasks:"
        for t in self.tasks:
            yield f"  {t['name']}: {flow(self.task(t, kinds))}"

    def tensor_lines(self, names: list[str]) -> Iterator[str]:
        yield "tensors:"
        for name in names:
            tensor: dict[str, Node] = {"dtype": "f32", "shape": ["TILES"]}
            if name in self.written:
                tensor["output"] = True
            works = self.works(self.resources[name])
            yield f"  {name}: {flow(tensor | ({'work': works} if works else {}))}"
        for name, dtype in self.scalars.items():
            yield f"  {name}: {flow({'dtype': dtype, 'shape': []})}"
        for name in sorted(self.lists):
            yield f"  {name}: {flow({'dtype': 'i32', 'shape': ['TILES']})}"
        if not names and not self.lists:
            yield f"  tiles: {flow({'dtype': 'i32', 'shape': ['TILES']})}"

    def launch_lines(self, pdl: bool) -> Iterator[str]:
        yield "launch:"
        yield "  tiles: {tile: TILES}"
        layouts = [r["pipeline"].get("cta_layout", ONE_CTA) for r in self.resources.values() if r.get("pipeline")]
        sizes = {v * m * n * k for v, m, n, k in filter(None, layouts)}
        for size in sorted(sizes) if sizes != {1} else ():  # a spec has one cluster: a second one is a duplicate key
            yield f"  cluster: {{tile: {size}}}"
        if "lengths" in self.lists:
            yield '  let: {domain: "lengths[tile]"}'
        if pdl:
            yield "  pdl: true"

    def resource_lines(self, names: list[str]) -> Iterator[str]:
        if names:
            yield "resources:"
        for name in dict.fromkeys(self.name(n) for n in names):
            kind = "pdl" if name == "pdl" else self.kind(name)
            if kind == "pdl":
                yield f"  {name}: {{kind: pdl}}"
                continue
            spec = self.resources[name]
            yield f"  {name}:"
            yield f"    kind: {kind}"
            if kind == "work_queue":
                yield f"    scheduler: {SCHEDULERS[spec.get('scheduler', 'static')]}"
            else:
                yield f"    storage: {flow(self.storage(name))}"
            if spec.get("pipeline"):
                yield f"    pipeline: {flow(self.pipeline(spec['pipeline']))}"
            works = self.works(spec) if kind != "work_queue" else {}
            if works:
                yield f"    work: {flow(works)}"

    def memory_lines(self) -> Iterator[str]:
        memory: dict[str, Node] = {}
        aliases = {
            f"{kind}_{i}": [[self.fields[a] for a in phase] for phase in phases]
            for kind, groups in self.case.get("alias", {}).items()
            for i, phases in enumerate(groups)
        }
        if aliases:
            memory["alias"] = aliases
        for key in ("smem_capacity", "tmem_capacity"):
            if key in self.case.get("options", {}):
                memory[key] = self.case["options"][key]
        if memory:
            yield f"memory: {flow(memory)}"

    def graph_lines(self, kinds: Mapping[str, str]) -> Iterator[str]:
        """Queues have no edges, and PDL stands upstream only."""
        edges = {
            down: [self.name(u) for u in ups if kinds[u] != "work_queue"]
            for down, ups in self.case.get("graph", {}).items()
            if kinds[down] not in ("work_queue", "pdl")
        }
        edges = {down: ups for down, ups in edges.items() if ups}
        yield "graph:" if edges else "graph: {}"
        for down, ups in edges.items():
            yield f"  {down}: {flow(ups)}"

    def leads(self, task: Doc, spec: Doc) -> bool:
        """Whether the task's MMA side of a ring is silent in all CTAs but the pair's first: what `cta: leader` says."""
        pipeline = spec.get("pipeline") or {}
        producer, _, consumer = pipeline.get("type", "").partition("_")
        sides = (("dst", producer, "producer_signaling"), ("src", consumer, "consumer_signaling"))
        return self.pair(spec) > 1 and any(
            agent == "umma" and spec["name"] in task.get(key, ()) and "cta_leader" in pipeline.get(signaling, "")
            for key, agent, signaling in sides
        )

    def task(self, task: Doc, kinds: Mapping[str, str]) -> dict[str, Node]:
        found: dict[str, Node] = {"warp_idx": task["warp"], "num_warps": task.get("warps", 1)}
        if task.get("registers") is not None:
            found["num_registers"] = task["registers"]
        if task.get("cta") is not None:
            found["cta"] = task["cta"]
        elif any(self.leads(task, r) for r in self.resources.values()):
            found["cta"] = "leader"
        for key in ("src", "dst"):
            found[f"{key}_resources"] = [r for r in task.get(key, []) if kinds[r] not in ("work_queue", "pdl")]
        return found


def step_lines(steps: Iterable[str | tuple[str, Node, list[Node]]], indent: str) -> Iterator[str]:
    for step in steps:
        if isinstance(step, str):
            yield f"{indent}- {step}"
            continue
        name, options, body = step
        yield f"{indent}- {name}: {flow(options)}"
        yield f"{indent}  steps:" if body else f"{indent}  steps: []"
        yield from step_lines(body, indent + "    ")


def convert(case: Doc) -> str:
    """The spec of a case, as YAML text."""
    return Converter(case).text()


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tests.support.ts_json CASE.json", file=sys.stderr)
        return 2
    path = arguments[0]
    case = json.loads(sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8"))
    case.setdefault("name", path)
    print(convert(case), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
