"""Accesses to memory: each is checked against the earlier ones that may still be under way, and remembered."""

from __future__ import annotations

from tsgen.derive.spread import ACCUMULATOR, REGISTERS, same_threads
from tsgen.verify.machine import CP_ASYNC, CP_OPEN, SYNC, TCGEN05, TENSOR, TX, Instruction, System
from tsgen.verify.state import Moment, Problem, Record, State
from tsgen.verify.written import overwrite, unwritten
from tsgen.verify.written import write as note_write


def access(system: System, st: State, a: int, ins: Instruction, remarks: dict[str, Problem]) -> Problem | None:
    """Checks the accesses of a step against those that may still be under way, and remembers them. Reads of what nobody
    wrote go to the remarks: while there are races, nobody knows what was written.

    A record is dropped if a later access stands for it: what conflicts with it conflicts with the later one, too,
    and is ordered after it if it is ordered after the later one. So the later one covers its window, and has the
    same spread (else it would be let off where its threads own the same elements), or none.
    """
    _, items, _, engine, ref = ins
    known = st.known[a]
    twin = system.agents[a].twin
    token = 1 << st.tokens
    st.tokens += 2 if twin else 1
    covers, overlaps, aliases, cells = system.covers, system.overlaps, system.aliases, st.cells
    for base, stages, slot, back, write, boxes, settle, spread, needs in items:
        if slot == TENSOR:
            problem = _tensor(system, st, a, ins, token, base, back, write, boxes[0])
            if problem is not None:
                return problem
            continue
        position = st.position[slot] - back if slot >= 0 else 0
        cell = base + position % stages
        n = st.iteration[a]
        at = n if n < settle else settle + (n - settle) % (len(boxes) - settle)
        box, need = boxes[at], needs[at] if len(needs) > 1 else needs[0]
        if need and not write:
            wrong = unwritten(system, st, cell, position, box, need)
            if wrong is not None:
                remarks.setdefault(wrong, Problem(wrong, a, ref, data=(cell, box, position, st.written[cell].boxes)))
        elif write and cell in system.read_cells:
            note_write(system, st, cell, position, box)
        if write and need and not box and cell in aliases:
            overwrite(system, st, cell)
        kept = []
        for r in cells[cell]:
            before, by, wrote, other_box, other_engine, other_spread, _, _ = r
            if by == a:
                in_order = engine == other_engine and (
                    engine == TCGEN05 or (spread == other_spread == ACCUMULATOR and box == other_box)
                )
                ordered = other_engine == SYNC or known & before or in_order
                if twin and ordered and (write or wrote) and not known & before << 1:
                    ordered = same_threads(spread, other_spread, box, other_box, later=True)
            else:
                ordered = known & before
            if ordered:
                same_spread = spread == other_spread or (spread in REGISTERS and other_spread in REGISTERS)
                if write:
                    if (same_spread or spread is None) and (box == other_box or covers(box, other_box)):
                        continue
                elif same_spread and by == a and not wrote and box == other_box and engine == other_engine:
                    continue
            elif (write or wrote) and overlaps(box, other_box):
                owned = by != a and siblings(system, a, by)
                if not (owned and same_threads(spread, other_spread, box, other_box)):
                    return Problem(
                        "race",
                        a,
                        ref,
                        cell,
                        by,
                        r.ref,
                        (write, wrote, engine, other_engine, cell, -1, waited(st, r)),
                    )
            kept.append(r)
        if cell in aliases:
            problem = _aliased(system, st, a, ins, cell, box, write, spread)
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
        if engine == CP_ASYNC and row[CP_OPEN]:  # a group takes in all that is in none yet
            token |= row[CP_OPEN][0]
            row[CP_OPEN] = ()
        groups = (*row[engine], token)
        keep = system.agents[a].groups.get(engine, 0) + 1
        if len(groups) > keep:  # older groups complete together
            groups = (groups[0] | groups[1], *groups[2:])
        row[engine] = groups
        st.engines[a] = tuple(row)
    return None


def _tensor(
    system: System, st: State, a: int, ins: Instruction, token: int, cell: int, moving: int, write: bool, window: int
) -> Problem | None:
    """Checks an access to a tensor against those of other tasks in the same tile and iteration."""
    tile, iteration = st.tile[a] if moving & 1 else -1, st.iteration[a] if moving & 2 else -1
    at = tuple(Moment(b, tile, iteration) for b in sorted(system.cell_users[cell]) if not siblings(system, a, b))
    mine = Moment(a, tile, iteration)
    known, engine, ref = st.known[a], ins[3], ins[4]
    kept = []
    for r in st.cells[cell]:
        if siblings(system, a, r.agent):
            if r.agent == a and r.write == write and r.box == window and set(r.at or ()) <= set(at):
                continue
        elif (write or r.write) and r.moment(a) == mine and not known & r.token and system.meets(window, r.box):
            data = (write, r.write, engine, r.engine, cell, -1, waited(st, r))
            return Problem("race", a, ref, cell, r.agent, r.ref, data)
        kept.append(r)
    kept.append(Record(token, a, write, window, engine, None, ref, at))
    st.cells[cell] = tuple(kept)
    return None


def _aliased(
    system: System, st: State, a: int, ins: Instruction, cell: int, box: int, write: bool, spread: str | None
) -> Problem | None:
    """Checks an access against those to other fields with the same bytes."""
    known, engine, twin = st.known[a], ins[3], system.agents[a].twin
    for other in system.aliases[cell]:
        for r in st.cells[other]:
            if not (write or r.write) or not system.share_bytes(cell, box, other, r.box):
                continue
            lanes = spread == r.spread == "lanes"
            if r.agent == a:
                ordered = known & r.token or r.engine == SYNC or engine == r.engine == TCGEN05
                if twin and ordered and not known & r.token << 1:
                    ordered = lanes
            else:
                ordered = known & r.token or (lanes and siblings(system, a, r.agent))
            if not ordered:
                data = (write, r.write, engine, r.engine, cell, other, waited(st, r))
                return Problem("alias", a, ins[4], cell, r.agent, r.ref, data)
    return None


def waited(st: State, r: Record) -> bool:
    """Whether the agent that started an asynchronous access knows that it is over."""
    return bool(st.known[r.agent] & r.token)


def siblings(system: System, a: int, b: int) -> bool:
    x, y = system.agents[a], system.agents[b]
    return x.task is y.task and x.instance is y.instance and x.cta == y.cta
