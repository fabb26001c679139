"""What has been written of shared and tensor memory, so that no read finds what nobody put there.

A cell of a ring is written anew in each turn: what a task reads there must have been written since the stage was
acquired, unless the graph lets the ring's data go round (`x: [x]`). Other cells must have been written at some time.
Windows that have no compile-time value count as whole where they are written, and ask for some of the window where they
are read, so what is reported is certain.
"""

from __future__ import annotations

from collections.abc import Sequence

from tsgen.model.kernel import Edge
from tsgen.verify.machine import ACCESS, ALL, System
from tsgen.verify.spans import Box
from tsgen.verify.state import State, Written


def track(system: System) -> None:
    """Which cells are read by somebody who must find something there, and which of them turn with a ring."""
    asked: set[int] = set()
    used: dict[int, set[tuple[int, int]]] = {}  # first cell -> ring and stages of its accesses
    for agent in system.agents:
        for ins in agent.code:
            for item in ins[1] if ins[0] == ACCESS else ():
                asks = any(item.needs) and not item.write
                ring = system.slot_ring[item.slot] if item.slot >= 0 else -1
                used.setdefault(item.base, set()).add((ring, item.stages))
                if asks:
                    asked.update(range(item.base, item.base + item.stages))
    system.read_cells = frozenset(asked)
    circular = _circular(system.kernel.graph)
    for base, users in used.items():
        ring, stages = next(iter(users))
        if len(users) > 1 or ring < 0 or base not in asked or stages != system.rings[ring].stages:
            continue
        if system.rings[ring].resource not in circular:
            system.turning.update((cell, ring) for cell in range(base, base + stages))


def _circular(graph: Sequence[Edge]) -> set[str]:
    """Resources whose data reach themselves again."""
    below: dict[str, set[str]] = {}
    for edge in graph:
        below.setdefault(edge.upstream, set()).add(edge.downstream)
    found = set()
    for name in below:
        seen: set[str] = set()
        ready = [name]
        while ready:
            more = below.get(ready.pop(), set()) - seen
            seen |= more
            ready += more
        if name in seen:
            found.add(name)
    return found


def _turn(system: System, cell: int, position: int) -> int:
    return position // system.rings[system.turning[cell]].stages if cell in system.turning else 0


def write(system: System, st: State, cell: int, position: int, box: int) -> None:
    """A window of a cell is written."""
    turn = _turn(system, cell, position)
    old = st.written[cell]
    if turn != old.turn:
        st.written[cell] = Written(turn, (box,))
    elif box not in old.boxes and 0 not in old.boxes:
        st.written[cell] = Written(turn, (box,) if not box else tuple(sorted((*old.boxes, box))))


def overwrite(system: System, st: State, cell: int) -> None:
    """All of a cell is written: what was written of other fields in these bytes is lost."""
    for other in system.aliases[cell]:
        old = st.written[other]
        left = tuple(b for b in old.boxes if not system.covers_bytes(cell, other, b))
        if left != old.boxes:
            st.written[other] = Written(old.turn, left)


def unwritten(system: System, st: State, cell: int, position: int, box: int, need: int) -> str | None:
    """What is wrong with a read: "unwritten" if nothing of its window was written, "partly" if not all of it was."""
    turn = _turn(system, cell, position)
    old = st.written[cell]
    if turn != old.turn:
        return "unwritten"
    if 0 in old.boxes or box in old.boxes:
        return None
    if not any(system.overlaps(b, box) for b in old.boxes):
        return "unwritten"
    if need == ALL:
        key = (*old.boxes, box, cell)
        full = system.full.get(key)
        if full is None:
            full = system.full[key] = not gaps(system, cell, old.boxes, box)
        if not full:
            return "partly"
    return None


def gaps(system: System, cell: int, boxes: tuple[int, ...], box: int) -> list[Box]:
    """What windows of a cell leave out of another window of it. A multicast copy's part counts as all of it."""
    left = [system.boxes[box] or tuple((0, n) for n in system.ranges[cell].shape)]
    for b in boxes:
        left = [rest for part in left for rest in _without(part, system.boxes[b])]
    return left


def _without(box: Box, other: Box) -> list[Box]:
    """What is left of a box without another, in boxes."""
    if not all(a < d and c < b for (a, b), (c, d) in zip(box, other, strict=False)):
        return [box]
    found = []
    for i, ((a, b), (c, d)) in enumerate(zip(box, other, strict=False)):
        if a < c:
            found.append((*box[:i], (a, c), *box[i + 1 :]))
        if d < b:
            found.append((*box[:i], (d, b), *box[i + 1 :]))
        box = (*box[:i], (max(a, c), min(b, d)), *box[i + 1 :])
    return found
