"""What a value on the device is made of: tokens, registers, stages and loop variables, so that equal values of two
tasks are known to be equal, and no others are taken for equal.

A value that is no number of the launch is numbered by what made it, in one table for all tasks: its name starts with
`%`. `#` is the value of the loop variable, counted from `start` where that is no number. What makes which value is
found out by `tsgen.verify.value_numbering`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tsgen.derive.spread import BY_THREAD
from tsgen.derive.unfold import calls
from tsgen.derive.uses import Uses
from tsgen.model.algebra import canonical, rebuild
from tsgen.model.expr import Binary, Compare, Const, Expr, Name, Ref, text
from tsgen.model.floats import floats
from tsgen.model.inexact import MARK
from tsgen.model.kernel import Kernel
from tsgen.model.poly import Poly
from tsgen.model.steps import CallStep
from tsgen.verify.classes import Classes
from tsgen.verify.outcomes import Form
from tsgen.verify.symbols import Env, Symbols, names_of
from tsgen.verify.uniform import divided, uniform, uniformly_positive

VAR = "#"
_NOWHERE = 2**62  # CTAs along an axis that no quotient cuts off


class Made(NamedTuple):
    """What a value may depend on. `open`: values at the head of a loop that is being read."""

    per_iteration: bool = False
    per_tile: bool = False
    per_cta: bool = False
    per_thread: bool = False
    open: frozenset[str] = frozenset()

    @staticmethod
    def of(parts: Iterable[Made]) -> Made:
        found = list(parts)
        return Made(
            any(m.per_iteration for m in found),
            any(m.per_tile for m in found),
            any(m.per_cta for m in found),
            any(m.per_thread for m in found),
            frozenset().union(*(m.open for m in found)),
        )


class Outcome(NamedTuple):
    """What a condition says: `form`, or the contrary. `expr`: the same, to be computed from `#`."""

    form: Form
    negated: bool
    expr: Expr
    made: Made


@dataclass
class Values:
    """The values of all tasks of a kernel. `changing`: tensors (without owner), and fields of stages, that hold other
    values at other times. `shared`: fields whose bytes have two names. `floats`: scalars and `let` values that may be
    floats."""

    kernel: Kernel
    uses: Uses
    symbols: Symbols
    changing: set[tuple[str, str]] = field(default_factory=set)
    shared: set[tuple[str, str]] = field(default_factory=set)
    classes: Classes = field(init=False)
    floats: frozenset[str] = frozenset()
    _numbers: dict[Hashable, str] = field(default_factory=dict)
    _made: dict[str, Made] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.classes = Classes(self.symbols.alike)
        self.floats = floats(self.kernel)
        for node in (n for program in self.uses.programs.values() for n in calls(program)):
            assert isinstance(node.step, CallStep)
            work = self.kernel.work(node.step.target, node.step.method) if node.step.kind == "work" else None
            for a in self.uses.accesses(work) if work is not None else ():
                fills = work is not None and a.ref.resource == work.owner and work.role == "producer"
                if a.mode == "write" and not (a.ref.resource is not None and fills):
                    self.changing.add((a.ref.resource or "", a.ref.name))
        for f in (f for r in self.kernel.resources.values() for f in r.fields.values()):
            if f.view is not None:
                self.shared |= {(f.owner, f.name), (f.view.resource or "", f.view.name)}

    def made_of(self, p: Poly) -> Made:
        """What a number may depend on."""
        plain = set(names_of(p))
        inner = [self._made[n] for n in plain if n in self._made]
        times = {self.kernel.symbols[n].time for n in plain if n in self.kernel.symbols}
        here = Made(
            VAR in plain,
            "tile" in times or "step" in times,
            not uniform(p, self._apart(p)),
            bool(plain & BY_THREAD),
            frozenset(n for n in plain if n.startswith("@")),
        )
        return Made.of([here, *(m._replace(per_cta=False) for m in inner)])

    def made_of_form(self, form: Form) -> Made:
        """What a condition may depend on. A comparison may be the same in all CTAs, though its sides are not."""
        parts = []
        for part in form[1:]:
            if not isinstance(part, Poly):
                parts.append(self.made_of_form(part[0]))
                continue
            made = self.made_of(part)
            if made.per_cta and form[0] == ">=" and uniformly_positive(part, self._apart(part)):
                made = made._replace(per_cta=False)
            parts.append(made)
        return Made.of(parts)

    def by_cluster(self, e: Expr, env: Env) -> Expr:
        """A condition whose comparisons of a clustered axis compare the quotient by the cluster, where that says the
        same: with pairs along m, `m < 8` is `m // 2 < 4`, one value for both."""
        if not self.symbols.clusters:
            return e
        if not isinstance(e, Compare) or len(e.ops) != 1:
            return e if isinstance(e, Compare) else rebuild(e, lambda c: self.by_cluster(c, env))
        (op,), (a, b) = e.ops, e.operands
        if op not in ("<", "<=", ">", ">="):
            return e
        larger, smaller = (a, b) if op in (">", ">=") else (b, a)
        room, lack = Binary("-", larger, smaller), Binary("-", smaller, larger)
        if op in (">=", "<="):
            lack = Binary("-", lack, Const(1))
        else:
            room = Binary("-", room, Const(1))
        p = canonical(room, env)
        found = divided(p, self._apart(p)) if self.whole(p) and not uniform(p, self._apart(p)) else None
        if found is None:
            return e
        d, plain = found
        quotient = Binary("//", room if plain else lack, Const(d))
        return Compare((">=",) if plain else ("<",), (quotient, Const(0)))

    def in_cluster(self, p: Poly) -> bool:
        """Whether a number is the same in all CTAs of a cluster, though it is made from what differs."""
        return uniform(p, self._apart(p)) and not self._apart(p).keys().isdisjoint(names_of(p))

    def _apart(self, p: Poly) -> dict[str, int]:
        """What differs between the CTAs of a cluster: its axes, and values that are made from them."""
        own = {n: _NOWHERE for n in names_of(p) if n in self._made and self._made[n].per_cta}
        return {**self.symbols.clusters, **own}

    def number(
        self,
        key: tuple[Hashable, ...],
        parts: Iterable[Poly],
        known: Made | None = None,
        closed: frozenset[str] = frozenset(),
        outside: bool = False,
        loose: bool = False,
    ) -> Poly:
        """The value that the key and the parts make. `known`: what else it may depend on; `closed`: heads of loops
        that it is not open in any more; `outside`: it is what a loop leaves behind; `loose`: it may be a float."""
        sources = tuple(parts)
        name = self._numbers.get((key, sources))
        if name is None:
            name = self._numbers[key, sources] = f"%{len(self._numbers)}{MARK if loose else ''}"
            made = Made.of([*map(self.made_of, sources), *([known] if known is not None else [])])
            made = made._replace(open=made.open - closed, per_iteration=made.per_iteration and not outside)
            self._made[name] = made
        return Poly.atom(name)

    def as_read(self, e: Expr, task: str, place: Hashable, env: Env) -> Expr:
        """A bound, in which what the kernel itself writes is another number for each reader, in each tile: it may have
        changed in between."""
        if isinstance(e, Name) and e.id in self.symbols.lets:
            written = self.as_read(self.symbols.lets[e.id], task, place, env)
            return e if written == self.symbols.lets[e.id] else written
        named = e.id if isinstance(e, Name) else e.name if isinstance(e, Ref) and e.resource is None else None
        if ("", named) not in self.changing:
            return rebuild(e, lambda c: self.as_read(c, task, place, env))
        made = Made(per_tile=True, per_cta=bool(self.symbols.clusters))
        (name,) = names_of(self.number(("bound", task, place), [canonical(e, env)], made))
        self.symbols.said[name] = Name(f"`{text(e)}` (which the kernel writes) as {task} reads it")
        return Name(name)

    def whole(self, p: Poly) -> bool:
        """Whether a number is certainly an integer: elements of tensors are, values of works need not be."""
        return p.integral and not any(n in self._made or n.startswith("@") for n in names_of(p))
