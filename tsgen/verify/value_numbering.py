"""One pass over a schedule notes for each name what produced it.

A result of a work is the work, its instance, its arguments and all that it reads; a register is what was written to it
last; a stage of a ring is the position at which it is read; what a loop or a condition changes is a value of its own,
made of what was before it and of what the body does. Two tasks that do the same then have the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from fractions import Fraction
from itertools import count

from tsgen.derive.spread import BY_THREAD, role_only
from tsgen.derive.unfold import UNKNOWN, Env, Node, constant, index_of, work_env
from tsgen.model.algebra import canonical, rebuild
from tsgen.model.bounds import interval, intervals
from tsgen.model.expr import Binary, Call, Compare, Const, Expr, Index, Name, Placed, Ref, children, names, walk
from tsgen.model.floats import float_ref, marked
from tsgen.model.inexact import MARK
from tsgen.model.kernel import Kernel, Task, TaskInstance, Work
from tsgen.model.poly import Poly
from tsgen.model.steps import CallStep, DomainLoop, Guard, TileLoop, When
from tsgen.verify.mentions import of_step, of_work
from tsgen.verify.outcomes import form_of, polys_of, without_quotients
from tsgen.verify.symbols import names_of
from tsgen.verify.values import VAR, Made, Outcome, Values

LATER = "'"
_SIDES = {"acquire": "acquire", "commit": "commit", "wait": "wait", "release": "release", "skip": "wait"}
_ZERO, _ONE = Poly.constant(0), Poly.constant(1)


def outcomes(values: Values, task: Task, instance: TaskInstance, program: tuple[Node, ...]) -> Mapping[int, Outcome]:
    """The conditions of a schedule, by the identity of the block's node."""
    if not any(isinstance(n.step, When) or (isinstance(n.step, TileLoop) and n.step.skip_if) for n in _nodes(program)):
        return {}
    walker = _Walk(values, task, instance, program)
    walker.plain = not _asks_for_values(values, program)
    walker.block(program)
    return walker.found


