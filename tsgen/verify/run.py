"""One maximal run of the machine: every agent goes on until it must wait for a barrier or for a decision.

Barriers only ever complete more phases, and waiting takes nothing away, so the order in which agents are served does not
matter: every maximal run ends in the same state, with the same knowledge (docs/verification.md).
"""

from __future__ import annotations

from typing import Any

from tsgen.verify.machine import (
    ACCESS,
    ARM,
    ARRIVE,
    BRACKET,
    BULK,
    CARRY_CP_ASYNC,
    CARRY_UMMA,
    COMPLETE,
    CP_ASYNC,
    EARLY,
    END_LOOP,
    END_TILE,
    FIRST,
    GRID_LAUNCH,
    GRID_NEEDED,
    GRID_WAIT,
    GUARD,
    LAST,
    LOOP,
    LOOP_INIT,
    MARK,
    NAMED_ARRIVE,
    NAMED_WAIT,
    SKIP,
    SKIPPABLE,
    SYNC,
    TCGEN05,
    TILE,
    TILE_INIT,
    TRY,
    TX,
    WAIT,
    WGMMA,
    WHEN,
    Instruction,
    System,
    Test,
)
from tsgen.verify.state import GRID, Decision, Problem, Record, State, Wait
from tsgen.verify.symbols import Linear
from tsgen.verify.works import CONSUME, OWN, PRODUCE

PROXY_PRODUCER = 1
_IN_ORDER = (WGMMA, TCGEN05)  # engines that do what one agent gives them in order


