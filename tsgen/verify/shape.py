"""The shape of a state: what agents and barriers have reached, counted from the slowest one.

The stages of a ring are turned so that the oldest comes first, iterations are counted from what is left of the loop,
and tiles from the slowest agent's. States of equal shape and equal knowledge (`tsgen.verify.knowledge`) have equal
futures, so a loop that comes back to a known state needs no further trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tsgen.verify.machine import ACCESS, FIRST, LAST, Agent, System, Test
from tsgen.verify.parts import own_barriers, sides
from tsgen.verify.run import Runner
from tsgen.verify.state import Decision, State
from tsgen.verify.symbols import Linear

Key = tuple[Any, ...]


class Shapes:
    """Shapes of the states of one set of agents."""

    def __init__(self, system: System, agents: list[int], runner: Runner, enough: int | None = None) -> None:
        self.system = system
        self.enough = enough
        self.agents = agents
        self.runner = runner
        mine = set(agents)
        owned = _slot_owners(system)
        self._turns = sum(r.stages for r in system.rings) + 2  # tasks that rings couple are never farther apart
        self.rings = [r for r, slots in system.ring_slots.items() if any(owned[s] in mine for s in slots)]
        self.slots = {r: [s for s in system.ring_slots[r] if owned[s] in mine] for r in self.rings}
        own = own_barriers(system, agents)
        both = {r: sides(system, system.rings[r], own) for r in self.rings}
        self.full = {r: full for r, (full, _) in both.items()}
        self.empty = {r: empty for r, (_, empty) in both.items()}
        self.named = [i for i, b in enumerate(system.barriers) if b.side == "named"]
        bases = {f: c for c, f in reversed(list(enumerate(system.cell_field)))}
        self.ring_cells: dict[int, list[tuple[int, int]]] = {r: [] for r in self.rings}
        self.cells: list[int] = []
        ring_of = _cell_rings(system)
        self.turning: dict[int, list[int]] = {r: [] for r in self.rings}  # first cells of what turns with the ring
        self.plain_cells: list[int] = []  # other cells that are asked for
        for base in sorted(bases.values()):
            count = sum(1 for f in system.cell_field if f == system.cell_field[base])
            ring = ring_of.get(base)
            if ring in self.ring_cells and ring not in system.fixed_rings and count == system.rings[ring].stages:
                self.ring_cells[ring].append((base, count))
            else:
                self.cells += range(base, base + count)
            if base in system.turning:
                self.turning.get(system.turning[base], []).append(base)
            else:
                self.plain_cells += [c for c in range(base, base + count) if c in system.read_cells]

    # ---- shape -------------------------------------------------------------------------------------------------

    def forget(self, st: State) -> None:
        """Keeps the promises that can be kept, and drops the decisions that no agent will ask for again."""
        for a in self.agents:
            if st.debts[a]:
                self.runner.pay(st, a)
        for key in [k for k in st.low if not self._wanted(st, k)]:
            low = st.low.pop(key)
            if low > self.runner.least(key.what):
                st.left[key] = low
        for key in [k for k in st.exact if not self._wanted(st, k)]:
            del st.exact[key]
        if self.enough is not None:
            self.part(st, self.enough + 2 * self._turns)
        for key in [k for k in st.decided if not self._open(st, k)]:
            del st.decided[key]

    def part(self, st: State, enough: int) -> None:
        """Where some agents have counted to a large value, and others have not begun to count, or wait far behind, the
        others get a value of their own, as large: what is proven for any two values holds where both are one. Else the
        state would have to keep the value for those who come late, and never come back."""
        for mark in [m for m in st.late if not self._to_come(st, m[0], m[1], m[2])]:
            del st.late[mark]
        for key, value in [*st.low.items(), *st.exact.items()]:
            if value < self.runner.least(key.what) + enough or key.what in self.system.tile_unknowns.values():
                continue
            if key.what in self.runner.turns:
                continue
            asking = [a for a in self.agents if self._asks(st, a, key) and key.what in self.system.agents[a].queries]
            users = [a for a in asking if self._to_come(st, a, key.what, key.tile)]
            left = {a: self._left(st, a) for a in users if self._inside(st, a) and st.tile[a] == key.tile}
            first = min(left.values(), default=self._turns + 1) if users == asking else 0  # else somebody is through
            if first > self._turns:
                continue  # nobody has counted so far
            late = [a for a in users if a not in left or left[a] - first > self._turns]
            if late and not any(k == key for a in late for _, _, k in st.debts[a]):
                new = key._replace(iteration=key.iteration + 1)
                st.low[new] = self.runner.least(key.what) + enough
                st.late.update({(a, key.what, key.tile): new.iteration for a in late})

    def _left(self, st: State, a: int) -> int:
        """The trips that an agent has before it in its loop, at least."""
        agent = self.system.agents[a]
        ins = agent.code[agent.loop[0]]
        left: int = -(-self._least(st, agent, a, ins[1]) // ins[2]) - st.iteration[a]
        return left

    def _to_come(self, st: State, a: int, unknown: int, tile: int) -> bool:
        """Whether an agent may still ask for an unknown of a tile."""
        last = self.system.agents[a].queries.get(unknown)
        if last is None or st.pc[a] < 0:
            return False
        return st.tile[a] < tile or (st.tile[a] == tile and st.pc[a] <= last)

    def _asks(self, st: State, a: int, key: Decision) -> bool:
        """Whether this is the value that an agent would ask for."""
        if self.system.symbols.unknowns[key.what].per_cta and self.system.agents[a].cta != key.cta:
            return False
        return st.late.get((a, key.what, key.tile), 0) == key.iteration

    def _wanted(self, st: State, key: Decision) -> bool:
        if key.what in self.system.tile_unknowns.values():
            return True
        for a in self.agents:
            agent = self.system.agents[a]
            last = agent.queries.get(key.what) if self._asks(st, a, key) else None
            if last is None or st.pc[a] < 0:
                if st.pc[a] >= 0 and any(k == key for _, _, k in st.debts[a]):
                    return True
                continue
            tile = st.tile[a]
            if (
                tile < key.tile
                or (tile == key.tile and st.pc[a] <= last)
                or key.tile < tile <= key.tile + agent.looks_back
            ):
                return True
            if any(k == key for _, _, k in st.debts[a]):
                return True
        return False

    def _open(self, st: State, key: Decision) -> bool:
        """Whether an agent may still ask for an outcome."""
        c = self.system.conditions[key.what]
        for a in self.agents:
            agent = self.system.agents[a]
            if st.pc[a] < 0 or (c.per_cta and agent.cta != key.cta):
                continue
            if key.what in agent.skips and (not c.per_tile or st.tile[a] <= key.tile):
                return True
            last = agent.asks.get(key.what)
            if last is None:
                continue
            if c.per_tile and st.tile[a] > key.tile:
                continue
            if c.per_iteration and (not c.per_tile or st.tile[a] == key.tile):
                inside = agent.loop[0] <= st.pc[a] <= agent.loop[1]
                now = agent.value(st.iteration[a])
                if inside and (now > key.iteration or (now == key.iteration and st.pc[a] > last)):
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
        parts.append(tuple(sorted((a, u, t - tile, n) for (a, u, t), n in st.late.items())))
        parts.append(tuple(sorted((self._relative(st, k, tile, inside), v) for k, v in st.decided.items())))
        for r in self.rings:
            ring = self.system.rings[r]
            places = [self.place(st, s) for s in self.slots[r]]
            base = min(places) // ring.stride * ring.stride
            parts.append((base % ring.stages if r in self.system.fixed_rings else 0, tuple(p - base for p in places)))
            parts.append(self._ring(st, r, base))
            parts += self._written(st, r, base)
        parts += [st.written[c].boxes for c in self.plain_cells]
        for b in self.named:
            parts.append(st.count[b])
        if self.named:
            parts.append(self._named_positions(st))
        for a in self.agents:
            parts.append(tuple((s, c, k._replace(tile=k.tile - tile)) for s, c, k in st.debts[a]))
        parts.append((st.answers, st.answered, st.unanswered, st.unread))
        return tuple(parts)

    def _inside(self, st: State, a: int) -> bool:
        loop = self.system.agents[a].loop
        return loop[0] <= st.pc[a] <= loop[1] and loop[0] >= 0

    def _loop(self, agent: Agent, st: State, a: int) -> Key:
        """What is left to do in the loop, and all that tells one iteration from another."""
        n = st.iteration[a]
        ins = agent.code[agent.loop[0]]
        found: list[int] = [
            self._least(st, agent, a, ins[1]) - n * ins[2],
            n if n < agent.settle else agent.settle + (n - agent.settle) % agent.period,
        ]
        found += self._several(st, agent, a, ins[1], n * ins[2])
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

    def _several(self, st: State, agent: Agent, a: int, form: Linear, begun: int) -> Iterator[int]:
        """What is left to each of the numbers that a loop runs to the greatest or least of."""
        for part in form.parts if form.others else ():
            left, exact, _ = self.runner.bounds(st, part, st.tile[a], agent.cta)
            yield left - begun if exact is None or form.least else max(left - begun, 0)
            yield int(exact is None)

    def _compared(self, st: State, agent: Agent, a: int, test: Test) -> list[int]:
        """What a test compares with zero. A number that the loop carries away from zero will not come back."""
        found = []
        if test.form is not None:
            self.runner.asker = a
            low, exact, _ = self.runner.bounds(st, test.form, st.tile[a], agent.cta)
            value = low + test.loop * st.iteration[a]
            factors = [c for _, c in test.form.terms] if exact is None else []
            if value * test.loop >= 0 and all(c * value > 0 for c in factors):
                value = (value > 0) - (value < 0)
            found.append(value)
        for part in test.parts:
            found += self._compared(st, agent, a, part)
        return found

    def _least(self, st: State, agent: Agent, a: int, form: Linear) -> int:
        self.runner.asker = a
        return self.runner.bounds(st, form, st.tile[a], agent.cta)[0]

    def _relative(self, st: State, key: Decision, tile: int, inside: list[int]) -> Decision:
        """An outcome's place, counted from the slowest agent that asks for it."""
        agents, c = self.system.agents, self.system.conditions[key.what]
        asking = [agents[a].value(st.iteration[a]) for a in inside if key.what in agents[a].asks and c.per_iteration]
        return key._replace(tile=key.tile - tile if c.per_tile else 0, iteration=key.iteration - min(asking, default=0))

    def _values(self, st: State, tile: int, inside: list[int]) -> Key:
        """Which unknowns are decided; their values where agents wait that have not begun to count."""
        found = []
        for decided, table in ((0, st.low), (1, st.exact)):
            for key, value in table.items():
                if key.what in self.system.tile_unknowns.values():
                    found.append((key.what, 0, 0, 0, decided, value - tile))
                    continue
                early = any(
                    a not in inside and self._asks(st, a, key) and self._to_come(st, a, key.what, key.tile)
                    for a in self.agents
                )
                place = (key.what, key.tile - tile, key.cta, key.iteration)
                found.append((*place, decided, value if early else 0))
        return tuple(sorted(found))

    def base(self, st: State, r: int) -> int:
        """The position of a ring's slowest user, rounded down to a whole turn of its lanes."""
        stride = self.system.rings[r].stride
        return self.slowest(st, r) // stride * stride

    def place(self, st: State, slot: int) -> int:
        """A position; promised moves count with the least value of what they wait for."""
        p = st.position[slot]
        if any(st.debts):
            for debts in st.debts:
                for s, c, key in debts:
                    if s == slot:
                        p += c * st.exact.get(key, st.low.get(key, 0))
        return p

    def slowest(self, st: State, r: int) -> int:
        """The least position of a ring's users."""
        return min(self.place(st, s) for s in self.slots[r])

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

    def _written(self, st: State, r: int, base: int) -> list[Key]:
        """What was written of the ring's stages in turns that somebody may still read."""
        found: list[Key] = []
        n = self.system.rings[r].stages
        for first in self.turning[r]:
            for i in range(n):
                stage = (base + i) % n
                turn, boxes = st.written[first + stage]
                place = turn * n + stage - base
                found.append((place, boxes) if place >= 0 else ())
        return found

    def _named_positions(self, st: State) -> Key:
        """Positions of each named barrier's users, counted from its complete phases."""
        found = []
        for slot, b in self.system.named_users:
            found.append(st.position[slot] - st.done[b])
        return tuple(found)


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
