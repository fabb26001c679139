"""Where the lanes of a warp must meet: a step touches shared memory that another lane of its warp has touched before.

Warps of a task are ordered by what the schedule says; that the lanes of one warp are, too, is derived. Since lanes need
not run together, an exchange between them through shared memory takes a `bar.warp.sync` in between. So does a step by
which one lane tells other tasks of what all lanes have done: an arrival of an elected lane.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import inf
from typing import NamedTuple

from tsgen.derive.filling import closes_group
from tsgen.derive.model import Arrivals, At, Clash, Lanes
from tsgen.derive.spread import APART, LINEAR, by_thread, elected, indices, owner_of, spread_of, written_out
from tsgen.derive.storage import find_field
from tsgen.derive.unfold import Env, Node, calls, constant, work_env
from tsgen.derive.uses import Uses
from tsgen.diagnostics import Span
from tsgen.model.algebra import canonical
from tsgen.model.expr import Expr, Full, Index, Name, Placed, Ref, Slice, Window, names, walk
from tsgen.model.kernel import AliasMember, Assign, CopyArg, Kernel, Task, TaskInstance, Work
from tsgen.model.ops import OPS, Access
from tsgen.model.steps import CallStep, DomainLoop, When

WARP = 32
ELECTED = "elected"
_TOGETHER = frozenset(("wgmma", "tcgen05", "tcgen05_ld", "tcgen05_st"))  # the next step of any lane comes after them
BY_LANE = frozenset(("thread", "lane"))
_MEMORY = 4  # groups of an engine that are told apart

Key = tuple[str, str]
Party = tuple[str, int]  # a task and its instance
Box = tuple[str, tuple[tuple[float, float], ...]]  # a field's name; [first, last) along each dimension


class Touch(NamedTuple):
    """An access of shared memory since the lanes met.

    `box`: what it touches of the field that it names. `whose`: equal for accesses that touch each element in one lane;
    None if nobody knows. `flight`: groups that its engine was given after it, and -1 once it is over. `block`: the
    outermost block around it that only some lanes may run; 0 if there is none.
    """

    field: Key
    box: Box
    write: bool
    whose: str | None
    engine: str
    flight: int
    block: int
    at: At


def lanes(kernel: Kernel, uses: Uses, arrivals: Mapping[str, Arrivals]) -> Lanes:
    """Where the lanes of a warp meet, and what no meeting can order."""
    places = _places(kernel, uses)
    found: dict[tuple[str, Span], str] = {}
    clashes: set[Clash] = set()
    for task, instance in kernel.instances():
        w = _Walk(kernel, uses, task, instance, found, clashes, arrivals, places)
        program = uses.programs[task.name, instance.index]
        w.varying = _varying(kernel, program)
        w.block(program, None)
    return Lanes(found, tuple(sorted(clashes, key=lambda c: (c.step.span, c.other.span))))


@dataclass
class _Walk:
    kernel: Kernel
    uses: Uses
    task: Task
    instance: TaskInstance
    found: dict[tuple[str, Span], str]
    clashes: set[Clash]
    arrivals: Mapping[str, Arrivals]
    places: Mapping[Key, bool]  # fields that several tasks touch; whether their own rings alone hand them on
    state: frozenset[Touch] = frozenset()
    untold: frozenset[Key] = frozenset()  # what lanes have touched of them since they met
    parted: Node | None = None  # the outermost block that only some lanes may run
    varying: frozenset[str] = frozenset()  # tokens that may differ between lanes

    def block(self, nodes: Iterable[Node], loop: DomainLoop | None) -> None:
        for node in nodes:
            if isinstance(node.step, CallStep):
                self.call(node, node.step, loop)
            else:
                self.inner(node, loop)

    def inner(self, node: Node, loop: DomainLoop | None) -> None:
        """A block runs any number of times: twice shows all that can meet."""
        outermost = self.parted is None and self.parts(node)
        if outermost:
            self.parted = node
        loop = node.step if isinstance(node.step, DomainLoop) else loop
        for _ in range(2):
            before, untold = self.state, self.untold
            self.block(node.body, loop)
            self.state |= before
            self.untold |= untold
        if outermost:
            self.parted = None

    def parts(self, node: Node) -> bool:
        """Whether some lanes may run a block that others do not. Not so if it has steps that lanes take together: else
        TS246 has said so."""
        match node.step:
            case DomainLoop(start=start, end=end, step=step):
                found = [start.expr, end.expr, step.expr]
            case When(condition=condition):
                found = [condition.expr]
            case _:
                return False
        inside = (s for n in calls(node.body) if isinstance(s := n.step, CallStep))
        return any(map(self.varies, found)) and all(s.kind == "work" for s in inside)

    def varies(self, e: Expr) -> bool:
        return bool(names(e) & (BY_LANE | self.varying)) or any(isinstance(x, Ref) and x.resource for x in walk(e))

    def call(self, node: Node, step: CallStep, loop: DomainLoop | None) -> None:
        match step.kind:
            case "barrier" if step.method in ("sync", "wait"):
                self.meet()
            case "completion":
                self.complete(node, step)
            case "pipeline" | "group" if step.method in ("acquire", "commit", "release"):
                group = self.kernel.groups.get(step.target)
                members = group.members if group is not None else (step.target,)
                self.tell(step, members)
                if step.method != "acquire":  # the ring orders its turns
                    self.state = frozenset(t for t in self.state if t.field[0] not in members)
            case "work":
                work = self.kernel.work(step.target, step.method)
                if work is not None:
                    self.work(node, step, work, loop)

    def meet(self) -> None:
        self.state = frozenset(t for t in self.state if t.flight >= 0)
        self.untold = frozenset()

    def tell(self, step: CallStep, members: tuple[str, ...]) -> None:
        """An arrival of one lane speaks for all, so they meet before it."""
        by = [self.arrivals[m] for m in members if m in self.arrivals]
        one = {"acquire": ("arm",), "commit": ("umma",), "release": ("umma", "warp")}[step.method]
        own = members if step.method != "acquire" else ()
        told = [key for key in self.untold if not self.places[key] or key[0] in own]
        if told and any((a.empty_by if step.method == "release" else a.full_by) in one for a in by):
            self.found.setdefault((self.task.name, step.span), ".".join(min(told)))
            self.untold = frozenset()

    def complete(self, node: Node, step: CallStep) -> None:
        """A lane that waits for its engine knows of its own groups."""
        n = canonical(step.args["n"].expr, node.env).value if "n" in step.args else None
        least = int(n) if n is not None else 0
        over = {t for t in self.state if t.engine == step.target and t.flight >= least}
        self.state = self.state - over | {t._replace(flight=-1) for t in over}
        self.untold |= {t.field for t in over if t.whose != ELECTED} & self.places.keys()

    def work(self, node: Node, step: CallStep, work: Work, loop: DomainLoop | None) -> None:
        touches = self.touches(node, step, work, loop)
        others = [t for t in self.state if t.flight < 0 and any(_clash(self.kernel, t, new) for new in touches)]
        for one, other in combinations(touches, 2) if work.op is not None else ():
            if _clash(self.kernel, one, other) and ELECTED not in (one.whose, other.whose):
                self.clash(one.at, other.at, one.field)
        here = id(self.parted.step) if self.parted is not None else 0
        if any(t.block != here or not here for t in others):
            name = ".".join(next(t.field for t in others if t.block != here or not here))
            self.found.setdefault((self.task.name, (self.parted.step if self.parted is not None else step).span), name)
            self.state = frozenset(t for t in self.state if t.flight >= 0 or (here and t.block == here))
            self.untold = frozenset()
        for t in others:
            if here and t.block == here:
                self.clash(At(step.text, step.span), t.at, t.field)
        engine = _groups(work)
        if engine == "bulk" or closes_group(self.kernel, work):
            self.state = frozenset(
                t._replace(flight=min(t.flight + 1, _MEMORY)) if t.engine == engine and t.flight >= 0 else t
                for t in self.state
            )
        self.state |= {t for t in touches if t.engine not in _TOGETHER and t.engine != "tx"}
        by_lanes = {t.field for t in touches if t.engine == "generic" and t.whose != ELECTED}
        self.untold |= by_lanes & self.places.keys()

    def clash(self, step: At, other: At, field: Key) -> None:
        first, last = sorted((step, other), key=lambda at: at.span)
        self.clashes.add(Clash(last, first, ".".join(field)))

    def touches(self, node: Node, step: CallStep, work: Work, loop: DomainLoop | None) -> list[Touch]:
        found = []
        here = id(self.parted.step) if self.parted is not None else 0
        env = work_env(self.kernel, node, work)
        for access in self.uses.accesses(work):
            field = find_field(self.kernel, access.ref) if access.ref.resource is not None else None
            if field is None or self.kernel.resources[field.owner].kind != "smem":
                continue
            flight = 0 if access.engine == _groups(work) else -1
            whose = self.whose(node, work, access, loop, env)
            box = (f"{access.ref.resource}.{access.ref.name}", tuple(_range(w, env) for w in access.ref.window or ()))
            key, at = (field.owner, field.name), At(step.text, step.span)
            found.append(Touch(key, box, access.mode == "write", whose, access.engine, flight, here, at))
        return found

    def whose(self, node: Node, work: Work, access: Access, loop: DomainLoop | None, env: Env) -> str | None:
        """Equal for accesses that touch each element of a field in one lane."""
        if elected(self.kernel, work):
            return ELECTED
        spread = spread_of(self.kernel, work, access, node)
        if spread is None or (work.op is not None and OPS[work.op].issue != "threads"):
            return None
        if not spread.startswith(LINEAR):  # fragments of MMAs are moved by whole warps (ldmatrix, stmatrix)
            return None
        if by_thread(access.ref, node, loop):
            return self.index(access.ref, node, loop)
        if APART in spread:
            return spread
        window = [canonical(e, env) for parts in written_out(access.ref, node) for e in parts]
        return None if any(w.value is None for w in window) else f"{spread} {window}"

    def index(self, ref: Ref, node: Node, loop: DomainLoop | None) -> str | None:
        """The index that tells which lane touches an element."""
        owner = owner_of(ref, node, loop, WARP * self.instance.num_warps)
        if owner is not None:
            return owner
        alone = [canonical(Name(n), node.env) for n in sorted(BY_LANE)]
        return next((repr(p) for e in indices(ref, node) if (p := canonical(e, node.env)) in alone), None)


def _places(kernel: Kernel, uses: Uses) -> dict[Key, bool]:
    """Fields in shared memory whose bytes several task instances touch. True: only steps of the field's own ring hand
    it on, as all of them take its stages by `acquire` or `wait`, and no other name has the bytes."""
    users: dict[Key, set[Party]] = {}
    direct: dict[Key, bool] = {}
    for party, program in uses.programs.items():
        for node in calls(program):
            step = node.step
            work = kernel.work(step.target, step.method) if isinstance(step, CallStep) and step.kind == "work" else None
            for access in uses.accesses(work) if work is not None else ():
                field = find_field(kernel, access.ref) if access.ref.resource is not None else None
                if field is not None and kernel.resources[field.owner].kind == "smem":
                    key = (field.owner, field.name)
                    users.setdefault(key, set()).add(party)
                    taken = access.ref.resource == field.owner and _takes(uses, party, field.owner)
                    direct[key] = direct.get(key, True) and taken
    found = {}
    for key in users:
        same = [other for other in users if _share_bytes(kernel, key, other)]
        if len({p for other in same for p in users[other]}) > 1:
            found[key] = len(same) == 1 and direct[key]
    return found


def _takes(uses: Uses, party: Party, resource: str) -> bool:
    """Whether a task takes stages of a resource by a step of its own."""
    return any(
        (t.name, i.index) == party
        for (name, _, method), parties in uses.methods.items()
        if name == resource and method in ("acquire", "wait")
        for t, i in parties
    )


def _varying(kernel: Kernel, program: tuple[Node, ...]) -> frozenset[str]:
    """Tokens whose values may differ between lanes: made by works that name the thread or read what lanes hold."""
    found: set[str] = set()
    steps = [s for n in calls(program) if isinstance(s := n.step, CallStep) and s.results]
    for _ in steps:  # a token may be made of others, in any order
        for s in steps:
            work = kernel.work(s.target, s.method) if s.kind == "work" else None
            used = {n for arg in s.args.values() for n in names(arg.expr)}
            if used & (BY_LANE | found) or (work is not None and _by_lane(work)):
                found.update(s.results)
    return frozenset(found)


def _by_lane(work: Work) -> bool:
    if work.call is not None:
        return True
    if work.body is not None:
        return re.search(r"\b(thread|lane)\b", work.body) is not None
    values = [v.expr for v in work.args.values() if isinstance(v, Placed)]
    for v in work.args.values():
        for item in v if isinstance(v, tuple) else ():
            values += [item.value] if isinstance(item, Assign) else [item.source] if isinstance(item, CopyArg) else []
    return any(names(e) & BY_LANE or any(isinstance(x, Ref) and x.resource for x in walk(e)) for e in values)


def _groups(work: Work) -> str | None:
    """The engine whose groups a work's lanes wait for."""
    engine = OPS[work.op].engine if work.op is not None else work.engine
    return engine if engine in ("bulk", "cp_async") else None


