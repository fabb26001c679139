"""Works as methods of resource classes, and the schedules that call them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tsgen.lower.context import Builder
from tsgen.lower.errors import refuse
from tsgen.lower.mentions import texts
from tsgen.lower.names import Namer
from tsgen.lower.program import Statement, assign
from tsgen.lower.queue import TileCoord
from tsgen.lower.ts.program import (
    GET_DOMAIN,
    HELD,
    KEY,
    OFFSET,
    OWN_STAGE,
    SKIP_IF,
    Block,
    Instance,
    Item,
    Method,
    Result,
    Step,
    Variable,
    WorkCall,
    base,
    every,
    line,
    owners,
)
from tsgen.lower.ts.rename import renamed, words
from tsgen.lower.ts.walk import CONDITIONS, Walk

# what TS's MemoryResource has: methods and slots of ours take other names
_TAKEN = frozenset(
    (
        "acquire", "commit", "consumer_aux_work", "consumer_release_state", "consumer_state", "consumer_status",
        "consumer_var_names", "consumer_vars", "consumer_work", "consumer_work_stage", "create", "create_pipeline",
        "dummy", "held", "is_barrier", "name", "number", "physical_ranges", "pipeline", "pipeline_config",
        "pipeline_group", "producer_aux_work", "producer_commit_state", "producer_state", "producer_status",
        "producer_tail", "producer_vars", "producer_work", "release", "state_src", "try_acquire", "try_wait", "wait"
    )
)  # fmt: skip
_METHOD_CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\.[A-Za-z_]\w*\(")
_KINDS = {"smem": "Smem", "tmem": "Tmem", "rmem": "Reg", "barrier": "Barrier", "work_queue": "Queue"}


@dataclass
class ResourceClass:
    """A class of the module: the works of one resource, of an engine's completion steps, or of conditions."""

    owner: str
    name: str
    doc: str
    note: str | None
    barrier: bool  # for TS: without data, and allowed outside of the loop over tiles
    namer: Namer = field(default_factory=lambda: Namer(reserved=_TAKEN))
    methods: list[Method] = field(default_factory=list)
    variables: dict[str, Variable] = field(default_factory=dict)

    def add(self, wish: str, method: Method) -> Method:
        """The method as it is in the class: the one that does the same, or this one under a name of its own."""
        for have in self.methods:
            if have.same(method):
                return have
        method.name = self.namer.new(wish)
        self.methods.append(method)
        return method


@dataclass
class Classes:
    """The resource classes of a module, made when their first work is."""

    b: Builder
    made: dict[str, ResourceClass] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # resource -> its variable in the module's manager function
    namer: Namer = field(default_factory=Namer)
    tasks: dict[str, str] = field(default_factory=dict)  # classes of tasks with domains of their own

    def variable(self, owner: str) -> str:
        """What schedules and the manager call a resource."""
        if owner not in self.names:
            self.names[owner] = self.namer.new(owner.removeprefix("engine ").replace("[", "").replace("]", ""))
        return self.names[owner]

    def task(self, label: str) -> str:
        """The name of the class of a task whose domain depends on the tile."""
        if label not in self.tasks:
            self.tasks[label] = self.b.names.new(f"{_camel(label)}Task")
        return self.tasks[label]

    def of(self, owner: str) -> ResourceClass:
        owner = base(owner)
        if owner not in self.made:
            self.made[owner] = self._make(owner)
        return self.made[owner]

    def _make(self, owner: str) -> ResourceClass:
        b = self.b
        kernel = b.kernel
        note, barrier = None, False
        if owner.startswith("engine "):
            engine = owner.removeprefix("engine ")
            name, doc, barrier = f"{_camel(engine)}Groups", f"Waits for what this thread has started on {engine}.", True
        elif owner == CONDITIONS:
            name, doc = "Conditions", "Conditions of blocks."
        elif owner in kernel.tensors:
            t = kernel.tensors[owner]
            name, doc, note = f"Gmem{_camel(owner)}", f"The tensor {owner}.", b.note(t.span.line, owner)
        else:
            r = kernel.resources[owner]
            name, note, barrier = f"{_KINDS[r.kind]}{_camel(owner)}", b.note(r.span.line, owner), r.kind == "barrier"
            memory = {"smem": "in shared memory", "tmem": "in tensor memory", "rmem": "in registers"}
            doc = f"{owner} {memory[r.kind]}." if r.kind in memory else f"{owner}."
            doc = "TS's loop over tiles, in the order of the spec." if r.kind == "work_queue" else doc
            doc = f"The named barrier {owner}." if r.kind == "barrier" else doc
        return ResourceClass(owner, b.names.new(name), doc, note, barrier)


