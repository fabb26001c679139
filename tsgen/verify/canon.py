"""When are two states of the machine the same? If nothing that can still happen tells them apart.

A state's *shape* has what agents and barriers have reached, counted from the slowest one, with the stages of a ring
turned so that the oldest comes first. Its *knowledge* has who knows of which live event. States of equal shape and
knowledge have equal futures, so a loop that comes back to a known state needs no further trips.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

from tsgen.verify.machine import ACCESS, FIRST, LAST, Agent, System, Test
from tsgen.verify.run import Runner
from tsgen.verify.state import ALWAYS, GRID, Decision, Record, State
from tsgen.verify.symbols import Linear
from tsgen.verify.works import OWN

Key = tuple[Any, ...]


class Knowledge(NamedTuple):
    """`key`: what the live events are; `bits`: for each mask which of them are in it, first event highest (the last bit
    is padding). `tokens` and `masks` say where that stands in the state."""

    key: Key
    bits: tuple[int, ...]
    tokens: list[int]
    masks: list[tuple[list[int], int]]

    def covers(self, bits: tuple[int, ...]) -> bool:
        """Whether everything known in `bits` is known here."""
        return not any(b & ~m for b, m in zip(bits, self.bits, strict=True))

    def narrow(self, bits: tuple[int, ...]) -> tuple[int, ...]:
        """Makes the state forget what is not known in `bits`, too."""
        width = len(self.tokens)
        met = []
        for mine, other, (table, i) in zip(self.bits, bits, self.masks, strict=True):
            lost = mine & ~other
            while lost:
                top = lost.bit_length()
                table[i] &= ~self.tokens[width + 1 - top]
                lost &= ~(1 << (top - 1))
            met.append(mine & other)
        return tuple(met)


class Canon:
    """Canonical keys of the states of one set of agents."""

    def __init__(self, system: System, agents: list[int], runner: Runner) -> None:
        self.system = system
        self.agents = agents
        self.runner = runner
        mine = set(agents)
        owned = _slot_owners(system)
        self.rings = [r for r, slots in system.ring_slots.items() if any(owned[s] in mine for s in slots)]
        self.slots = {r: [s for s in system.ring_slots[r] if owned[s] in mine] for r in self.rings}
        self.full = {r: [b for b in system.rings[r].full if b in system.reached] for r in self.rings}
        self.empty = {r: [b for b in system.rings[r].empty if b in system.reached] for r in self.rings}
        self.named = [i for i, b in enumerate(system.barriers) if b.side == "named"]
        bases = {f: c for c, f in reversed(list(enumerate(system.cell_field)))}
        self.ring_cells: dict[int, list[tuple[int, int]]] = {r: [] for r in self.rings}
        self.cells: list[int] = []
        ring_of = _cell_rings(system)
        for base in sorted(bases.values()):
            count = sum(1 for f in system.cell_field if f == system.cell_field[base])
            ring = ring_of.get(base)
            if ring in self.ring_cells and ring not in system.fixed_rings and count == system.rings[ring].stages:
                self.ring_cells[ring].append((base, count))
            else:
                self.cells += range(base, base + count)

    # ---- shape -------------------------------------------------------------------------------------------------

    def forget(self, st: State) -> None:
        """Drops the decisions that no agent will ask for again."""
        for table in (st.low, st.exact):
            for key in [k for k in table if not self._wanted(st, k)]:
                del table[key]
        for key in [k for k in st.decided if not self._open(st, k)]:
            del st.decided[key]

    def settle(self, st: State) -> None:
        """Forgets accesses and completions that everybody knows who could ask: nothing depends on them any more."""
        system, known = self.system, st.known
        for b, users in system.value_users.items():
            for table in (st.value, st.previous):
                token = table[b]
                if token != ALWAYS and all(known[a] & token for a in users):
                    table[b] = ALWAYS
        for c, records in enumerate(st.cells):
            if records:
                left = tuple(r for r in records if not self._dead(st, c, r))
                if len(left) != len(records):
                    st.cells[c] = left

    def _dead(self, st: State, c: int, r: Record) -> bool:
        known = st.known
        own = known[r.agent]
        if r.engine and not own & r.token:
            return False
        if self.system.agents[r.agent].twin and not own & (r.token << 1) and r.spread != OWN:
            return False
        users = self.system.cell_users[c] if r.write else self.system.cell_writers[c]
        return all(known[a] & r.token for a in users if a != r.agent)

    def _wanted(self, st: State, key: Decision) -> bool:
        if key.what in self.system.tile_unknowns.values():
            return True
        for a in self.agents:
            agent = self.system.agents[a]
            last = agent.queries.get(key.what)
            if last is None or st.pc[a] < 0:
                if st.pc[a] >= 0 and any(k == key for _, _, k in st.debts[a]):
                    return True
                continue
            tile = st.tile[a]
            if (
                tile < key.tile
                or (tile == key.tile and st.pc[a] <= last)
                or (agent.looks_back and tile == key.tile + 1)
            ):
                return True
            if any(k == key for _, _, k in st.debts[a]):
                return True
        return False

    def _open(self, st: State, key: Decision) -> bool:
        """Whether an agent may still ask for an outcome."""
        conditions = self.system.skips if key.kind == "skip" else self.system.conditions
        c = conditions[key.what]
        for a in self.agents:
            agent = self.system.agents[a]
            if st.pc[a] < 0 or (c.per_cta and agent.cta != key.cta):
                continue
            if key.kind == "skip":
                if key.what in agent.skips and (not c.per_tile or st.tile[a] <= key.tile):
                    return True
                continue
            last = agent.asks.get(key.what)
            if last is None:
                continue
            if c.per_tile and st.tile[a] > key.tile:
                continue
            if c.per_iteration and (not c.per_tile or st.tile[a] == key.tile):
                inside = agent.loop[0] <= st.pc[a] <= agent.loop[1]
                if inside and (
                    st.iteration[a] > key.iteration or (st.iteration[a] == key.iteration and st.pc[a] > last)
                ):
                    continue
                if not inside and st.pc[a] > agent.loop[1]:
                    continue
            return True
        return False

    def shape(self, st: State) -> Key:
        """Everything but who knows what."""
        tiles = [st.tile[a] for a in self.agents if st.pc[a] >= 0]
        tile = min(tiles, default=0)
        inside = [a for a in self.agents if self._inside(st, a)]
        parts: list[Any] = []
        for a in self.agents:
            agent = self.system.agents[a]
            loop = self._loop(agent, st, a) if a in inside else ()
            engines = tuple(map(len, st.engines[a]))
            parts.append((st.pc[a], st.tile[a] - tile if st.pc[a] >= 0 else 0, st.skipped[a], loop, engines))
        parts.append(self._values(st, tile, inside))
        parts.append(tuple(sorted((self._relative(st, k, tile, inside), v) for k, v in st.decided.items())))
        for r in self.rings:
            ring = self.system.rings[r]
            places = [self._place(st, s) for s in self.slots[r]]
            base = min(places) // ring.stride * ring.stride
            parts.append((base % ring.stages if r in self.system.fixed_rings else 0, tuple(p - base for p in places)))
            parts.append(self._ring(st, r, base))
        for b in self.named:
            parts.append(st.count[b])
        if self.named:
            parts.append(self._named_positions(st))
        for a in self.agents:
            parts.append(tuple((s, c, k._replace(tile=k.tile - tile)) for s, c, k in st.debts[a]))
        return tuple(parts)

    def _inside(self, st: State, a: int) -> bool:
        loop = self.system.agents[a].loop
        return loop[0] <= st.pc[a] <= loop[1] and loop[0] >= 0

    def _loop(self, agent: Agent, st: State, a: int) -> Key:
        """What is left to do in the loop, and all that tells one iteration from another."""
        n = st.iteration[a]
        ins = agent.code[agent.loop[0]]
        found: list[int] = [self._least(st, agent, a, ins[1]) - n * ins[2], n % agent.period]
        for kind, period, start in agent.guards:
            if kind == FIRST:
                found.append(min(n, 1))
            elif kind != LAST:
                found.append(n if n < start else start + (n - start) % period)
        for index in agent.asks:
            test = self.system.conditions[index].test
            if test is not None:
                found += self._compared(st, agent, a, test)
        return tuple(found)

    def _compared(self, st: State, agent: Agent, a: int, test: Test) -> list[int]:
        found = [] if test.form is None else [self._least(st, agent, a, test.form) + test.loop * st.iteration[a]]
        for part in test.parts:
            found += self._compared(st, agent, a, part)
        return found

    def _least(self, st: State, agent: Agent, a: int, form: Linear) -> int:
        return self.runner.bounds(st, form, st.tile[a], agent.cta)[0]

    def _relative(self, st: State, key: Decision, tile: int, inside: list[int]) -> Decision:
        """An outcome's place, counted from the slowest agent that asks for it."""
        asking = [st.iteration[a] for a in inside if key.what in self.system.agents[a].asks]
        return key._replace(tile=key.tile - tile, iteration=key.iteration - min(asking, default=0))

    def _values(self, st: State, tile: int, inside: list[int]) -> Key:
        """Which unknowns are decided; their values where agents wait that have not begun to count."""
        found = []
        for decided, table in ((0, st.low), (1, st.exact)):
            for key, value in table.items():
                if key.what in self.system.tile_unknowns.values():
                    found.append((key.what, 0, 0, decided, value - tile))
                    continue
                early = any(
                    st.pc[a] >= 0
                    and key.what in self.system.agents[a].queries
                    and a not in inside
                    and (st.tile[a] < key.tile or st.pc[a] <= self.system.agents[a].queries[key.what])
                    for a in self.agents
                )
                found.append((key.what, key.tile - tile, key.cta, decided, value if early else 0))
        return tuple(sorted(found))

    def _place(self, st: State, slot: int) -> int:
        """A position; promised moves count with the least value of what they wait for."""
        p = st.position[slot]
        for debts in st.debts:
            for s, c, key in debts:
                if s == slot:
                    p += c * st.exact.get(key, st.low.get(key, 0))
        return p

    def _ring(self, st: State, r: int, base: int) -> Key:
        ring = self.system.rings[r]
        found = []
        turn = base % ring.stages
        for bases in (self.full[r], self.empty[r]):
            for first in bases:
                for i in range(ring.stages):
                    stage = (turn + i) % ring.stages
                    b = first + stage
                    found.append(
                        (st.done[b] * ring.stages + stage - base, st.count[b], st.transfer[b], len(st.waits[b]))
                    )
        return tuple(found)

    def _named_positions(self, st: State) -> Key:
        """Positions of each named barrier's users, counted from its complete phases."""
        found = []
        for slot, b in self.system.named_users:
            found.append(st.position[slot] - st.done[b])
        return tuple(found)

    # ---- knowledge ---------------------------------------------------------------------------------------------

    def knowledge(self, st: State) -> Knowledge:
        """Who knows of which live event, and what the events are."""
        live: list[int] = [GRID]
        masks: list[tuple[list[int], int]] = [(st.known, a) for a in self.agents]
        masks += [(st.twin, a) for a in self.agents if self.system.agents[a].twin]
        labels: list[Any] = []
        for r in self.rings:
            ring = self.system.rings[r]
            base = min(self._place(st, s) for s in self.slots[r]) // ring.stride * ring.stride
            turn = base % ring.stages
            for lag, bases in ((0, self.full[r]), (1, self.empty[r])):
                for first in bases:
                    for i in range(ring.stages):
                        b = first + (turn + i) % ring.stages
                        self._barrier(st, b, live, masks, labels, self._awaited(st, r, b, lag))
            for first, count in self.ring_cells[r]:
                for i in range(count):
                    self._cell(st, first + (turn + i) % count, live, labels)
        for b in self.named:
            self._barrier(st, b, live, masks, labels, True)
        for c in self.cells:
            self._cell(st, c, live, labels)
        tokens = list(dict.fromkeys(live))
        width = max(st.tokens, 2)
        pick = itemgetter(*(width - t.bit_length() for t in tokens), 0)
        found = []
        for table, i in masks:
            m = table[i]
            found.append(int("".join(pick(f"{m:0{width}b}")), 2) if m else 0)
        groups = []
        for a in self.agents:
            for engine in st.engines[a]:
                groups += [int("".join(pick(f"{m:0{width}b}")), 2) for m in engine]
        index = {t: i for i, t in enumerate(tokens)}
        order = tuple(index[t] for t in live)
        return Knowledge((tuple(labels), order, tuple(groups)), tuple(found), tokens, masks)

    def _awaited(self, st: State, r: int, b: int, lag: int) -> bool:
        """Whether somebody has yet to take what the last complete phase hands over."""
        ring = self.system.rings[r]
        stage = self.system.barriers[b].stage
        due = (st.done[b] - 1 + lag) * ring.stages + stage
        return any(st.position[s] <= due for s in self.slots[r])

    def _barrier(
        self, st: State, b: int, live: list[int], masks: list[tuple[list[int], int]], labels: list[Any], awaited: bool
    ) -> None:
        value, previous = st.value[b], st.previous[b] if awaited and b in self.system.value_users else ALWAYS
        live += (t for t in (value, previous) if t != ALWAYS)
        labels.append((value != ALWAYS, previous != ALWAYS, awaited))
        masks.append((st.current, b))
        if awaited:
            masks.append((st.last, b))
        for w in sorted(st.waits[b], key=lambda w: (w.agent, w.token)):
            live.append(w.token)
            labels.append(w.agent)

    def _cell(self, st: State, c: int, live: list[int], labels: list[Any]) -> None:
        records = st.cells[c]
        if records:
            for r in sorted(records, key=_record_order):
                live.append(r.token)
                if self.system.agents[r.agent].twin:
                    live.append(r.token << 1)
                labels.append(r[1:6])
            labels.append(c if c in self.cells else None)
        else:
            labels.append(None)


def _record_order(r: Record) -> Key:
    return (r.agent, r.write, r.box, r.engine, r.spread or "", r.token)


def _slot_owners(system: System) -> dict[int, int]:
    """slot -> agent; slots belong to one agent each."""
    found: dict[int, int] = {}
    for a, agent in enumerate(system.agents):
        for slot in agent.slots:
            found[slot] = a
    return found


def _cell_rings(system: System) -> dict[int, int]:
    """first cell of a field -> the ring whose positions choose the stage."""
    found: dict[int, int] = {}
    for agent in system.agents:
        for ins in agent.code:
            for item in ins[1] if ins[0] == ACCESS else ():
                if item.slot >= 0 and item.stages > 1:
                    found[item.base] = system.slot_ring[item.slot]
    return found