def _range(w: Window, env: Env) -> tuple[float, float]:
    """What an entry of a window takes along its dimension; all of it if that is not known."""
    start = constant(w.at if isinstance(w, Index) else w.start, env) if not isinstance(w, Full) else None
    length = constant(w.length, env) if isinstance(w, Slice) else 1
    if not isinstance(start, int) or not isinstance(length, int):
        return 0, inf
    return start, start + length


def _clash(kernel: Kernel, t: Touch, new: Touch) -> bool:
    if not (t.write or new.write) or not _share_bytes(kernel, t.field, new.field):
        return False
    (name, box), (other, ranges) = t.box, new.box
    if name == other and any(b <= c or d <= a for (a, b), (c, d) in zip(box, ranges, strict=False)):
        return False
    return t.whose is None or t.whose != new.whose or t.field != new.field


def _share_bytes(kernel: Kernel, a: Key, b: Key) -> bool:
    """Whether two fields are one, or lie in phases of one alias."""
    return a == b or any(
        _lies_in(a, p) and _lies_in(b, q)
        for alias in kernel.memory.aliases
        for p in alias.phases
        for q in alias.phases
        if p is not q
    )


def _lies_in(field: Key, phase: tuple[AliasMember, ...]) -> bool:
    return any(m.resource == field[0] and m.field in (None, field[1]) for m in phase)
