"""What agents ask the environment: the value of an unknown, the outcome of a condition, how many tiles there are."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil

from tsgen.verify.conditions import test_at, unknowns_of
from tsgen.verify.machine import LOOP, SKIP, System, Test
from tsgen.verify.state import Decision, State
from tsgen.verify.symbols import Linear


class Questions:
    """Answers from what is fixed or decided already; what is not is a decision that the agent must wait for."""

    def __init__(self, system: System, fixed: dict[int, int]) -> None:
        self.system = system
        self.fixed = fixed  # unknowns that have one value in all tiles
        self.turns = turning_values(system)
        # with all bounds fixed, what is left of a loop tells the iteration, and outcomes can be computed for each
        self.computes = all(u in fixed for agent in system.agents for u in agent.queries)
        self.computed: dict[tuple[int, int], Test | None] = {}

    def unknown(self, index: int, tile: int, cta: int) -> Decision:
        """The decision that a use of an unknown in a tile depends on. Its value is free in each tile, unless fixed."""
        u = self.system.symbols.unknowns[index]
        return Decision("value", index, tile, cta if u.per_cta else 0, 0)

    def bounds(self, st: State, form: Linear, tile: int, cta: int) -> tuple[int, int | None, Decision | None]:
        """Least value (of a form that rises with its unknowns), value if decided, and the decision that is missing."""
        if form.others:
            return self._of_several(st, form, tile, cta)
        value = form.const
        missing = None
        for index, coefficient in form.terms:
            fixed = self.fixed.get(index)
            if fixed is not None:
                value += coefficient * fixed
                continue
            key = self.unknown(index, tile, cta)
            exact = st.exact.get(key)
            if exact is None:
                missing = missing or key
                low = st.low.get(key)
                if low is None:
                    low = st.low[key] = self.least(index)
                value += coefficient * low
            else:
                value += coefficient * exact
        return value, (value if missing is None else None), missing

    def _of_several(self, st: State, form: Linear, tile: int, cta: int) -> tuple[int, int | None, Decision | None]:
        """The same of the greatest or least of several numbers. While any is open, the least of those counts: a loop
        asks for each of them in time, so that none is left far behind."""
        found = [self.bounds(st, part, tile, cta) for part in form.parts]
        closed = [value for _, value, _ in found if value is not None]
        still_open = [(least, missing) for least, value, missing in found if value is None]
        if not still_open:
            value = min(closed) if form.least else max(closed)
            return value, value, None
        low, missing = min(still_open, key=lambda n: n[0])
        if form.least and closed and min(closed) <= low:
            return min(closed), min(closed), None
        return low, None, missing

    def least(self, index: int) -> int:
        u = self.system.symbols.unknowns[index]
        return u.low if u.low is not None else self.floor(index)

    def floor(self, index: int) -> int:
        """A value so small that every loop with this unknown has no trip; smaller ones behave the same. Such an unknown
        is alone in its bounds (`Symbols.bound`)."""
        least = 0
        for agent in self.system.agents:
            for ins in agent.code:
                if ins[0] == LOOP:
                    for part in ins[1].parts:
                        for u, c in part.terms:
                            if u == index:
                                least = min(least, -part.const // c)
        return least

    def following(self, index: int, low: int) -> int | None:
        """The next value of an unknown that may make a difference; None if no larger one does."""
        turns = self.turns.get(index)
        if turns is None:
            return low + 1
        return next((v for v in turns if v > low), None)

    def test(self, st: State, t: Test, agent: int) -> bool | Decision:
        """The outcome of a comparison, or the decision it needs."""
        if t.op == "turn":
            return t.turn[st.iteration[agent] % len(t.turn)]
        if t.op in ("and", "or"):
            missing = None
            for part in t.parts:
                got = self.test(st, part, agent)
                if got is (t.op == "or"):
                    return got
                if isinstance(got, Decision):
                    missing = missing or got
            return missing if missing is not None else t.op == "and"
        if t.op == "not":
            got = self.test(st, t.parts[0], agent)
            return got if isinstance(got, Decision) else not got
        assert t.form is not None
        moved = Linear(t.form.const + t.loop * st.iteration[agent], t.form.terms)
        low, value, missing = self.bounds(st, moved, st.tile[agent], self.system.agents[agent].cta)
        if value is None:
            rising = all(c > 0 for _, c in t.form.terms)
            if rising and ((t.op == ">" and low > 0) or (t.op == ">=" and low >= 0) or (t.op == "!=" and low > 0)):
                return True
            if rising and ((t.op == "<" and low >= 0) or (t.op == "<=" and low > 0) or (t.op == "==" and low > 0)):
                return False
            falling = all(c < 0 for _, c in t.form.terms)
            if falling and ((t.op == "<" and low < 0) or (t.op == "<=" and low <= 0) or (t.op == "!=" and low < 0)):
                return True
            if falling and ((t.op == ">" and low <= 0) or (t.op == ">=" and low < 0) or (t.op == "==" and low < 0)):
                return False
            assert missing is not None
            return missing
        return {
            "<": value < 0,
            "<=": value <= 0,
            ">": value > 0,
            ">=": value >= 0,
            "==": value == 0,
            "!=": value != 0,
        }[t.op]

    def outcome(self, st: State, agent: int, index: int) -> bool | Decision:
        """The outcome of a condition for the agent's tile and iteration."""
        c = self.system.conditions[index]
        if c.test is not None:
            return self.test(st, c.test, agent)
        value = self.system.agents[agent].value(st.iteration[agent]) if c.per_iteration else 0
        test = self.test_here(index, value) if self.computes else None
        if test is not None:
            return self.test(st, test, agent)
        key = Decision(
            "condition",
            index,
            st.tile[agent] if c.per_tile else 0,
            self.system.agents[agent].cta if c.per_cta else 0,
            value,
        )
        got = st.decided.get(key)
        return key if got is None else got

    def test_here(self, index: int, iteration: int) -> Test | None:
        """The test of a condition in one iteration, if all that it compares is fixed."""
        at = (index, iteration)
        if at not in self.computed:
            test = test_at(self.system.symbols, self.system.conditions[index], iteration)
            known = test is not None and all(u in self.fixed for u in unknowns_of(test))
            self.computed[at] = test if known else None
        return self.computed[at]

    def tiles(self, st: State, queue: str) -> int | Decision:
        """How many tiles a CTA gets from a queue, or the decision about that."""
        index = self.system.tile_unknowns[queue]
        fixed = self.fixed.get(index)
        if fixed is not None:
            return fixed
        key = Decision("value", index, 0, 0, 0)
        exact = st.exact.get(key)
        if exact is None:
            st.low.setdefault(key, self.least(index))
            return key
        return exact

    def pay(self, st: State, a: int) -> tuple[tuple[int, int, Decision], ...]:
        """Moves positions by the promised amounts that are known; returns the promises left."""
        left = []
        for slot, coefficient, key in st.debts[a]:
            exact = st.exact.get(key)
            if exact is None:
                left.append((slot, coefficient, key))
            else:
                st.position[slot] += coefficient * exact
        st.debts[a] = tuple(left)
        return st.debts[a]


def turning_values(system: System) -> dict[int, tuple[int, ...]]:
    """Unknowns that nothing but conditions ask for, each alone against a number: the values from which on an outcome
    may change. Two values between the same turns are as good as one."""
    found: dict[int, set[int]] = {}
    counted: set[int] = set()
    for agent in system.agents:
        for ins in agent.code:
            if ins[0] in (LOOP, SKIP):
                counted.update(ins[1 if ins[0] == LOOP else 2].unknowns)
    forms = [t for c in system.conditions if c.test is not None for t in comparisons(c.test)]
    for t in forms:
        assert t.form is not None
        if len(t.form.terms) != 1 or t.loop:
            counted.update(u for u, _ in t.form.terms)
            continue
        ((u, c),) = t.form.terms
        found.setdefault(u, set()).update((ceil(Fraction(-t.form.const, c)), -t.form.const // c + 1))
    return {u: tuple(sorted(values)) for u, values in found.items() if u not in counted}


def comparisons(test: Test) -> Iterator[Test]:
    """All comparisons of a test."""
    if test.form is not None:
        yield test
    for part in test.parts:
        yield from comparisons(part)