def _camel(name: str) -> str:
    return "".join(p[:1].upper() + p[1:] for p in name.split("_"))


class Finish:
    """Turns what a walk found into methods and the body of a schedule function."""

    def __init__(self, walk: Walk, classes: Classes, kernel_names: Mapping[str, str], coord: TileCoord | None) -> None:
        self.walk, self.classes, self.coord = walk, classes, coord
        self.kernel_names = kernel_names  # of kernel scope -> how a method reads them
        self.variables: dict[str, tuple[str, str]] = {}  # name -> owner, slot
        self.held: set[str] = set()  # results that stay in Python objects
        self.fors: list[str] = []
        self.uses: dict[str, set[str]] = {}  # resource -> sides
        self.recorded_on: dict[str, None] = {}  # resources and groups that the schedule mentions
        self.tuples: dict[str, list[str]] = {}  # resources of which it mentions all instances in turn
        self.stages: dict[str, None] = {}  # dictionaries of the stages that instances are at
        calls = [x for x in every(walk.items) if isinstance(x, WorkCall)]
        self.mentioned = [(c, _mentioned(c)) for c in calls]
        self.needed = {
            ring
            for ring, name in walk.stage_names.items()
            for c, seen in self.mentioned
            if c.owner != ring and name in seen
        }
        waited = {r for x in every(walk.items) if isinstance(x, Step) for r in x.waits}
        self.at_use = self.needed - waited
        self.body = self.items(walk.items)

    def recorded(
        self,
        owner: str,
        instance: Instance | None,
        method: str,
        passed: Mapping[str, str],
        results: tuple[str, ...],
        note: str | None,
    ) -> Statement:
        """A step of the schedule function."""
        named = owners(owner, instance)
        self.recorded_on.update(dict.fromkeys(named))
        args = [f"{p}={v}" for p, v in passed.items()]
        target = self.classes.variable(named[0])
        if instance is not None and len(named) > 1:
            self.tuples[owner] = named
            target = f"{self.classes.variable(owner)}[{instance.index}]"
        return Statement("ts/call", {"target": target, "method": method, "args": args, "results": results}, note)

    def used(self, owner: str, instance: Instance | None, side: str) -> None:
        for x in owners(owner, instance):
            self.uses.setdefault(x, set()).add(side)

    def items(self, items: Iterable[Item]) -> list[Statement]:
        out: list[Statement] = []
        for x in items:
            match x:
                case Step():
                    self.used(x.target, x.instance, self.walk.side_of_step(x))
                    out.append(self.recorded(x.target, x.instance, x.method, {}, (), x.note))
                    out += [self.stage(r, x.instance) for r in x.waits if r in self.needed]
                case WorkCall():
                    seen = _mentioned(x)
                    out += [
                        self.stage(r, x.reads.get(r))
                        for r in sorted(self.at_use)
                        if r != x.owner and self.walk.stage_names[r] in seen
                    ]
                    out.append(self.call(x))
                case Block():
                    if x.condition is not None:
                        out.append(self.call(x.condition))
                    loop = x.head.split(" in ")[0].removeprefix("for ") if x.head.startswith("for ") else None
                    self.fors += [loop] if loop else []
                    body = tuple(self.items(x.body))
                    self.fors = self.fors[:-1] if loop else self.fors
                    head = renamed(x.head, {n: t for n, t in self.kernel_names.items() if n not in self.variables})
                    head = head.replace(KEY, f'key="{x.key}"')
                    if GET_DOMAIN in head:
                        head = head.replace(GET_DOMAIN, f"{self.classes.task(self.walk.label)}.get_domain")
                    if SKIP_IF in head:
                        head = head.replace(SKIP_IF, f"{self.classes.of(self.walk.queue).name}.skip")
                    out.append(Statement("ts/block", {"head": head}, x.note, body))
        return out

    def stage(self, ring: str, instance: Instance | None) -> Statement:
        """The call of a work that tells the stage waited for to works of other resources."""
        result = {self.walk.stage_names[ring]: Result("Int32", OWN_STAGE)}
        about = "the stage that is being read"
        return self.call(WorkCall(ring, "stage", "consumer", False, [], None, result, about=about, instance=instance))

    def token(self, name: str, c: WorkCall) -> str:
        """What a schedule calls a value that a work leaves or takes; each instance of a ring has its own stage."""
        ring = next((r for r, stage in self.walk.stage_names.items() if stage == name), None)
        instance = None if ring is None else c.instance if ring == c.owner else c.reads.get(ring)
        if instance is None:
            return name
        self.stages[name] = None
        return f"{name}[{instance.index}]"

    def call(self, c: WorkCall) -> Statement:
        """The step that calls a work, whose method is added to the owner's class."""
        owner = self.classes.of(c.owner)
        self.used(c.owner, c.instance, c.side)
        seen = _mentioned(c)
        passed = self._passed(c, seen)
        names = {n: t for n, t in self.kernel_names.items() if n not in passed}
        names |= {n: f"{HELD}.{n}" for n in self.held if n not in passed}
        head = self._head(c, seen, names)
        tail, returned = self._results(c, owner)
        body = [*head, *renamed(c.statements, names), *tail]
        if returned:
            body.append(line(f"return {', '.join(renamed(t, names) for t in returned.values())}"))
        if any(f"{HELD}." in t for t in texts(body)):
            body.insert(0, assign(HELD, "self.held()"))
        params = tuple(f"{p}: {a}" if a else p for p, (_, a) in passed.items())
        method = owner.add(c.wish, Method("", c.side, c.auxiliary, params, tuple(returned), tuple(body), c.about))
        results = tuple(n for n in c.results if n in self.variables and self.variables[n][1] in returned)
        results = tuple(self.token(n, c) for n in results)
        return self.recorded(c.owner, c.instance, method.name, {p: v for p, (v, _) in passed.items()}, results, c.note)

    def _passed(self, c: WorkCall, seen: set[str]) -> dict[str, tuple[str, str]]:
        """The method's parameters: what the schedule passes, and their annotations."""
        passed = {n: (self.token(n, c), self._dtype(n)) for n in self.variables if n in seen}
        passed |= {n: (n, "cutlass.Constexpr") for n in self.fors if n in seen}
        passed |= {n: (text, "cutlass.Constexpr") for n, text in c.statics.items() if n in seen}
        for ring, name in self.walk.stage_names.items():
            if name in seen and name not in passed:
                task = self.walk.task
                refuse(
                    f"a work of `{c.owner}` at a stage of `{ring}`, which the task `{task.name}` fills, in TS",
                    task.span,
                )
        return passed

    def _head(self, c: WorkCall, seen: set[str], names: dict[str, str]) -> list[Statement]:
        """What the method computes first: values of its tile and iteration."""
        # held.x[i] = y and held.x.f() would count as changes of `held`, which no branch may make
        local = [n for n in dict.fromkeys([*_elements_set(c.statements), *_receivers(c.statements)]) if n in names]
        head = [assign(n, names.pop(n)) for n in local]
        looping = c.loop if c.loop in seen else None
        start = self.walk.offset if looping else None
        head += tile_values(self.walk, seen | words([start or ""]), self.coord, names)
        if looping is not None:
            head.append(assign(looping, f"{renamed(start, names)} + {OFFSET}" if start is not None else OFFSET))
        return head

    def _results(self, c: WorkCall, owner: ResourceClass) -> tuple[list[Statement], dict[str, str]]:
        """What the method leaves in `held`, and what it returns: slots and their texts."""
        later = self._later(c)
        kept: list[Statement] = []
        returned: dict[str, str] = {}
        for name, result in c.results.items():
            asked = name in self.walk.conditions or c.owner == CONDITIONS
            if result.dtype is not None and (name in later or asked):
                slot = self._variable(owner, name, result.dtype)
                self.variables[name] = (c.owner, slot)
                returned[slot] = result.text
            if name in later and (result.dtype is None or name in self.walk.conditions):
                self.held.add(name)
                kept.append(assign(f"{HELD}.{name}", name))
        return kept, returned

    def _later(self, c: WorkCall) -> set[str]:
        """The results that works after this one mention."""
        at = next((i for i, (x, _) in enumerate(self.mentioned) if x is c), None)
        if at is None:  # a stage or a condition
            return set(c.results)
        return {n for n in c.results for _, seen in self.mentioned[at + 1 :] if n in seen}

    def _variable(self, owner: ResourceClass, name: str, dtype: str) -> str:
        dtype = renamed(dtype, self.kernel_names)
        for v in owner.variables.values():
            if (v.name, v.dtype) == (name, dtype):
                return v.slot
        slot = owner.namer.new(name)
        owner.variables[slot] = Variable(slot, name, dtype)
        return slot

    def _dtype(self, name: str) -> str:
        owner, slot = self.variables[name]
        dtype = self.classes.of(owner).variables[slot].dtype
        return "" if dtype.startswith(f"{HELD}.") else dtype