class Runner:
    """Runs states of one system. `fixed` unknowns have one value in all tiles."""

    def __init__(self, system: System, agents: list[int], fixed: dict[int, int]) -> None:
        self.system = system
        self.agents = agents
        self.fixed = fixed
        self.codes = [a.code for a in system.agents]
        self.steps = 0
        self.log: list[tuple[Any, ...]] | None = None

    # ---- decisions ---------------------------------------------------------------------------------------------

    def unknown(self, index: int, tile: int, cta: int) -> Decision:
        """The decision that a use of an unknown in a tile depends on. Its value is free in each tile, unless fixed."""
        u = self.system.symbols.unknowns[index]
        return Decision("value", index, tile, cta if u.per_cta else 0, 0)

    def bounds(self, st: State, form: Linear, tile: int, cta: int) -> tuple[int, int | None, Decision | None]:
        """Least value, value if decided, and the decision that is missing."""
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

    def least(self, index: int) -> int:
        u = self.system.symbols.unknowns[index]
        return u.low if u.low is not None else self.floor(index)

    def floor(self, index: int) -> int:
        """A value so small that every loop with this unknown has no trip; smaller ones behave the same."""
        least = 0
        for agent in self.system.agents:
            for ins in agent.code:
                if ins[0] == LOOP:
                    for u, c in ins[1].terms:
                        if u == index and c > 0 and len(ins[1].terms) == 1:
                            least = min(least, -(ins[1].const // c) if ins[1].const > 0 else 0)
        return least

    def test(self, st: State, t: Test, agent: int) -> bool | Decision:
        """The outcome of a comparison, or the decision it needs."""
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

    def outcome(self, st: State, agent: int, index: int, skip: bool) -> bool | Decision:
        """The outcome of a condition or a skip predicate for the agent's tile and iteration."""
        c = (self.system.skips if skip else self.system.conditions)[index]
        if c.test is not None:
            return self.test(st, c.test, agent)
        key = Decision(
            "skip" if skip else "condition",
            index,
            st.tile[agent] if c.per_tile else 0,
            self.system.agents[agent].cta if c.per_cta else 0,
            self.system.agents[agent].value(st.iteration[agent]) if c.per_iteration else 0,
        )
        got = st.decided.get(key)
        return key if got is None else got

    # ---- the run -----------------------------------------------------------------------------------------------

    def run(self, st: State) -> tuple[Problem | None, list[tuple[int, Decision]]]:
        """Runs until nothing moves. A problem, or the decisions that agents wait for, by tile."""
        system = self.system
        barriers = system.barriers
        done, count, transfer, current = st.done, st.count, st.transfer, st.current
        last, value, previous, waits = st.last, st.value, st.previous, st.waits
        known, twin, position = st.known, st.twin, st.position
        ready = [a for a in self.agents if st.pc[a] >= 0]
        ready.reverse()
        blocked: dict[int, list[int]] = {}
        needs: list[tuple[int, Decision]] = []
        log = self.log
        steps = 0

        def complete(b: int) -> Problem | None:
            mask = current[b]
            for w in waits[b]:
                if not mask & w.token:
                    return Problem("lap", w.agent, w.ref, b)
            token = 1 << st.tokens
            st.tokens += 1
            done[b] += 1
            previous[b], value[b] = value[b], token
            last[b] = mask | token
            count[b] = transfer[b] = current[b] = 0
            waits[b] = ()
            if b in blocked:
                ready.extend(blocked.pop(b))
            return None

        def arrive(b: int, phase: int, units: int, mask: int, nbytes: int, a: int, ref: int) -> Problem | None:
            if phase != done[b] or not known[a] & value[b]:
                kind = "surplus" if phase < done[b] else "attribution"
                return Problem(kind, a, ref, b, data=(phase,))
            count[b] += units
            if count[b] > barriers[b].need:
                return Problem("surplus", a, ref, b, data=(phase,))
            transfer[b] += nbytes
            current[b] |= mask
            if count[b] == barriers[b].need and not transfer[b]:
                return complete(b)
            return None

        while ready:
            a = ready.pop()
            code = self.codes[a]
            pc = st.pc[a]
            problem: Problem | None = None
            while True:
                ins = code[pc]
                op = ins[0]
                steps += 1
                if st.debts[a] and op <= BRACKET and self._owes(st, a, ins, needs):
                    break
                if log is not None:
                    log.append((a, pc, st.iteration[a], st.tile[a], self._where(st, ins)))
                # Before its first phase a barrier counts as complete, known to all: so no check depends on which lap it is.
                if op == WAIT:
                    slots = ins[2]
                    p = position[slots[0]]
                    phase = p // ins[3] - ins[5]
                    b = ins[1] + p % ins[3]
                    d = done[b]
                    if d != phase + 1:
                        if d > phase + 1:
                            problem = Problem("late", a, ins[7], b, data=(phase,))
                        elif d < phase or (ins[6] & EARLY and not known[a] & value[b]):
                            problem = Problem("early", a, ins[7], b, data=(phase,))
                        else:
                            blocked.setdefault(b, []).append(a)
                        break
                    if ins[6] & EARLY and not known[a] & previous[b]:
                        problem = Problem("early", a, ins[7], b, data=(phase,))
                        break
                    known[a] |= last[b]
                    if ins[6] & MARK:
                        token = 1 << st.tokens
                        st.tokens += 1
                        known[a] |= token
                        waits[b] = (*waits[b], Wait(token, a, ins[7]))
                    for slot in slots:
                        position[slot] += ins[4]
                elif op == ARRIVE:
                    slots = ins[2]
                    p = position[slots[0]]
                    stage, phase = p % ins[3], p // ins[3]
                    if ins[9] >= 0 and position[ins[9]] <= p:
                        problem = Problem("unacquired" if ins[8] else "unwaited", a, ins[10])
                        break
                    if ins[7] >= 0:
                        b = ins[7] + stage
                        d = done[b] + ins[8]
                        if d <= phase or not known[a] & (value[b] if d == phase + 1 else previous[b]):
                            problem = Problem("unemptied" if ins[8] else "unfilled", a, ins[10], b, data=(phase,))
                            break
                    mask = known[a] | twin[a]
                    if ins[6] == CARRY_UMMA:
                        for token in st.engines[a][TCGEN05]:
                            mask |= token
                    elif ins[6] == CARRY_CP_ASYNC:
                        for token in st.engines[a][CP_ASYNC]:
                            mask |= token
                            if system.agents[a].twin:
                                mask |= token << 1
                    for base in ins[1]:
                        problem = arrive(base + stage, phase, ins[5], mask, 0, a, ins[10])
                        if problem is not None:
                            break
                    if problem is not None:
                        break
                    for slot in slots:
                        position[slot] += ins[4]
                elif op == ACCESS:
                    problem = self._access(st, a, ins)
                    if problem is not None:
                        break
                    mask = known[a] | twin[a]
                    mask |= 3 << (st.tokens - 2) if system.agents[a].twin else 1 << (st.tokens - 1)
                    for base, slot, stages, back, nbytes in ins[2]:
                        p = position[slot] - back
                        problem = arrive(base + p % stages, p // stages, 0, mask, -nbytes, a, ins[4])
                        if problem is not None:
                            break
                    if problem is not None:
                        break
                elif op == BRACKET:
                    problem = self._bracket(st, a, ins)
                    if problem is not None:
                        break
                elif op == ARM:
                    p = position[ins[2][0]] - ins[4]
                    mask = known[a] | twin[a]
                    for base in ins[1]:
                        problem = arrive(base + p % ins[3], p // ins[3], ins[5], mask, ins[6], a, ins[7])
                        if problem is not None:
                            break
                    if problem is not None:
                        break
                elif op == COMPLETE:
                    self._complete(st, a, ins)
                elif op == LOOP:
                    low, exact, missing = self.bounds(st, ins[1], st.tile[a], system.agents[a].cta)
                    n = st.iteration[a]
                    trips = -(-low // ins[2])
                    if exact is not None:
                        if n >= trips:
                            pc = ins[3]
                            continue
                    elif n >= trips - ins[4]:
                        assert missing is not None
                        needs.append((st.tile[a], missing))
                        break
                elif op == END_LOOP:
                    st.iteration[a] += 1
                    pc = ins[1]
                    continue
                elif op == GUARD:
                    if not self._guard(st, a, ins, code):
                        pc = ins[5]
                        continue
                elif op == NAMED_ARRIVE:
                    problem = arrive(ins[1], position[ins[2]], ins[3], known[a] | twin[a], 0, a, ins[4])
                    if problem is not None:
                        break
                    position[ins[2]] += 1
                elif op == NAMED_WAIT:
                    phase = position[ins[2]] - 1
                    b = ins[1]
                    if done[b] <= phase:
                        blocked.setdefault(b, []).append(a)
                        break
                    if done[b] > phase + 1:
                        problem = Problem("late", a, ins[3], b, data=(phase,))
                        break
                    known[a] |= last[b]
                elif op == TRY:
                    p = position[ins[2][0]]
                    phase = p // ins[3] - ins[5]
                    b = ins[1] + p % ins[3]
                    d = done[b]
                    if d < phase or not known[a] & (value[b] if d == phase else previous[b]):
                        problem = Problem("early", a, ins[6], b, data=(phase,))
                        break
                elif op == WHEN:
                    got = self.outcome(st, a, ins[1], False)
                    if isinstance(got, Decision):
                        needs.append((st.tile[a], got))
                        break
                    if got != ins[2]:
                        pc = ins[3]
                        continue
                elif op == TILE:
                    t = st.tile[a]
                    queue = system.tile_unknowns[ins[2]]
                    total = self.fixed.get(queue)
                    if total is None:
                        key = Decision("value", queue, 0, 0, 0)
                        total = st.exact.get(key)
                        if total is None and t >= st.low.setdefault(key, self.least(queue)):
                            needs.append((t, key))
                            break
                    if total is not None and t >= total:
                        pc = ins[4]
                        continue
                    if ins[3] >= 0:
                        got = self.outcome(st, a, ins[3], True)
                        if isinstance(got, Decision):
                            needs.append((t, got))
                            break
                        st.skipped[a] = got
                elif op == END_TILE:
                    st.tile[a] += ins[1]
                    pc = ins[2]
                    continue
                elif op == SKIPPABLE:
                    if st.skipped[a]:
                        pc = ins[1]
                        continue
                elif op == LOOP_INIT:
                    st.iteration[a] = 0
                elif op == TILE_INIT:
                    st.tile[a] = ins[1]
                elif op == SKIP:
                    self._skip(st, a, ins)
                elif op == GRID_WAIT:
                    known[a] |= GRID
                elif op == GRID_LAUNCH:
                    if not known[a] & GRID:
                        problem = Problem("launch", a, ins[1])
                        break
                elif op == GRID_NEEDED:
                    if not known[a] & GRID:
                        problem = Problem("grid", a, ins[2], data=(ins[1],))
                        break
                else:  # END
                    problem = self._end(st, a)
                    pc = -1
                    break
                pc += 1
            st.pc[a] = pc
            if problem is not None:
                self.steps += steps
                return problem, []
        self.steps += steps
        return None, needs

    # ---- the rarer steps ---------------------------------------------------------------------------------------

    def _where(self, st: State, ins: Instruction) -> int:
        """The position that a pipeline step is at, for timelines; -1 for other steps."""
        return st.position[ins[2][0]] if ins[0] in (WAIT, TRY, ARRIVE) else -1

    def _access(self, st: State, a: int, ins: Instruction) -> Problem | None:
        """Checks the accesses of a step against those that may still be under way, and remembers them.

        A record is dropped if a later access stands for it: what conflicts with it conflicts with the later one, too, and
        is ordered after it if it is ordered after the later one. So the later one covers its window, and has the same
        spread (else it would be let off where its threads own the same elements), or none.
        """
        _, items, _, engine, ref = ins
        system = self.system
        known = st.known[a]
        twin = system.agents[a].twin
        token = 1 << st.tokens
        st.tokens += 2 if twin else 1
        covers, overlaps, aliases, cells = system.covers, system.overlaps, system.aliases, st.cells
        for base, stages, slot, back, write, boxes, spread in items:
            cell = base if slot < 0 else base + (st.position[slot] - back) % stages
            box = boxes[0] if len(boxes) == 1 else boxes[st.iteration[a] % len(boxes)]
            kept = []
            for r in cells[cell]:
                before, by, wrote, other_box, other_engine, other_spread, _ = r
                if by == a:
                    ordered = other_engine == SYNC or known & before or (engine == other_engine and engine in _IN_ORDER)
                    if twin and ordered and (write or wrote) and not known & before << 1:
                        ordered = spread is not None and spread == other_spread
                        ordered = ordered and (box == other_box or spread.startswith("warp "))
                else:
                    ordered = known & before
                if ordered:
                    same_spread = spread == other_spread
                    if write:
                        if (same_spread or spread is None) and (box == other_box or covers(box, other_box)):
                            continue
                    elif same_spread and by == a and not wrote and box == other_box and engine == other_engine:
                        continue
                elif (write or wrote) and overlaps(box, other_box):
                    owned = spread is not None and spread == other_spread and by != a and self._siblings(a, by)
                    if not (owned and (box == other_box or spread.startswith("warp "))):
                        return Problem(
                            "race",
                            a,
                            ref,
                            cell,
                            by,
                            r.ref,
                            (write, wrote, engine, other_engine, cell, -1, self._waited(st, r)),
                        )
                kept.append(r)
            if cell in aliases:
                problem = self._aliased(st, a, ins, cell, box, write, spread)
                if problem is not None:
                    return problem
            kept.append(Record(token, a, write, box, engine, spread, ref))
            cells[cell] = tuple(kept)
        if engine == SYNC:
            st.known[a] = known | token
            if twin:
                st.twin[a] |= token << 1
        elif engine != TX:
            row = list(st.engines[a])
            groups = (*row[engine], token)
            keep = system.agents[a].groups.get(engine, 0) + 1
            if len(groups) > keep:  # older groups complete together
                groups = (groups[0] | groups[1], *groups[2:])
            row[engine] = groups
            st.engines[a] = tuple(row)
        return None

    def _aliased(
        self, st: State, a: int, ins: Instruction, cell: int, box: int, write: bool, spread: str | None
    ) -> Problem | None:
        """Checks an access against those to other fields with the same bytes."""
        known, engine = st.known[a], ins[3]
        for other in self.system.aliases[cell]:
            for r in st.cells[other]:
                if (write or r.write) and not known & r.token and self.system.share_bytes(cell, box, other, r.box):
                    if r.agent == a:
                        fine = r.engine == SYNC or (engine == r.engine and engine in _IN_ORDER)
                    else:
                        fine = spread == r.spread == "lanes" and self._siblings(a, r.agent)
                    if not fine:
                        data = (write, r.write, engine, r.engine, cell, other, self._waited(st, r))
                        return Problem("alias", a, ins[4], cell, r.agent, r.ref, data)
        return None

    def _waited(self, st: State, r: Record) -> bool:
        """Whether the agent that started an asynchronous access knows that it is over."""
        return bool(st.known[r.agent] & r.token)

    def _siblings(self, a: int, b: int) -> bool:
        x, y = self.system.agents[a], self.system.agents[b]
        return x.task is y.task and x.instance is y.instance and x.cta == y.cta

    def _bracket(self, st: State, a: int, ins: Instruction) -> Problem | None:
        position = st.position
        for kind, one, two, base, stages in ins[1]:
            if kind == PRODUCE:
                if position[one] <= position[two]:
                    return Problem("unacquired", a, ins[2])
            elif kind == CONSUME:
                if position[one] <= position[two]:
                    return Problem("unwaited", a, ins[2])
            else:
                p = position[one]
                phase = p // stages - two
                b = base + p % stages
                d = st.done[b]
                if d <= phase or not st.known[a] & (st.value[b] if d == phase + 1 else st.previous[b]):
                    return Problem("unacquired" if two == PROXY_PRODUCER else "unwaited", a, ins[2], b)
        return None

    def _complete(self, st: State, a: int, ins: Instruction) -> None:
        """All but the last n groups of an engine are complete. A bulk store's source is free before the rest is."""
        engine, n = abs(ins[1]), ins[2]
        groups = st.engines[a][engine]
        cut = max(0, len(groups) - n)
        if not cut:
            return
        row = list(st.engines[a])
        for token in groups[:cut]:
            st.known[a] |= token
            if self.system.agents[a].twin:
                st.twin[a] |= token << 1
        row[engine] = groups[cut:]
        st.engines[a] = tuple(row)

    def _guard(self, st: State, a: int, ins: Instruction, code: list[Instruction]) -> bool:
        n = st.iteration[a]
        if ins[1] == FIRST:
            return n == 0
        if ins[1] == LAST:
            head = code[ins[4]]
            _, exact, _ = self.bounds(st, head[1], st.tile[a], self.system.agents[a].cta)
            return exact is not None and n == -(-exact // head[2]) - 1
        return bool(n >= ins[3] and (n - ins[3]) % ins[2] == 0)

    def _skip(self, st: State, a: int, ins: Instruction) -> None:
        """Moves the consumer position on, by numbers where they are decided and by promises where they are not."""
        _, slots, form, offset, _ = ins
        tile = max(0, st.tile[a] + offset)
        for slot in slots:
            st.position[slot] += form.const
            for index, coefficient in form.terms:
                fixed = self.fixed.get(index)
                if fixed is not None:
                    st.position[slot] += coefficient * fixed
                else:
                    key = self.unknown(index, tile, self.system.agents[a].cta)
                    st.debts[a] = (*st.debts[a], (slot, coefficient, key))

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

    def _owes(self, st: State, a: int, ins: Instruction, needs: list[tuple[int, Decision]]) -> bool:
        """Whether the step needs a position that waits for a promise."""
        left = self.pay(st, a)
        op = ins[0]
        touched = (
            ins[2] if op in (WAIT, TRY, ARRIVE, ARM) else [i.slot for i in ins[1]] if op == ACCESS else
            [s for c in ins[1] for s in c[1:3]]
        )  # fmt: skip
        for slot, _, key in left:
            if slot in touched:
                st.low.setdefault(key, self.least(key.what))
                needs.append((key.tile, key))
                return True
        return False

    def _end(self, st: State, a: int) -> Problem | None:
        """A task may not end while an engine still reads the shared memory that goes with it."""
        for token in (*st.engines[a][BULK], *st.engines[a][WGMMA]):
            for records in st.cells:
                for r in records:
                    if r.token & token and r.agent == a and r.spread != OWN:
                        return Problem("unread", a, r.ref)
        return None