class _Walk:
    """One pass over one schedule. `state`: what tokens hold, and registers (`resource[instance].field`), and how many
    steps of a kind a ring has had (`resource[instance]:step`)."""

    def __init__(self, values: Values, task: Task, instance: TaskInstance, program: tuple[Node, ...]) -> None:
        self.v = values
        self.kernel = values.kernel
        self.me = (task.name, instance.index)
        self.state: dict[str, Poly] = {}
        self.env: Env = self.kernel.env
        self.loop: tuple[str, Expr] | None = None  # the loop variable, and its value
        self.bounds: list[Poly] = []  # start, end and step of the loop
        self.inside = self.everywhere = tuple(map(self.poly, _rooms(self.kernel)))  # what is not negative
        self.skip: Poly | None = None  # the tile's `skip_if`
        self.depth = 0
        self.plain = False  # nothing asks for what works make
        self.later: dict[Poly, Poly] = {}  # value at the head of a loop -> the same in all iterations but the first
        self.found: dict[int, Outcome] = {}
        self.integers = _integers(self.kernel, program)
        numbers = count()
        self.sites = {id(n): next(numbers) for n in _nodes(program)}
        self.site = 0
        self.private = Made(False, True, bool(values.symbols.clusters), False, frozenset())

    # ---- expressions -------------------------------------------------------------------------------------------

    def written(self, e: Expr) -> Expr:
        """An expression with all names written out whose values are known by what they are made of."""
        if isinstance(e, Name):
            if e.id in self.state:
                return self.named(self.state[e.id])
            if self.loop is not None and e.id == self.loop[0]:
                return self.loop[1]
            let = self.v.symbols.lets.get(e.id)
            if let is not None:
                return self.written(let)
            if e.id in self.kernel.tensors and ("", e.id) in self.v.changing:
                return self.named(self.now(e.id, e.id in self.v.floats))
            return marked(e, self.kernel, self.v.floats)
        if isinstance(e, Ref):
            return self.element(e)
        return rebuild(e, self.written)

    def poly(self, e: Expr) -> Poly:
        return canonical(self.written(e), self.env)

    def named(self, p: Poly) -> Expr:
        """A name for a value."""
        if p.value is not None and p.value.denominator == 1:
            return Const(int(p.value))
        if len(p.terms) == 1 and p.terms[0][1] == 1 and len(p.terms[0][0]) == 1:
            atom, power = p.terms[0][0][0]
            if power == 1 and not atom.args and atom.head.startswith("%"):
                return Name(atom.head)
        return Name(next(iter(names_of(self.v.number(("=",), [p], loose=not p.integral)))))

    def element(self, ref: Ref) -> Expr:
        if MARK in ref.name:
            return ref
        if ref.resource is None:
            if ("", ref.name) in self.v.changing:
                return self.named(self.now(ref.name, float_ref(ref, self.kernel)))
            return marked(rebuild(ref, self.written), self.kernel, self.v.floats)
        found = self.field(ref, 0, self.env)
        window = [canonical(x, self.env) for x in map(self.written, _inside(ref))]
        kinds = tuple(type(w).__name__ for w in ref.window or ())
        if kinds:
            loose = float_ref(ref, self.kernel)
            found = self.v.number(("part", kinds, ref.transposed), [found, *window], loose=loose)
        return self.named(found)

    def field(self, ref: Ref, own: int, env: Env, role: str = "consumer") -> Poly:
        """The value of a register or of a field of a stage. `own`: the instance where none is written. A producer sees
        what it has written so far, and others may be writing beside it."""
        resource = self.kernel.resources[ref.resource or ""]
        at = own if ref.instance is None else index_of(ref.instance, env)
        place, loose = (resource.name, ref.name), float_ref(ref, self.kernel)
        if at != UNKNOWN and place not in self.v.shared:
            if resource.kind == "rmem":
                return self.register(f"{ref.resource}[{at}].{ref.name}")
            if place not in self.v.changing and self.in_step(resource.name):
                key = ("stage", *place, at, self.me if role == "producer" else None)
                return self.v.number(key, self.places(resource.name, at), self.private, loose=loose)
        return self.now(".".join(place), loose)

    def in_step(self, ring: str) -> bool:
        """Whether a number of steps says which stage it is: not where warps or tasks take every n-th stage, or where
        an instance is not known."""
        pipeline = self.kernel.resources[ring].pipeline
        moved = any(n.startswith(f"{ring}[{UNKNOWN}]:") for n in self.state)
        return pipeline is not None and max(pipeline.interleave_stride) == 1 and not moved

    def places(self, ring: str, at: int) -> list[Poly]:
        """How many steps on a ring were taken: they choose the stage. And how often it has been written."""
        mine = {
            side: self.state.get(f"{ring}[{at}]:{side}", _ZERO) for side in ("acquire", "commit", "wait", "release")
        }
        fills = mine["acquire"] if mine["acquire"] != _ZERO else mine["commit"]
        reads = mine["wait"] if mine["wait"] != _ZERO else mine["release"]
        return [fills, reads, self.state.get(f"{ring}[{at}]:write", _ZERO)]

    def tagged(self, name: str) -> str:
        """A name as it stands in a value at the head of a loop, where it may be a float."""
        return name + MARK if self.loose(name) else name

    def register(self, name: str) -> Poly:
        if name not in self.state:
            self.state[name] = self.value(name, {})
        return self.state[name]

    def now(self, what: str, loose: bool) -> Poly:
        """A value that nothing is known of but that it is read here and now."""
        at = [Poly.atom(VAR)] if self.loop is not None else []
        return self.v.number(("read", self.me, self.env.get("warp"), self.site, what), at, self.private, loose=loose)

    # ---- blocks ------------------------------------------------------------------------------------------------

    def block(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            self.site, self.env = self.sites[id(node)], node.env
            match node.step:
                case CallStep() if self.plain:
                    pass
                case CallStep(kind="work"):
                    self.work(node)
                case CallStep():
                    self.step(node)
                case DomainLoop():
                    self.domain(node)
                case TileLoop():
                    self.tile_loop(node)
                case _:
                    self.guarded(node)

    def step(self, node: Node) -> None:
        """Positions of rings. A step on a group is one on each member."""
        step = node.step
        assert isinstance(step, CallStep)
        side = _SIDES.get(step.method)
        if side is None or step.kind not in ("pipeline", "group"):
            return
        group = self.kernel.groups.get(step.target)
        by = self.poly(step.args["n"].expr) if step.method == "skip" and "n" in step.args else Poly.constant(1)
        for member in group.members if group is not None else (step.target,):
            name = f"{member}[{node.instance}]:{side}"
            self.state[name] = self.state.get(name, _ZERO) + by

    def work(self, node: Node) -> None:
        """Results and registers are what made them: the work, its instance, its arguments and all that it reads."""
        step = node.step
        assert isinstance(step, CallStep)
        work = self.kernel.work(step.target, step.method)
        if work is None:
            return
        env = work_env(self.kernel, node, work)
        parts = self.sources(node, work, env)
        who = (f"{work.owner}.{work.name}", node.instance)
        dealt = work.op is not None and not _is_element(work)  # each thread has its share of the window
        unsaid = role_only(work)  # what its results come from: they may differ each time, alike in all tasks
        parts += [Poly.atom(VAR)] if unsaid and self.loop is not None else []
        made = Made(per_tile=True) if unsaid else None
        of = [*parts, *([Poly.atom("thread")] if dealt else [])]
        for result, name in zip(step.results, work.returns, strict=False):
            self.state[result] = self.v.number((*who, name), of, made, loose=self.loose(result))
        for access in self.v.uses.accesses(work):
            owner = self.kernel.resources.get(access.ref.resource or "")
            if access.mode != "write" or owner is None:
                continue
            own = node.instance if owner.name == work.owner else 0
            at = own if access.ref.instance is None else index_of(access.ref.instance, env)
            if owner.kind == "rmem":
                self.write(access.ref, at, who, parts, work.op is None)
            elif owner.pipeline is not None:
                name = f"{owner.name}[{at}]:write"
                self.state[name] = self.state.get(name, _ZERO) + Poly.constant(1)

    def write(self, ref: Ref, at: int, who: tuple[str, int], parts: list[Poly], partly: bool) -> None:
        if at == UNKNOWN:
            changed = [n for n in self.state if n.startswith(f"{ref.resource}[") and n.endswith(f"].{ref.name}")]
        else:
            changed = [f"{ref.resource}[{at}].{ref.name}"]
        for name in changed:
            kept = [self.register(name)] if partly or ref.window is not None or at == UNKNOWN else []
            loose = self.loose(name)
            self.state[name] = self.v.number((*who, at, ref.name), [*parts, *kept], loose=loose)

    def sources(self, node: Node, work: Work, env: Env) -> list[Poly]:
        """What a call of a work depends on, in an order that the work decides."""
        step = node.step
        assert isinstance(step, CallStep)
        own = (*work.takes, *work.static)
        found = [self.poly(step.args[name].expr) if name in step.args else Poly.constant(0) for name in own]
        code = work.body is not None or work.call is not None  # it may read what it is said to write
        for access in self.v.uses.accesses(work):
            if (access.mode == "read" or code) and access.ref.resource is not None:
                own_instance = node.instance if access.ref.resource == work.owner else 0
                found.append(self.field(access.ref, own_instance, env, work.role))
        used: set[str] = set()
        for part in (q for e in of_work(work) for q in _quotients(e)):
            if isinstance(part, Name | Ref):
                used.add(part.id if isinstance(part, Name) else part.name)
            else:
                found.append(self.poly(part))
                used |= names(part) - {axis.name for axis in self.kernel.launch.axes}
        if work.op is None and work.body is None:  # what a function asks for is not known
            used |= {axis.name for axis in self.kernel.launch.axes} | {"threads"}
        for name in sorted(used - set(own)):
            symbol = self.kernel.symbols.get(name)
            if name == "stage" and work.owner in self.kernel.resources:
                known = self.in_step(work.owner)
                found += self.places(work.owner, node.instance) if known else [self.now(f"{work.owner}:stage", False)]
            elif name in BY_THREAD or name == "threads":
                found.append(canonical(Name(name), self.env))
            elif name in self.kernel.tensors:
                found += [self.now(name, name in self.v.floats)] if ("", name) in self.v.changing else []
            elif symbol is not None and symbol.time != "compile":
                found.append(self.poly(Name(name)))
        return found

    # ---- what may happen or not, and what happens again ----------------------------------------------------------

    def condition(self, node: Node, e: Expr) -> Poly:
        written = self.v.by_cluster(self.inside_loop(self.written(e)), self.env)
        written = without_quotients(written, self.env, self.v.whole, self.v.in_cluster)
        form, negated = form_of(written, self.env, self.v.whole)
        form, negated, written = self.v.classes.first(form, negated, written, self.env)
        made = self.v.made_of_form(form)
        self.found[id(node)] = Outcome(form, negated, written, made)
        return self.v.number(("holds", form, negated), polys_of(form))

    def inside_loop(self, e: Expr) -> Expr:
        """A condition without comparisons that hold, or do not, in every iteration and tile: `i < end` in a loop to the
        end, or `m*64 < M` with as many tiles."""
        if not isinstance(e, Compare) or len(e.ops) != 1:
            return e if isinstance(e, Compare) else rebuild(e, self.inside_loop)
        a, b = (canonical(x, self.env) for x in e.operands)
        room = {"<": b - a - _ONE, "<=": b - a, ">": a - b - _ONE, ">=": a - b}.get(e.ops[0])
        if room is None or not room.integral:
            return e
        for p in self.inside:
            holds, fails = (room - p).value, (-room - _ONE - p).value
            if (holds is not None and holds >= 0) or (fails is not None and fails >= 0):
                return Const(holds is not None and holds >= 0)
        return e

    def guarded(self, node: Node) -> None:
        match node.step:
            case When() as when:
                tag: tuple[Hashable, ...] = ("when", when.value)
                parts = [self.condition(node, when.condition.expr)]
            case Guard() as guard:
                tag, parts = (guard.kind, guard.period, guard.start), [*self.bounds, Poly.atom(VAR)]
            case _:
                tag, parts = ("skippable",), [] if self.skip is None else [self.skip]
        before = dict(self.state)
        self.block(node.body)
        for name in self.left(before):
            old, new = self.value(name, before), self.state[name]
            if old != new:
                if tag[0] == "first_iter":
                    old = self.later.get(old, old)
                self.state[name] = self.v.number((*tag, name), [*parts, old, new], loose=self.loose(name))

    def left(self, before: Mapping[str, Poly]) -> list[str]:
        """The names that outlive a block: tokens that were assigned in it end with it."""
        self.state = {n: p for n, p in self.state.items() if n in before or "[" in n}
        return list(self.state)

    def value(self, name: str, state: Mapping[str, Poly]) -> Poly:
        """What a name holds, the first use of a ring or of a register to come included."""
        if name in state:
            return state[name]
        if ":" in name:
            return _ZERO
        return self.v.number(("initial", self.me, name), [], self.private, loose=self.loose(name))

    def loose(self, name: str) -> bool:
        """Whether what a name holds may be a float: registers by their type; tokens if one step that assigns it may
        give one."""
        if "[" not in name:
            return name not in self.integers
        resource, _, field = name.partition("[")
        field = field.partition("].")[2]
        return ":" not in name and float_ref(Ref(resource, None, field), self.kernel)

    def domain(self, node: Node) -> None:
        loop = node.step
        assert isinstance(loop, DomainLoop)
        start, step = self.written(loop.start.expr), self.written(loop.step.expr)
        first, by = loop_values(loop, node.env)
        trips = Poly.constant(Fraction(1, by)) * (Poly.atom(VAR) - Poly.constant(first))
        here: Expr = Name(VAR)
        if not isinstance(constant(step, node.env), int):
            here = Binary("+", start, Binary("*", step, here))
        elif not isinstance(constant(start, node.env), int):
            here = Binary("+", start, here)
        self.bounds = [canonical(start, node.env), self.poly(loop.end.expr), canonical(step, node.env)]

        least = interval(self.written(loop.step.expr), intervals(self.kernel), node.env).low

        def run() -> None:
            self.loop = (loop.var, here)
            if least is not None and least > 0:
                self.inside = (*self.everywhere, self.bounds[1] - canonical(here, node.env) - _ONE)
            self.block(node.body)
            self.loop, self.inside = None, self.everywhere

        self.again(run, ("loop",), [self.bounds[0], self.bounds[2], Poly.atom(VAR)], trips)
        self.bounds = []

    def tile_loop(self, node: Node) -> None:
        loop = node.step
        assert isinstance(loop, TileLoop)
        turns = [self.poly(loop.first.expr), self.poly(loop.stride.expr)]

        def run() -> None:
            if loop.skip_if is not None:
                self.site, self.env = self.sites[id(node)], node.env
                self.skip = self.condition(node, loop.skip_if.expr)
            self.block(node.body)

        self.again(run, ("tiles", loop.queue), turns, None)
        self.skip = None

    def again(self, run: Callable[[], None], tag: tuple[Hashable, ...], parts: list[Poly], trips: Poly | None) -> None:
        """A body that runs any number of times. What it changes has another value in each run: it is made of the value
        before the loop and of what the body makes of the value that it finds."""
        before = dict(self.state)
        self.depth += 1
        changed: set[str] = set()
        while True:
            held = {n: Poly.atom(f"@{self.depth}{self.tagged(n)}") for n in changed}
            self.later.update({p: Poly.atom(f"@{self.depth}{self.tagged(n)}{LATER}") for n, p in held.items()})
            self.state = {**before, **held}
            run()
            new = {n for n in self.left(before) if self.state[n] != self.value(n, {**before, **held})}
            if new <= changed:
                break
            changed |= new
        body = {n: self.state[n] for n in changed}
        tile, mark = Made(per_tile=trips is None), f"@{self.depth}"
        self.depth -= 1
        heads, after = {}, {}
        for name in changed:
            inner, asked = [name], set[str]()
            for n in inner:
                opened = {o for o in self.v.made_of(body[n]).open if o.startswith(mark)}
                asked |= {_plain(o, mark) for o in opened if not o.endswith(LATER)}
                needed = sorted({_plain(o, mark) for o in opened})
                inner += [n for n in needed if n not in inner]
            closed = frozenset(mark + self.tagged(n) + end for n in inner for end in ("", LATER))
            made = [body[n] for n in inner]
            old = [self.value(n, before) for n in inner if n in asked]
            whole = [self.value(name, before), *old, *made]
            by = body[name] - held[name]
            if trips is not None and ":" in name and by.value is not None:
                heads[name] = self.value(name, before) + by * trips
            else:
                key, loose = (*tag, *inner), self.loose(name)
                heads[name] = self.v.number(key, [*whole, *parts], tile, closed, loose=loose)
                later = [*old, *made, *parts]
                self.later[heads[name]] = self.v.number(("later", *key), later, tile, closed, loose=loose)
            ends = [*whole, *self.bounds, *parts]
            after[name] = self.v.number(("after", *tag, *inner), ends, tile, closed, True, self.loose(name))
        self.state = {**before, **heads}
        run()
        self.state = {**before, **after}


def _plain(head: str, mark: str) -> str:
    """The name that a value at the head of a loop belongs to."""
    return head.removeprefix(mark).removesuffix(LATER).removesuffix(MARK)


def _integers(kernel: Kernel, program: tuple[Node, ...]) -> frozenset[str]:
    """The tokens that are integers wherever they are assigned: loads of integers. What bodies give is not known."""
    whole, loose = set[str](), set[str]()
    for step in (n.step for n in _nodes(program)):
        if isinstance(step, CallStep) and step.results:
            work = kernel.work(step.target, step.method) if step.kind == "work" else None
            source = work.args.get("from") if work is not None and work.op == "load" else None
            ref = source.expr if isinstance(source, Placed) else None
            known = isinstance(ref, Ref) and not float_ref(ref, kernel)
            (whole if known else loose).update(step.results)
    return frozenset(whole - loose)


def _rooms(kernel: Kernel) -> Iterator[Expr]:
    """What tile coordinates leave of their axes. CTAs of a cluster may lie past the edge."""
    for axis in kernel.launch.axes:
        if axis.cluster == 1:
            for extent in (axis.extent, Call("extent", (Name(axis.name),))):
                yield Binary("-", Binary("-", extent, Name(axis.name)), Const(1))
            if isinstance(axis.extent, Call) and axis.extent.function == "ceil_div":
                whole, part = axis.extent.args
                yield Binary("-", Binary("-", whole, Binary("*", Name(axis.name), part)), Const(1))


def loop_values(loop: DomainLoop, env: Env) -> tuple[int, int]:
    """First value of `#`, and how much it grows with each iteration."""
    start, step = constant(loop.start.expr, env), constant(loop.step.expr, env)
    if not isinstance(step, int) or step <= 0:
        return 0, 1
    return (start, step) if isinstance(start, int) else (0, step)


def _asks_for_values(values: Values, program: tuple[Node, ...]) -> bool:
    """Whether conditions or bounds are made of tokens, registers or stages, or of what the kernel itself writes."""
    steps = [n.step for n in _nodes(program)]
    made = {r for s in steps if isinstance(s, CallStep) for r in s.results}
    ready = [e for s in steps if not isinstance(s, CallStep) for e in of_step(s)]
    seen: set[str] = set()
    for e in ready:
        for part in walk(e):
            if isinstance(part, Ref) and (part.resource is not None or ("", part.name) in values.changing):
                return True
            if isinstance(part, Name) and (part.id in made or ("", part.id) in values.changing):
                return True
            let = values.symbols.lets.get(part.id) if isinstance(part, Name) and part.id not in seen else None
            if let is not None and isinstance(part, Name):
                seen.add(part.id)
                ready.append(let)
    return False


def _nodes(nodes: tuple[Node, ...]) -> Iterator[Node]:
    for node in nodes:
        yield node
        yield from _nodes(node.body)


def _inside(ref: Ref) -> list[Expr]:
    return [
        e for w in ref.window or () for e in ((w.at,) if isinstance(w, Index) else children(Ref(None, None, "", (w,))))
    ]


def _quotients(e: Expr) -> Iterator[Expr]:
    """The rounded quotients of an expression, and the names outside of them."""
    if isinstance(e, Name | Ref):
        yield e
    if isinstance(e, Binary) and e.op == "//" and not any(isinstance(p, Ref) for p in walk(e)):
        yield e
        return
    for child in children(e):
        yield from _quotients(child)


def _is_element(work: Work) -> bool:
    """Whether a load takes one element, which all threads get."""
    source = work.args.get("from")
    ref = source.expr if isinstance(source, Placed) else None
    if not isinstance(ref, Ref):
        return ref is not None
    return ref.window is not None and all(isinstance(w, Index) for w in ref.window)