def tile_values(
    walk: Walk,
    seen: set[str],
    coord: TileCoord | None,
    names: Mapping[str, str],
    tile: str = "stage_info.work_tile.tile_idx",
) -> list[Statement]:
    """What a method computes from its tile first: the coordinates, `let` values and TMA windows that it mentions."""
    if coord is None:
        return []
    s = walk.s
    out: list[Statement] = []
    wanted = set(seen)
    for window in reversed(list(s.tile_windows.values())):
        if {str(window.values["smem"]), str(window.values["gmem"])} & wanted:
            out.insert(0, renamed(window, names))
            wanted |= words(list(window.values.values()))
    lets = [x for x in walk.b.kernel.launch.lets if x.time == "tile"]
    made: list[Statement] = []
    for let in reversed(lets):
        name = walk.b.globals[let.name]
        if name in wanted:
            text = s.py(let.value)
            made.insert(0, assign(name, renamed(text, names)))
            wanted |= words([text])
    out = [*made, *out]
    axes = [walk.b.globals[a] for a in coord.axes]
    if any(a in wanted for a in axes):
        shown = [a if a in wanted else "_" for a in axes] + ["_"] * (3 - len(axes))
        out.insert(0, assign(", ".join(shown), tile))
    return out


def _receivers(statements: list[Statement]) -> Iterator[str]:
    """Names whose methods are called."""
    for text in texts(statements):
        yield from (m.group(1) for m in _METHOD_CALL.finditer(text))


def _elements_set(statements: Iterable[Statement]) -> Iterator[str]:
    """Tensors of which single elements are assigned."""
    for x in statements:
        name = str(x.values.get("name", "")) if x.template == "setup/assign" else ""
        if "[" in name:
            yield name.split("[")[0]
        if x.template in ("ops/own_store", "ops/own_rows"):
            yield str(x.values["field"])
        yield from _elements_set(x.body)


def _mentioned(c: WorkCall) -> set[str]:
    return words(c.statements) | words([r.text for r in c.results.values()])
