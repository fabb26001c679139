"""One run of a schedule: a column for each task, a row for each unit of time, every step as early as it can be.

The verifier's machine executes the schedule with trip counts just long enough to go once around the longest ring, one
tile, and conditions that hold. Each step takes one unit; a wait takes place when the phase it waits for is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tsgen.derive.model import Derived
from tsgen.derive.uses import uses
from tsgen.diagnostics.formats.snippet import width
from tsgen.frozen import frozen
from tsgen.model.kernel import Kernel
from tsgen.verify.build import Builder
from tsgen.verify.code import Coder
from tsgen.verify.machine import (
    ACCESS,
    ARRIVE,
    COMPLETE,
    GRID_LAUNCH,
    GRID_WAIT,
    NAMED_ARRIVE,
    NAMED_WAIT,
    WAIT,
    Agent,
    Instruction,
    System,
)
from tsgen.verify.run import Runner
from tsgen.verify.state import State

_SHOWN = (WAIT, ARRIVE, ACCESS, COMPLETE, NAMED_ARRIVE, NAMED_WAIT, GRID_WAIT, GRID_LAUNCH)
_MAX_DECISIONS = 1000  # a run needs a few; more would be a table that nobody reads


@frozen
class Event:
    """A step that was executed: when, by which column, at which stage and phase (None for steps without a ring)."""

    time: int
    column: int
    text: str
    line: int
    trip: int | None
    tile: int | None
    stage: int | None
    phase: int | None


@frozen
class Timeline:
    """`values` are the trip counts that were chosen. `complete` is False if the run stopped before its end."""

    kernel: str
    target: str
    variant: str | None
    columns: tuple[str, ...]
    values: Mapping[str, int]
    complete: bool
    events: tuple[Event, ...]


def timeline(kernel: Kernel, derived: Derived) -> Timeline:
    """The run of the first CTA of a cluster. Of a task whose warps differ, the elected warp is shown."""
    builder = Builder(kernel, derived, uses(kernel))
    Coder(builder).run()
    system = builder.system
    values = _values(system)
    log, complete = _run(system, values)
    shown = [a for a, g in enumerate(system.agents) if g.cta == 0 and (g.elected or g.kind == "lane")]
    clock = _Clock(system)
    events = [e for e in (clock.event(entry) for entry in log) if e is not None and e.column in shown]
    return Timeline(
        kernel.name,
        kernel.target,
        kernel.variant,
        tuple(_name(system.agents[a]) for a in shown),
        {_label(system, i): v for i, v in values.items()},
        complete,
        tuple(
            Event(e.time, shown.index(e.column), e.text, e.line, e.trip, e.tile, e.stage, e.phase)
            for e in sorted(events, key=lambda e: e.time)
        ),
    )


def _label(system: System, unknown: int) -> str:
    return "tiles" if unknown in system.tile_unknowns.values() else system.symbols.unknowns[unknown].label


def _values(system: System) -> dict[int, int]:
    """One more trip than the longest ring has stages, one tile, within what the spec assumes."""
    tiles = set(system.tile_unknowns.values())
    trips = max((r.stages for r in system.rings), default=1) + 1
    values = {}
    for i, u in enumerate(system.symbols.unknowns):
        wanted = max(1 if i in tiles else trips, u.low or 0)
        values[i] = wanted if u.high is None else min(wanted, u.high)
    return values


_Entry = tuple[int, int, int, int, int]  # agent, pc, iteration, tile, position


def _run(system: System, values: Mapping[int, int]) -> tuple[list[_Entry], bool]:
    """What every agent did, in an order that is possible; and whether all of them ended."""
    runner = Runner(system, list(range(len(system.agents))), dict(values))
    runner.log = []
    state = State(system)
    for _ in range(_MAX_DECISIONS):
        problem, needs = runner.run(state)
        if problem is not None or not needs:
            break
        for _, decision in needs:
            if decision.kind == "value":
                state.exact[decision] = values[decision.what]
                state.low.pop(decision, None)
            else:
                state.decided[decision] = True
    return _passed(runner.log), all(pc < 0 for pc in state.pc)


def _passed(log: Sequence[_Entry]) -> list[_Entry]:
    """The log without the attempts of a wait that had to be repeated: only the last one passed."""
    last: dict[int, _Entry] = {}
    kept: list[_Entry | None] = []
    at: dict[int, int] = {}
    for entry in log:
        agent = entry[0]
        if last.get(agent) == entry:
            kept[at[agent]] = None
        last[agent], at[agent] = entry, len(kept)
        kept.append(entry)
    return [e for e in kept if e is not None]


class _Clock:
    """Gives each step its time: after the agent's step before it, a wait not before its barrier's phase is complete."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.now = [0] * len(system.agents)
        self.complete: dict[tuple[int, int], int] = {}  # (barrier, phase) -> time of its last arrival
        self.threads: dict[int, int] = {}  # named barrier -> threads that have arrived so far
        self.joined: dict[tuple[int, int], int] = {}  # (agent, named barrier) -> how often it has arrived

    def event(self, entry: _Entry) -> Event | None:
        a, pc, iteration, tile, position = entry
        agent = self.system.agents[a]
        ins = agent.code[pc]
        if ins[0] not in _SHOWN:
            return None
        time = self.now[a] = self._time(a, ins, position)
        if ins[0] == NAMED_ARRIVE and agent.code[pc + 1][0] == NAMED_WAIT and agent.code[pc + 1][-1] == ins[-1]:
            return None  # the first half of a `sync`
        step = self.system.steps[ins[-1]]
        ring = ins[0] in (WAIT, ARRIVE)
        return Event(
            time,
            a,
            step.text,
            step.span.line,
            iteration if 0 <= agent.loop[0] <= pc <= agent.loop[1] else None,
            tile if self.system.tile_unknowns else None,
            position % ins[3] if ring else None,
            position // ins[3] if ring else None,
        )

    def _time(self, a: int, ins: Instruction, position: int) -> int:
        now = self.now[a] + 1
        if ins[0] == WAIT:
            return max(now, self.complete.get((ins[1] + position % ins[3], position // ins[3] - ins[5]), 0))
        if ins[0] == ARRIVE:
            for base in (*ins[1], *self._filled(a, ins)):
                self._arrive(base + position % ins[3], position // ins[3], now)
        elif ins[0] == NAMED_ARRIVE:
            barrier, threads = ins[1], self.threads.get(ins[1], 0)
            self._arrive(barrier, threads // self.system.barriers[barrier].need, now)
            self.threads[barrier] = threads + ins[3]
            self.joined[a, barrier] = self.joined.get((a, barrier), 0) + 1
        elif ins[0] == NAMED_WAIT:
            return max(self.now[a], self.complete.get((ins[1], self.joined.get((a, ins[1]), 0) - 1), 0))
        return now

    def _filled(self, a: int, ins: Instruction) -> tuple[int, ...]:
        """The full barrier of a commit whose arrival is the arming before it: its bytes come with this step at last."""
        ring = self.system.slot_ring[ins[2][0]]
        commit = self.system.steps[ins[-1]].method == "commit"
        return (self.system.rings[ring].full[self.system.agents[a].cta],) if commit and ring >= 0 else ()

    def _arrive(self, barrier: int, phase: int, time: int) -> None:
        self.complete[barrier, phase] = max(time, self.complete.get((barrier, phase), 0))


def _name(agent: Agent) -> str:
    return f"{agent.name} warp {agent.lane}" if agent.kind == "lane" else agent.name


def timeline_text(t: Timeline) -> str:
    """Rows by time; a cell is the step, its stage and phase, and the trip it belongs to."""
    rows: dict[int, list[str]] = {}
    for e in t.events:
        row = rows.setdefault(e.time, [""] * len(t.columns))
        cell = _cell(e)
        row[e.column] = f"{row[e.column]}; {cell}" if row[e.column] else cell
    widths = [max([width(c), *(width(r[i]) for r in rows.values())]) for i, c in enumerate(t.columns)]
    chosen = ", ".join(f"{name} = {v}" for name, v in t.values.items())
    out = [f"{t.kernel}" + (f" with {chosen}" if chosen else ""), ""]
    out += [_line("time", t.columns, widths), _line("----", ["-" * w for w in widths], widths)]
    out += [_line(str(time), row, widths) for time, row in sorted(rows.items())]
    if not t.complete:
        out += ["", "The run stops here: `tsgen check` says why."]
    out += ["", "s2.1 is stage 2 in phase 1, i3 the loop's iteration 3. Every step takes one unit of time."]
    return "\n".join(out) + "\n"


def _line(time: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join([f"{time:>4}", *(c + " " * (w - width(c)) for c, w in zip(cells, widths, strict=True))]).rstrip()


def _cell(e: Event) -> str:
    return " ".join([e.text, *_marks(e)])


def _marks(e: Event) -> Iterator[str]:
    if e.stage is not None:
        yield f"s{e.stage}.{e.phase}"
    if e.trip is not None:
        yield f"i{e.trip}"
