"""What a state knows: for each mask, which of the live events are missing from it.

An event that is not live (an access that nobody can race with any more, a completion that all know who must) counts as
known by all. So of two states of one shape, the one that misses more is the more dangerous: if it has no problem, the
other has none. States of one shape are merged into one that misses what any of them misses.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from tsgen.derive.spread import REGISTERS
from tsgen.verify.leaving import untold
from tsgen.verify.machine import System
from tsgen.verify.shape import Shapes
from tsgen.verify.state import ALWAYS, GRID, Moment, Record, State, Wait

Slot = tuple[Any, ...]  # names an event independently of the state it is found in
Since = tuple[tuple[int, int | None, int | None], ...] | None
Row = tuple[list[int], int]  # a mask: where it is kept


REACH = 2  # tiles or iterations


class Memory:
    """What states of one shape miss: for each, one number for each mask, with a bit for each event."""

    def __init__(self) -> None:
        self.events: dict[Slot, int] = {}
        self.missing: list[list[int]] = []


class Knowledge:
    """Live events and masks of states."""

    def __init__(self, system: System, agents: list[int], shapes: Shapes) -> None:
        self.system = system
        self.agents = agents
        self.shapes = shapes
        self.refs: dict[Slot, int] = {}  # the steps that events came from
        rings = system.rings
        self.barrier_rings = {b: r for r in shapes.rings for b in (*rings[r].full, *rings[r].empty)}
        self.cell_rings = {c: r for r in shapes.rings for c, _ in shapes.ring_cells[r]}
        sole = set(system.sole.values())
        self.joins = {a: system.agents[a].twin or a in sole for a in agents}  # whether its warps know more together

    # ---- what is live ------------------------------------------------------------------------------------------

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
                left = tuple(r for r in (self._live(st, c, r) for r in records) if r is not None)
                if left != records:
                    st.cells[c] = left

    def _live(self, st: State, c: int, r: Record) -> Record | None:
        """An access, with those alone who can still race with it; None if nobody can."""
        known = st.known
        if r.at is not None:
            left = tuple(m for m in r.at if not known[m.agent] & r.token and not self._passed(st, m))
            if not left or any(self._far(st, m) for m in left):
                return None
            return r if left == r.at else r._replace(at=left)
        own = known[r.agent]
        if (r.engine and not own & r.token) or untold(self.system, st, c, r):
            return r
        if self.system.agents[r.agent].twin and not own & (r.token << 1) and r.spread not in REGISTERS:
            return r
        users = self.system.cell_users[c] if r.write else self.system.cell_writers[c]
        return None if all(known[a] & r.token for a in users if a != r.agent) else r

    @staticmethod
    def _passed(st: State, m: Moment) -> bool:
        """Whether an agent has been at a window of a tensor, and does not come to it again."""
        if st.pc[m.agent] < 0:
            return True
        if m.tile < 0:
            return False
        tile = st.tile[m.agent]
        return tile > m.tile or (tile == m.tile and st.iteration[m.agent] > m.iteration >= 0)

    @staticmethod
    def _far(st: State, m: Moment) -> bool:
        """Whether an agent comes to a window so much later that the access is given up: such records would pile up, and
        a race shows in the first tiles and iterations, too."""
        later = m.iteration >= 0 and m.iteration - st.iteration[m.agent] > REACH
        return later or m.tile - st.tile[m.agent] > REACH

    def _events(self, st: State) -> tuple[dict[Slot, int], list[Row]]:
        """Live events with their tokens, and the masks, in an order that only the shape decides."""
        events: dict[Slot, int] = {("grid",): GRID}
        rows: list[Row] = [(st.known, a) for a in self.agents]
        rows += [(st.twin, a) for a in self.agents if self.joins[a]]
        shapes = self.shapes
        for r in shapes.rings:
            ring = self.system.rings[r]
            slowest = shapes.slowest(st, r)
            turn = slowest // ring.stride * ring.stride % ring.stages
            for lag, bases in ((0, shapes.full[r]), (1, shapes.empty[r])):
                for first in bases:
                    for i in range(ring.stages):
                        b = first + (turn + i) % ring.stages
                        self._barrier(st, b, (first, i), events, rows, slowest <= self._due(st, r, b, lag))
            for first, count in shapes.ring_cells[r]:
                for i in range(count):
                    self._cell(st, first + (turn + i) % count, (first, i), events)
        for b in shapes.named:
            self._barrier(st, b, (b, 0), events, rows, True)
        for c in shapes.cells:
            self._cell(st, c, (c, 0), events)
        return events, rows

    def _due(self, st: State, r: int, b: int, lag: int) -> int:
        """The position of those who have yet to take what the last complete phase hands over."""
        return (st.done[b] - 1 + lag) * self.system.rings[r].stages + self.system.barriers[b].stage

    def _barrier(self, st: State, b: int, place: Slot, events: dict[Slot, int], rows: list[Row], awaited: bool) -> None:
        if st.value[b] != ALWAYS:
            events["value", *place] = st.value[b]
        if st.previous[b] != ALWAYS and awaited and b in self.system.value_users:
            events["previous", *place] = st.previous[b]
        rows.append((st.current, b))
        if awaited:
            rows.append((st.last, b))
        for w in st.waits[b]:
            events["wait", *place, w.agent] = w.token
            self.refs["wait", *place, w.agent] = w.ref

    def _cell(self, st: State, c: int, place: Slot, events: dict[Slot, int]) -> None:
        for r in st.cells[c]:
            slot: Slot = ("cell", *place, (*r[1:6], self._since(st, r)), 0)
            while slot in events:
                slot = (*slot[:-1], slot[-1] + 1)
            events[slot] = r.token
            self.refs[slot[1:]] = r.ref
            if self.system.agents[r.agent].twin:
                events["twin", *slot[1:]] = r.token << 1

    @staticmethod
    def _since(st: State, r: Record) -> Since:
        """How many tiles and iterations ago an access to a tensor was, for each agent that may still come to it; None
        where its window does not move."""
        if r.at is None:
            return None
        return tuple(
            (
                m.agent,
                st.tile[m.agent] - m.tile if m.tile >= 0 else None,
                st.iteration[m.agent] - m.iteration if m.iteration >= 0 else None,
            )
            for m in r.at
        )

    # ---- comparing and merging ---------------------------------------------------------------------------------

    def compare(self, st: State, memory: Memory, merge: bool) -> bool | None:
        """None if the memory misses all that the state misses. Else the memory takes it in, and with `merge` the state
        forgets what the memory misses: then the result is True, if there was any such thing."""
        events, rows = self._events(st)
        universe = memory.events
        for slot in events:
            universe.setdefault(slot, len(universe))
        missing = self._missing(st, events, rows, universe)
        for before in memory.missing:
            if not any(m & ~old for m, old in zip(missing, before, strict=True)):
                return None
        if not merge or not memory.missing:
            memory.missing.append(missing)
            return False
        before = memory.missing[0]
        lost = [old & ~m for m, old in zip(missing, before, strict=True)]
        memory.missing[0] = [m | old for m, old in zip(missing, before, strict=True)]
        if not any(lost):
            return False
        self._forget(st, lost, list(universe), events, rows)
        return True

    def _missing(self, st: State, events: dict[Slot, int], rows: list[Row], universe: dict[Slot, int]) -> list[int]:
        """For each mask, the events of the universe that are not in it. Events that are not live are in all."""
        width = max(st.tokens, 2)
        places = [width - events[s].bit_length() if s in events else width for s in universe]
        pick = itemgetter(width, *reversed(places))  # place `width` of a mask's text is a 1
        every = (2 << len(places)) - 1
        masks = [table[i] for table, i in rows]
        for a in self.agents:
            for engine in st.engines[a]:
                masks += engine
        nothing = every ^ int("".join(pick("0" * width + "1")), 2)  # what an empty mask misses
        return [every ^ int("".join(pick(f"{m:0{width}b}1")), 2) if m else nothing for m in masks]

    def _forget(
        self, st: State, lost: list[int], universe: list[Slot], events: dict[Slot, int], rows: list[Row]
    ) -> None:
        """Takes events out of masks. Events that the state does not have are made first, known to all."""
        together = 0
        for m in lost:
            together |= m
        shared: dict[int, int] = {}
        for slot, token in events.items():
            if slot[0] == "cell":
                shared[token] = shared.get(token, 0) + 1
        made = 0
        renewed: list[tuple[int, int]] = []  # tokens that stand for several accesses, and one for this one alone
        for i, slot in enumerate(universe):
            if together >> i & 1:
                if slot not in events:
                    made |= 3 * self._make(st, slot, events)
                elif slot[0] in ("cell", "twin") and shared.get(events["cell", *slot[1:]], 0) > 1:
                    renewed.append(self._separate(st, slot, events))
        if made or renewed:
            self._spread(st, rows, made, renewed)
        groups = [(a, e, g) for a in self.agents for e, engine in enumerate(st.engines[a]) for g in range(len(engine))]
        for n, m in enumerate(lost):
            mask = 0
            while m:
                low = m & -m
                mask |= events[universe[low.bit_length() - 1]]
                m ^= low
            if not mask:
                continue
            if n < len(rows):
                table, index = rows[n]
                table[index] &= ~mask
            else:
                a, e, g = groups[n - len(rows)]
                engines = [list(x) for x in st.engines[a]]
                engines[e][g] &= ~mask
                st.engines[a] = tuple(map(tuple, engines))

    def _spread(self, st: State, rows: list[Row], made: int, renewed: list[tuple[int, int]]) -> None:
        """Lets every mask know of events that were made, and of accesses' own tokens where it knows the common one."""

        def more(m: int) -> int:
            new = m | made
            for old, own in renewed:
                if m & old:
                    new |= own
                if m & old << 1:
                    new |= own << 1
            return new

        for table, index in rows:
            table[index] = more(table[index])
        for a in self.agents:
            st.engines[a] = tuple(tuple(map(more, engine)) for engine in st.engines[a])

    def _separate(self, st: State, slot: Slot, events: dict[Slot, int]) -> tuple[int, int]:
        """Gives one access of a step a token of its own: the state forgets it apart from the step's other accesses. The
        common token and the new one."""
        old = events["cell", *slot[1:]]
        new = 1 << st.tokens
        st.tokens += 2
        events["cell", *slot[1:]] = new
        if ("twin", *slot[1:]) in events:
            events["twin", *slot[1:]] = new << 1
        place = self._actual(st, slot[1], slot[2], True)
        st.cells[place] = tuple(
            r._replace(token=new) if r.token == old and r[1:6] == slot[3][:5] else r for r in st.cells[place]
        )
        return old, new

    def _make(self, st: State, slot: Slot, events: dict[Slot, int]) -> int:
        """Adds an event that another state of this shape had."""
        kind, first, i = slot[:3]
        token = 1 << st.tokens
        st.tokens += 2
        events[slot] = token
        place = self._actual(st, first, i, kind in ("cell", "twin"))
        if kind == "value":
            st.value[place] = token
        elif kind == "previous":
            st.previous[place] = token
        elif kind == "wait":
            st.waits[place] = (*st.waits[place], Wait(token, slot[3], self.refs[slot]))
        else:
            events["cell", *slot[1:]] = token
            events["twin", *slot[1:]] = token << 1
            at = self._at(st, slot[3][5])
            st.cells[place] = (*st.cells[place], Record._make((token, *slot[3][:5], self.refs[slot[1:]], at)))
        return token

    @staticmethod
    def _at(st: State, since: Since) -> tuple[Moment, ...] | None:
        """When agents come to the window of an access, from how long ago it was for each."""
        if since is None:
            return None
        return tuple(
            Moment(
                a,
                -1 if tiles is None else st.tile[a] - tiles,
                -1 if iterations is None else st.iteration[a] - iterations,
            )
            for a, tiles, iterations in since
        )

    def _actual(self, st: State, first: int, i: int, cell: bool) -> int:
        """The barrier or cell that stands for the i-th oldest stage."""
        r = (self.cell_rings if cell else self.barrier_rings).get(first)
        return first if r is None else first + (self.shapes.base(st, r) + i) % self.system.rings[r].stages
