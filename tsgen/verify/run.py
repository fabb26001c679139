"""One maximal run of the machine: every agent goes on until it must wait for a barrier or for a decision.

Barriers only ever complete more phases, and waiting takes nothing away, so the order in which agents are served does
not matter: every maximal run ends in the same state, with the same knowledge (docs/verification.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tsgen.derive.spread import REGISTERS
from tsgen.verify import passing
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
    CP_OPEN,
    EARLY,
    END,
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
    TCGEN05,
    TILE,
    TILE_INIT,
    TRIED,
    TRY,
    WAIT,
    WGMMA,
    WHEN,
    Instruction,
    System,
)
from tsgen.verify.questions import Questions
from tsgen.verify.state import GRID, Decision, Problem, State, Wait
from tsgen.verify.touch import access
from tsgen.verify.works import CONSUME, PRODUCE

NEXT, STOP, ENDED = -1, -2, -3  # instead of a pc: go on, wait, the code is at its end
PROXY_PRODUCER = 1
MAX_STEPS = 20_000_000  # of one exploration: some twenty seconds
Needs = list[tuple[int, Decision]]  # the decisions that agents wait for, with the tile they are in


class Runner(Questions):
    """Runs states of one system. Each instruction is one method; it returns where the agent goes on."""

    def __init__(
        self, system: System, agents: list[int], fixed: dict[int, int], floors: Mapping[int, int] | None = None
    ) -> None:
        super().__init__(system, fixed)
        self.floors = floors or {}  # least values of unknowns, where they are not to be all that are possible
        self.agents = agents
        self.steps = 0
        self.log: list[tuple[Any, ...]] | None = None
        self.problem: Problem | None = None
        self.remarks: dict[str, Problem] = {}  # the first of each kind: what is wrong only if nothing worse is
        self.stop_at = ""  # a kind of remark that ends the run
        self.asker = -1  # the agent that asks
        self.needs: Needs = []
        self.ready: list[int] = []
        self.blocked: dict[int, list[int]] = {}
        self.st = State(system)
        self.methods: list[Callable[[int, Instruction], int]] = [self._end] * (END + 1)
        for op, method in (
            (WAIT, self._wait),
            (TRY, self._try),
            (ARRIVE, self._arrive),
            (ARM, self._arm),
            (ACCESS, self._access),
            (BRACKET, self._bracket),
            (COMPLETE, self._complete),
            (NAMED_ARRIVE, self._named_arrive),
            (NAMED_WAIT, self._named_wait),
            (LOOP_INIT, self._loop_init),
            (LOOP, self._loop),
            (END_LOOP, self._end_loop),
            (TILE_INIT, self._tile_init),
            (TILE, self._tile),
            (END_TILE, self._end_tile),
            (SKIPPABLE, self._skippable),
            (GUARD, self._guard),
            (WHEN, self._when),
            (SKIP, self._skip),
            (GRID_WAIT, self._grid_wait),
            (GRID_LAUNCH, self._grid_launch),
            (GRID_NEEDED, self._grid_needed),
        ):
            self.methods[op] = method

    def run(self, st: State) -> tuple[Problem | None, Needs]:
        """Runs until nothing moves. A problem, or the decisions that agents wait for."""
        self.st, self.problem, self.needs, self.blocked, self.remarks = st, None, [], {}, {}
        self.ready = [a for a in reversed(self.agents) if st.pc[a] >= 0]
        methods, log, steps = self.methods, self.log, 0
        while self.ready and self.steps + steps < MAX_STEPS:
            a = self.asker = self.ready.pop()
            code = self.system.agents[a].code
            pc = st.pc[a]
            while True:
                ins = code[pc]
                steps += 1
                if st.debts[a] and ins[0] <= BRACKET and self._owes(a, ins):
                    break
                if log is not None:
                    position = st.position[ins[2][0]] if ins[0] in (WAIT, TRY, ARRIVE) else -1
                    log.append((a, pc, st.iteration[a], st.tile[a], position))
                to = methods[ins[0]](a, ins)
                if to == NEXT:
                    pc += 1
                elif to == STOP:
                    break
                elif to == ENDED:
                    pc = -1
                    break
                else:
                    pc = to
            st.pc[a] = pc
            if self.problem is not None:
                break
        self.steps += steps
        return self.problem, self.needs if self.problem is None else []

    def unknown(self, index: int, tile: int, cta: int) -> Decision:
        key = super().unknown(index, tile, cta)
        chosen = self.st.late.get((self.asker, index, tile)) if self.st.late else None
        return key if chosen is None else key._replace(iteration=chosen)

    def least(self, index: int) -> int:
        floor = self.floors.get(index)
        return super().least(index) if floor is None else floor

    # ---- barriers ----------------------------------------------------------------------------------------------

    def _fail(self, *what: Any, **more: Any) -> int:
        self.problem = Problem(*what, **more)
        return STOP

    def _need(self, a: int, decision: Decision) -> int:
        self.needs.append((self.st.tile[a], decision))
        return STOP

    def _wait(self, a: int, ins: Instruction) -> int:
        """Before its first phase a barrier counts as complete, known to all: no check depends on the lap."""
        _, base, slots, stages, stride, lag, flags, ref = ins
        st = self.st
        p = st.position[slots[0]]
        phase, b = p // stages - lag, base + p % stages
        done, known = st.done[b], st.known
        if done != phase + 1:
            if done > phase + 1:
                return self._fail("late", a, ref, b, data=(phase,))
            if done < phase or (flags & EARLY and not known[a] & st.value[b]):
                return self._fail("early", a, ref, b, data=(phase,))
            self.blocked.setdefault(b, []).append(a)
            return STOP
        if flags & EARLY and not known[a] & st.previous[b]:
            return self._fail("early", a, ref, b, data=(phase,))
        known[a] |= st.last[b]
        if flags & MARK:
            token = 1 << st.tokens
            st.tokens += 1
            known[a] |= token
            st.waits[b] = (*st.waits[b], Wait(token, a, ref))
        if flags & TRIED:
            site, slot = 1 << ref, 1 << slots[0]
            if st.answers & slot:
                st.answers ^= slot
                st.answered |= site
            else:
                st.unanswered |= site
            if st.answered & st.unanswered & site:
                return self._fail("answer", a, ref, b)
        for slot in slots:
            st.position[slot] += stride
        if not lag and self.system.agents[a].watched:
            passing.waited(self.system, st, a, slots, ref, self.remarks)
            if self.stop_at in self.remarks:
                return self._fail(*self.remarks[self.stop_at])
        return NEXT

    def _try(self, a: int, ins: Instruction) -> int:
        """A test reads the same bit as a wait, so it, too, may not be two phases ahead."""
        _, base, slots, stages, _, lag, ref = ins
        st = self.st
        p = st.position[slots[0]]
        phase, b = p // stages - lag, base + p % stages
        done = st.done[b]
        if done < phase or not st.known[a] & (st.value[b] if done == phase else st.previous[b]):
            return self._fail("early", a, ref, b, data=(phase,))
        st.answers |= 1 << slots[0]
        return NEXT

    def _arrive(self, a: int, ins: Instruction) -> int:
        _, bases, slots, stages, stride, units, carry, opposite, lag, own, ref = ins
        st = self.st
        position, known = st.position, st.known
        p = position[slots[0]]
        stage, phase = p % stages, p // stages
        if own >= 0 and position[own] <= p:
            return self._fail("unacquired" if lag else "unwaited", a, ref, data=(self.system.slot_ring[own],))
        if opposite >= 0:
            b = opposite + stage
            done = st.done[b] + lag
            if done <= phase or not known[a] & (st.value[b] if done == phase + 1 else st.previous[b]):
                ring = self.system.slot_ring[slots[0]]
                return self._fail("unemptied" if lag else "unfilled", a, ref, b, data=(ring,))
        mask = known[a] | st.twin[a]
        if carry == CARRY_UMMA:
            for token in st.engines[a][TCGEN05]:
                mask |= token
        elif carry == CARRY_CP_ASYNC:
            for token in (*st.engines[a][CP_ASYNC], *st.engines[a][CP_OPEN]):
                mask |= token | token << 1 if self.system.agents[a].twin else token
        for base in bases:
            if not self._count(base + stage, phase, units, mask, 0, a, ref):
                return STOP
        for slot in slots:
            position[slot] += stride
        return NEXT

    def _arm(self, a: int, ins: Instruction) -> int:
        _, bases, slots, stages, stride, units, nbytes, ref = ins
        p = self.st.position[slots[0]] - stride
        mask = self.st.known[a] | self.st.twin[a]
        for base in bases:
            if not self._count(base + p % stages, p // stages, units, mask, nbytes, a, ref):
                return STOP
        return NEXT

    def _count(self, b: int, phase: int, units: int, mask: int, nbytes: int, a: int, ref: int) -> bool:
        """An arrival or bytes for a phase of a barrier. False, with the problem, if they count for another phase."""
        st = self.st
        if phase != st.done[b] or not st.known[a] & st.value[b]:
            self._fail("surplus" if phase < st.done[b] else "attribution", a, ref, b, data=(phase,))
            return False
        need = self.system.barriers[b].need
        st.count[b] += units
        if st.count[b] > need:
            self._fail("surplus", a, ref, b, data=(phase,))
            return False
        st.transfer[b] += nbytes
        st.current[b] |= mask
        if st.count[b] == need and not st.transfer[b]:
            return self._completed(b, a)
        return True

    def _completed(self, b: int, a: int) -> bool:
        """The phase is complete: whoever waits for it goes on with what it knows. Where only the warps of one agent
        arrive, whoever hears from all of them later knows of it, too."""
        st = self.st
        mask = st.current[b]
        for w in st.waits[b]:
            if not mask & w.token:
                self._fail("lap", w.agent, w.ref, b, data=(st.done[b] - 1,))
                return False
        token = 1 << st.tokens
        st.tokens += 1
        st.done[b] += 1
        st.previous[b], st.value[b] = st.value[b], token
        st.last[b] = mask | token
        if self.system.sole.get(b) == a:
            st.twin[a] |= token
        st.count[b] = st.transfer[b] = st.current[b] = 0
        st.waits[b] = ()
        if b in self.blocked:
            self.ready.extend(self.blocked.pop(b))
        return True

    def _named_arrive(self, a: int, ins: Instruction) -> int:
        _, b, slot, units, ref = ins
        st = self.st
        if not self._count(b, st.position[slot], units, st.known[a] | st.twin[a], 0, a, ref):
            return STOP
        st.position[slot] += 1
        return NEXT

    def _named_wait(self, a: int, ins: Instruction) -> int:
        _, b, slot, ref = ins
        phase = self.st.position[slot] - 1
        done = self.st.done[b]
        if done <= phase:
            self.blocked.setdefault(b, []).append(a)
            return STOP
        if done > phase + 1:
            return self._fail("late", a, ref, b, data=(phase,))
        self.st.known[a] |= self.st.last[b]
        return NEXT

    # ---- memory ------------------------------------------------------------------------------------------------

    def _access(self, a: int, ins: Instruction) -> int:
        st = self.st
        self.problem = access(self.system, st, a, ins, self.remarks) or self.remarks.get(self.stop_at)
        if self.problem is not None:
            return STOP
        for item in ins[1] if st.unread else ():
            if not item.write and item.slot >= 0:
                st.unread &= ~(1 << item.slot)
        if ins[2]:
            mask = st.known[a] | st.twin[a]
            mask |= 3 << (st.tokens - 2) if self.system.agents[a].twin else 1 << (st.tokens - 1)
            for base, slot, stages, back, nbytes in ins[2]:
                p = st.position[slot] - back
                if not self._count(base + p % stages, p // stages, 0, mask, -nbytes, a, ins[4]):
                    return STOP
        return NEXT

    def _bracket(self, a: int, ins: Instruction) -> int:
        """Works want their stages held; a task without an opening step must know that the stage is there."""
        st = self.st
        position = st.position
        for kind, one, two, base, stages in ins[1]:
            if kind in (PRODUCE, CONSUME):
                if position[one] <= position[two]:
                    ring = self.system.slot_ring[one]
                    return self._fail("unacquired" if kind == PRODUCE else "unwaited", a, ins[2], data=(ring,))
                continue
            p = position[one]
            phase, b = p // stages - two, base + p % stages
            done = st.done[b]
            if done <= phase or not st.known[a] & (st.value[b] if done == phase + 1 else st.previous[b]):
                ring = self.system.slot_ring[one]
                return self._fail("unacquired" if two == PROXY_PRODUCER else "unwaited", a, ins[2], b, data=(ring,))
        return NEXT

    def _complete(self, a: int, ins: Instruction) -> int:
        """All but the last n groups of an engine are complete. A bulk store's source is free before the rest is."""
        st = self.st
        engine, n = abs(ins[1]), ins[2]
        groups = st.engines[a][engine]
        cut = max(0, len(groups) - n)
        for token in groups[:cut]:
            st.known[a] |= token
            if self.system.agents[a].twin:
                st.twin[a] |= token << 1
        if cut:
            row = list(st.engines[a])
            row[engine] = groups[cut:]
            st.engines[a] = tuple(row)
        return NEXT

    # ---- blocks ------------------------------------------------------------------------------------------------

    def _loop_init(self, a: int, ins: Instruction) -> int:
        self.st.iteration[a] = 0
        return NEXT

    def _loop(self, a: int, ins: Instruction) -> int:
        _, form, step, leave, last, _ = ins
        st = self.st
        low, exact, missing = self.bounds(st, form, st.tile[a], self.system.agents[a].cta)
        n, trips = st.iteration[a], -(-low // step)
        if exact is not None:
            return leave if n >= trips else NEXT
        if n >= trips - last:  # a loop with `last_iter` must know one trip ahead
            assert missing is not None
            return self._need(a, missing)
        return NEXT

    def _end_loop(self, a: int, ins: Instruction) -> int:
        self.st.iteration[a] += 1
        return ins[1]  # type: ignore[no-any-return]

    def _tile_init(self, a: int, ins: Instruction) -> int:
        self.st.tile[a] = ins[1]
        return NEXT

    def _tile(self, a: int, ins: Instruction) -> int:
        _, _, queue, skip, holds, leave, _ = ins
        st = self.st
        t = st.tile[a]
        total = self.tiles(st, queue)
        if isinstance(total, Decision):
            if t >= st.low[total]:
                return self._need(a, total)
        elif t >= total:
            return leave  # type: ignore[no-any-return]
        if skip >= 0:
            got = self.outcome(st, a, skip)
            if isinstance(got, Decision):
                return self._need(a, got)
            st.skipped[a] = got == holds
        return NEXT

    def _end_tile(self, a: int, ins: Instruction) -> int:
        self.st.tile[a] += ins[1]
        self.st.iteration[a] = 0
        return ins[2]  # type: ignore[no-any-return]

    def _skippable(self, a: int, ins: Instruction) -> int:
        leave: int = ins[1]
        return leave if self.st.skipped[a] else NEXT

    def _guard(self, a: int, ins: Instruction) -> int:
        _, kind, period, start, head, leave, _ = ins
        st = self.st
        n = st.iteration[a]
        if kind == FIRST:
            runs = n == 0
        elif kind == LAST:
            loop = self.system.agents[a].code[head]
            _, exact, _ = self.bounds(st, loop[1], st.tile[a], self.system.agents[a].cta)
            runs = exact is not None and n == -(-exact // loop[2]) - 1
        else:
            runs = n >= start and (n - start) % period == 0
        return NEXT if runs else leave

    def _when(self, a: int, ins: Instruction) -> int:
        got = self.outcome(self.st, a, ins[1])
        if isinstance(got, Decision):
            return self._need(a, got)
        return NEXT if got == ins[2] else ins[3]

    # ---- the rest ----------------------------------------------------------------------------------------------

    def _skip(self, a: int, ins: Instruction) -> int:
        """Moves the consumer position on, by numbers where they are decided and by promises where they are not. Several
        times a number of the launch are the numbers of as many tiles."""
        _, slots, form, offset, _ = ins
        st = self.st
        tile = st.tile[a] + offset
        for slot in slots:
            st.answers &= ~(1 << slot)
            st.position[slot] += form.const
            for index, coefficient in form.terms:
                fixed = self.fixed.get(index)
                if fixed is not None:
                    st.position[slot] += coefficient * fixed
                    continue
                times = self.system.passed(index, coefficient)
                for i in range(times):
                    passed = max(0, tile + (i if offset >= 0 else -i))
                    key = self.unknown(index, passed, self.system.agents[a].cta)
                    st.debts[a] = (*st.debts[a], (slot, coefficient // times, key))
        return NEXT

    def _owes(self, a: int, ins: Instruction) -> bool:
        """Whether the step needs a position that waits for a promise."""
        st, op = self.st, ins[0]
        left = self.pay(st, a)
        if op in (WAIT, TRY, ARRIVE, ARM):
            touched = list(ins[2])
        elif op == ACCESS:
            touched = [i.slot for i in ins[1]] + [t[1] for t in ins[2]]
        else:
            touched = [s for c in ins[1] for s in c[1:3]]
        for slot, _, key in left:
            if slot in touched:
                st.low.setdefault(key, self.least(key.what))
                self.needs.append((key.tile, key))
                return True
        return False

    def _grid_wait(self, a: int, ins: Instruction) -> int:
        self.st.known[a] |= GRID
        return NEXT

    def _grid_launch(self, a: int, ins: Instruction) -> int:
        return NEXT if self.st.known[a] & GRID else self._fail("launch", a, ins[1])

    def _grid_needed(self, a: int, ins: Instruction) -> int:
        return NEXT if self.st.known[a] & GRID else self._fail("grid", a, ins[2], data=(ins[1],))

    def _end(self, a: int, ins: Instruction) -> int:
        """A task may not end while an engine still reads or writes the shared memory that goes with it."""
        st, flying = self.st, 0
        for engine in (BULK, WGMMA, CP_ASYNC, CP_OPEN):
            for token in st.engines[a][engine]:
                flying |= token
        if flying:
            for mask in (*st.current, *st.last, *st.known):
                flying &= ~mask  # a commit made by cp.async took it along: whoever waits for the stage waits for it
        for r in (r for records in st.cells for r in records if flying and r.agent == a and r.spread not in REGISTERS):
            if r.token & flying:
                self._fail("unread", a, r.ref, data=(r.engine,))
        if st.unread:
            passing.ended(self.system, st, a, self.remarks)
            if self.stop_at in self.remarks:
                return self._fail(*self.remarks[self.stop_at])
        return ENDED
