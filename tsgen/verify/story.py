"""A counterexample in words: who waits for whom, with which trip count, and what every task did last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tsgen.diagnostics import Related, Span
from tsgen.verify.explore import Verdict, first_need
from tsgen.verify.machine import (
    ACCESS,
    ARM,
    ARRIVE,
    COMPLETE,
    GRID_LAUNCH,
    GRID_WAIT,
    NAMED_ARRIVE,
    NAMED_WAIT,
    SKIP,
    TRY,
    WAIT,
    BarrierInfo,
    Instruction,
    StepInfo,
    System,
)
from tsgen.verify.parts import balances
from tsgen.verify.run import Runner
from tsgen.verify.state import Decision, Problem, State

ROWS = 10  # of a timeline
COLUMNS = 4
PLACES = 6  # related places of a race
_SHOWN = {WAIT, ARRIVE, ACCESS, COMPLETE, NAMED_ARRIVE, NAMED_WAIT, GRID_WAIT, GRID_LAUNCH}


class Story:
    """Tells the verdict on one system. `agents` are those that were explored together."""

    def __init__(self, system: System, agents: list[int], verdict: Verdict) -> None:
        assert verdict.problem is not None and verdict.state is not None
        self.system = system
        self.agents = agents
        self.fixed = dict(verdict.fixed)
        self.witness = verdict.witness
        self.floors = verdict.floors
        self.problem: Problem = verdict.problem
        self.state: State = verdict.state
        self.decisions = decisions(verdict.state)
        self.chain: list[int] = []  # agents of a deadlock, in the order of the telling

    # ---- names -------------------------------------------------------------------------------------------------

    def who(self, a: int) -> str:
        """The agent as a reader knows it: its task, and its warps and CTA where they matter."""
        agent = self.system.agents[a]
        name = agent.name
        if agent.kind == "lead":
            name = f"the elected warp of {name}"
        elif agent.kind == "rest":
            name = f"the other warps of {name}"
        elif agent.kind in ("lane", "warp"):
            name = f"warp {agent.lane} of {name}"
        return f"{name} in CTA {agent.cta}" if self.system.ctas > 1 else name

    def step(self, ref: int) -> StepInfo:
        return self.system.steps[ref]

    def span(self, ref: int) -> Span:
        return self.system.steps[ref].span

    def line(self, ref: int) -> str:
        return f"line {self.system.steps[ref].span.line}"

    def stage(self, b: BarrierInfo) -> str:
        """`ring stage 2`; in another CTA where there are several."""
        resource = self.system.kernel.resources[b.resource]
        name = b.resource if resource.each is None else f"{b.resource}[{b.instance}]"
        if b.side != "named" and resource.pipeline is not None and resource.pipeline.num_stages > 1:
            name += f" stage {b.stage}"
        return f"{name} of CTA {b.cta}" if self.system.ctas > 1 else name

    def cell(self, cell: int) -> str:
        """`ring.t` stage 2, of a cell."""
        info = self.system.fields[self.system.cell_field[cell]]
        resource = self.system.kernel.resources.get(info.resource)
        staged = resource is not None and resource.pipeline is not None and resource.pipeline.num_stages > 1
        return f"`{info.name}`" + (f" stage {self.system.cell_stage[cell]}" if staged else "")

    def wanted(self, b: BarrierInfo) -> str:
        if b.side == "named":
            return f"all {b.need} threads at barrier {self.stage(b)}"
        return f"{self.stage(b)} to be {'full' if b.side == 'full' else 'free'}"

    # ---- circumstances -----------------------------------------------------------------------------------------

    def when(self) -> str:
        """`with k_tiles = 5 and 2 tiles`, or nothing if nothing was chosen."""
        parts: list[str] = []
        queues = set(self.system.tile_unknowns.values())
        values: dict[str, list[tuple[int, str]]] = {}
        tiles = None
        for decision, value in self.decisions:
            if decision.kind == "value" and decision.what in queues:
                tiles = value
            elif decision.kind == "value":
                label = self.system.symbols.unknowns[decision.what].label
                shown = str(self.witness.get(decision.what, value))
                values.setdefault(label, []).append((decision.tile, shown))
            else:
                c = self.system.conditions[decision.what]
                where = f" at {c.variable} = {decision.iteration}" if c.per_iteration else ""
                where += f" of tile {decision.tile}" if c.per_tile and tiles != 1 and queues else ""
                parts.append(f"`{c.key}` {'true' if value else 'false'}{where}")
        for decision, low in self.state.open.items():  # still open: the least value for which it gets here
            if decision.what in queues:
                tiles = low
            else:
                label = self.system.symbols.unknowns[decision.what].label
                shown = str(self.witness.get(decision.what, low))
                values.setdefault(label, []).append((decision.tile, shown))
        for index, value in self.fixed.items():
            if index not in queues and self.system.symbols.unknowns[index].number is None:
                values.setdefault(self.system.symbols.unknowns[index].label, []).append((0, str(value)))
        counted = []
        for label, found in values.items():
            numbers = list(dict.fromkeys(v for _, v in found))
            counted.append(f"{label} = {', '.join(numbers)}" + (" in turn" if len(numbers) > 1 else ""))
        parts = counted + parts
        if tiles is not None:
            parts.append(f"{tiles} tile{'' if tiles == 1 else 's'}")
        if len(parts) > 5:
            parts = [*parts[:4], "…"]
        return "with " + " and ".join(parts) if parts else ""

    # ---- waiting -----------------------------------------------------------------------------------------------

    def stuck(self) -> list[int]:
        return [a for a in self.agents if self.state.pc[a] >= 0]

    def waits_for(self, a: int) -> tuple[int, int, Instruction]:
        """The barrier an agent is stuck at, the phase it wants, and its instruction."""
        ins = self.system.agents[a].code[self.state.pc[a]]
        if ins[0] == NAMED_WAIT:
            return ins[1], self.state.position[ins[2]] - 1, ins
        p = self.state.position[ins[2][0]]
        return ins[1] + p % ins[3], p // ins[3] - ins[5], ins

    def suppliers(self, b: int, phase: int) -> Iterator[tuple[int, int, bool]]:
        """Agents that arrive at a barrier, the step they do it with, and whether they still owe it for the phase. Steps
        that say most come first: works that write the bytes, then commits and releases, then armings."""
        info = self.system.barriers[b]
        first = b - info.stage
        due = phase * (self._stages(info)) + info.stage
        found: list[tuple[int, int, int, bool]] = []
        for a in self.agents:
            for ins in self.system.agents[a].code:
                if ins[0] in (ARRIVE, ARM) and first in ins[1]:
                    found.append((1 if ins[0] == ARRIVE else 2, a, ins[-1], self.state.position[ins[2][0]] <= due))
                elif ins[0] == NAMED_ARRIVE and ins[1] == b:
                    found.append((1, a, ins[-1], self.state.position[ins[2]] <= phase))
                elif ins[0] == ACCESS:
                    for base, slot, _, back, _ in ins[2]:
                        if base == first:
                            found.append((0, a, ins[-1], self.state.position[slot] - back <= due))
        for _, a, ref, owes in sorted(found, key=lambda f: f[0]):
            yield a, ref, owes

    def _stages(self, info: BarrierInfo) -> int:
        pipeline = self.system.kernel.resources[info.resource].pipeline
        return pipeline.num_stages if pipeline is not None else 1

    def ring(self, index: int) -> str:
        """The name of a ring, with its index where its resource has several."""
        ring = self.system.rings[index]
        each = self.system.kernel.resources[ring.resource].each
        return ring.resource if each is None else f"{ring.resource}[{ring.instance}]"

    def places(self, a: int, ring: int, methods: tuple[str, ...], but: Span) -> tuple[Related, ...]:
        """Where an agent's task does steps on a ring."""
        found = {self.span(r): self.step(r).text for r in self.steps_of(a, self.system.rings[ring].resource, methods)}
        return tuple(Related(f"`{text}` of {self.task(a)}", span) for span, text in found.items() if span != but)[:3]

    def signals(self, a: int) -> tuple[Related, ...]:
        """Where the kernel waits for the ones before it, and where an agent's task gets its signals from."""
        found: dict[Span, str] = {}
        for x in self.agents:
            for ins in self.system.agents[x].code:
                if ins[0] == GRID_WAIT:
                    found.setdefault(self.span(ins[-1]), f"{self.task(x)} waits for the kernels before")
        for ins in self.system.agents[a].code:
            if ins[0] == WAIT:
                for x, r, _ in self.suppliers(ins[1], 0):
                    if x != a and self.step(r).method in ("commit", "release"):
                        found.setdefault(self.span(r), f"{self.task(x)} signals {self.task(a)}")
        return tuple(Related(text, span) for span, text in found.items())[:PLACES]

    def handovers(self) -> tuple[Related, ...]:
        """Steps that could order the two accesses of a race: what hands the memory on, and what completes an engine."""
        p = self.problem
        found: dict[Span, str] = {}
        cells = [c for c in p.data[4:6] if c >= 0]
        resources = {self.system.fields[self.system.cell_field[c]].resource for c in cells}
        for a, engine, methods in (
            (p.other, p.data[3], ("release", "commit")),
            (p.agent, p.data[2], ("acquire", "wait")),
        ):
            for resource in sorted(resources):
                for r in self.steps_of(a, resource, methods):
                    found.setdefault(self.span(r), f"`{self.step(r).text}` of {self.task(a)}")
            for ins in self.system.agents[a].code:
                if ins[0] == COMPLETE and abs(ins[1]) == engine:
                    found.setdefault(self.span(ins[-1]), f"`{self.step(ins[-1]).text}` of {self.task(a)}")
        known = (self.span(p.ref), self.span(p.other_ref))
        handed = tuple(Related(text, span) for span, text in found.items() if span not in known)[:PLACES]
        return handed + self.meetings(p.agent, p.other)

    def in_flight(self, a: int, engine: int) -> str | None:
        """A step by which an agent waits for all but the last groups of an engine, and then hands the memory on."""
        cells = [c for c in self.problem.data[4:6] if c >= 0]
        resources = {self.system.fields[self.system.cell_field[c]].resource for c in cells}
        if not any(self.steps_of(a, r, ("release", "commit")) for r in resources):
            return None
        waits = (i for i in self.system.agents[a].code if i[0] == COMPLETE and abs(i[1]) == engine and i[2] > 0)
        return next((self.step(i[-1]).text for i in waits), None)

    def meetings(self, *agents: int) -> tuple[Related, ...]:
        """Steps on the named barriers that the tasks of all these agents take part in, and what their counts were
        written to be."""
        tasks = [self.task(a) for a in agents]
        steps: dict[str, dict[str, dict[Span, str]]] = {}  # resource -> task -> its steps
        for a in self.agents:
            for ins in self.system.agents[a].code:
                if ins[0] in (NAMED_ARRIVE, NAMED_WAIT) and self.task(a) in tasks:
                    step = self.step(ins[-1])
                    places = steps.setdefault(step.resource or "", {}).setdefault(self.task(a), {})
                    places.setdefault(step.span, f"`{step.text}` of {self.task(a)}")
        found: dict[Span, str] = {}
        for name, parties in steps.items():
            if not set(tasks) <= set(parties):
                continue
            resource = self.system.kernel.resources[name]
            if resource.threads is not None:
                text = f"{resource.threads} threads are written here"
                found.setdefault(resource.spans.get("threads", resource.span), text)
            for places in parties.values():
                for span, text in places.items():
                    found.setdefault(span, text)
        return tuple(Related(text, span) for span, text in found.items())[: 2 * PLACES]

    def writers(self, cell: int) -> list[tuple[int, int]]:
        """Agents that write to the field of a cell, and the steps they do it with."""
        field = self.system.cell_field[cell]
        return [
            (a, ins[-1])
            for a in self.agents
            for ins in self.system.agents[a].code
            if ins[0] == ACCESS and any(i.write and self.system.cell_field[i.base] == field for i in ins[1])
        ]

    def steps_of(self, a: int, resource: str, methods: tuple[str, ...]) -> list[int]:
        """Steps of an agent with those methods on a resource, in the order of the methods."""
        members = {resource, *(g.name for g in self.system.kernel.groups.values() if resource in g.members)}
        found = []
        for method in methods:
            for ins in self.system.agents[a].code:
                if ins[0] in (WAIT, TRY, ARRIVE, SKIP):
                    info = self.step(ins[-1])
                    if info.resource in members and info.method == method:
                        found.append(ins[-1])
        return found

    def last_step(self, a: int, ring: int, methods: tuple[str, ...]) -> StepInfo | None:
        """The last step with one of those methods that an agent took on a ring."""
        own = set(self.steps_of(a, self.system.rings[ring].resource, methods))
        code = self.system.agents[a].code
        taken = [code[pc][-1] for x, pc, *_ in self._replay() if x == a and code[pc][0] in (WAIT, ARRIVE)]
        return next((self.step(r) for r in reversed(taken) if r in own), None)

    def zero(self) -> str | None:
        """A bound of the launch that is zero in what is told, though `launch.assume` could say that it is not."""
        values = {**self.fixed, **{d.what: v for d, v in self.decisions if d.kind == "value"}}
        values.update({d.what: low for d, low in self.state.open.items()})
        queues = set(self.system.tile_unknowns.values())
        for index, value in values.items():
            unknown = self.system.symbols.unknowns[index]
            if value == 0 and index not in queues and not unknown.per_tile and unknown.number is None:
                return unknown.label
        return None

    def task(self, a: int) -> str:
        """The agent's task, whichever of its warps it is."""
        agent = self.system.agents[a]
        return f"{agent.name} in CTA {agent.cta}" if self.system.ctas > 1 else agent.name

    def cycle(self) -> tuple[list[str], list[Related], Span]:
        """Sentences of a deadlock, places that belong to it, and where it is reported."""
        a = min(self.stuck(), key=lambda x: (self.system.agents[x].cta, not self.system.agents[x].elected, x))
        self.chain = []
        names: list[str] = []
        sentences: list[str] = []
        related: list[Related] = []
        while self.task(a) not in names:
            self.chain.append(a)
            names.append(self.task(a))
            b, phase, ins = self.waits_for(a)
            info = self.system.barriers[b]
            owing = list(dict.fromkeys((x, r) for x, r, owes in self.suppliers(b, phase) if owes))
            verb = {"full": "filled", "empty": "released", "named": "joined"}[info.side]
            if len(names) > 1:
                related.append(Related(f"{self.task(a)} waits for {self.wanted(info)}", self.span(ins[-1])))
            related += self._ring_places(a, info, self.span(ins[-1]))
            head = f"{self.task(a)} waits at {self.line(ins[-1])} for {self.wanted(info)}"
            if not owing:
                sentences.append(f"{head}, {self._short(b, phase)}")
                for x, r in dict.fromkeys((x, r) for x, r, _ in self.suppliers(b, phase)):
                    related.append(Related(f"`{self.step(r).text}` of {self.task(x)}", self.span(r)))
                break
            blocked = [(x, r) for x, r in owing if self.state.pc[x] >= 0]
            x, r = next((p for p in blocked if self.task(p[0]) in names), (blocked or owing)[0])
            related.append(Related(f"{verb} here by {self.task(x)}", self.span(r)))
            more = [q for q in owing if q[0] == x and self.span(q[1]) != self.span(r)]
            related += [Related(f"`{self.step(q).text}` of {self.task(x)}", self.span(q)) for _, q in more]
            related += self._members(info, b, phase)
            sentences.append(f"{head} ({verb} at {self.line(r)} by {self.task(x)})")
            if self.state.pc[x] < 0:
                sentences.append(f"{self.task(x)} has ended")
                self.chain.append(x)
                break
            a = x
        first = self.waits_for(self.chain[0])[2]
        return sentences, _distinct(related), self.span(first[-1])

    def _members(self, info: BarrierInfo, b: int, phase: int) -> list[Related]:
        """Who else must arrive at a barrier that the members of a group share."""
        if not any(info.resource in g.members for g in self.system.kernel.groups.values()):
            return []
        return [
            Related(f"`{self.step(r).text}` of {self.task(x)}", self.span(r)) for x, r, _ in self.suppliers(b, phase)
        ]

    def _ring_places(self, a: int, info: BarrierInfo, but: Span) -> list[Related]:
        """Other waits of a stuck agent on the ring, and how long the ring is."""
        pipeline = self.system.kernel.resources[info.resource].pipeline
        if pipeline is None or info.side == "named":
            return []
        method = "wait" if info.side == "full" else "acquire"
        waits = dict.fromkeys(self.span(r) for r in self.steps_of(a, info.resource, (method,)))
        found = [Related(f"{self.task(a)} waits for the ring here, too", span) for span in waits if span != but]
        for r in self.steps_of(a, info.resource, ("skip",)):
            found.append(Related(f"{self.task(a)} leaves stages of the ring to others here", self.span(r)))
        n = pipeline.num_stages
        span = pipeline.spans.get("num_stages", pipeline.span)
        return [*found, Related(f"{info.resource} has {n} stage{'s' if n > 1 else ''}", span)]

    def _short(self, b: int, phase: int) -> str:
        """Why a barrier does not complete although everybody has arrived who will."""
        info = self.system.barriers[b]
        have, missing = self.state.count[b], self.state.transfer[b]
        if not any(True for _ in self.suppliers(b, phase)):
            return f"which nobody {'fills' if info.side == 'full' else 'releases' if info.side == 'empty' else 'joins'}"
        if have == info.need and missing:
            words = f"{missing} bytes more were announced than written" if missing > 0 else f"{-missing} bytes too many"
            return f"whose barrier has all arrivals, but {words}"
        return f"whose barrier expects {info.need} arrival{'s' if info.need > 1 else ''} and gets {have or 'none'}"

    # ---- timeline ----------------------------------------------------------------------------------------------

    def timeline(self) -> tuple[str, ...]:
        """The last steps before the end, a column for each task that is involved, newest last."""
        log = self._replay()
        columns = self._columns()
        last = {entry: i for i, entry in enumerate(log)}  # a step that had to wait is tried again: show the last try
        tried = [entry for i, entry in enumerate(log) if last[entry] == i]
        shown = [entry for entry in tried if entry[0] in columns and self._shown(*entry[:2])]
        rows = [(a, self._entry(a, pc, *where)) for a, pc, *where in shown[-ROWS:]]
        if self.problem.kind == "deadlock":
            rows = [row for row in rows if row[0] not in columns or not self._waiting(*row)]
            for a in columns:
                stuck = self.state.pc[a] >= 0
                rows.append((a, f"{self.step(self.waits_for(a)[2][-1]).text} ← waits" if stuck else "(ended)"))
        if not rows:
            return ()
        names = {a: self._heading(a) for a in columns}
        widths = {a: max([len(names[a]), *(len(t) for c, t in rows if c == a)]) for a in columns}
        lines = ["  ".join(names[a].ljust(widths[a]) for a in columns), "  ".join("-" * widths[a] for a in columns)]
        for a, text in rows:
            lines.append("  ".join((text if a == c else "").ljust(widths[c]) for c in columns))
        return tuple(line.rstrip() for line in lines)

    def _columns(self) -> list[int]:
        """The agents that a reader must see: those of the race, or those that are stuck (one of each task)."""
        p = self.problem
        if p.kind != "deadlock":
            involved = {a for a in (p.agent, p.other) if a >= 0}
            if p.kind in ("unwritten", "partly"):
                involved.update(a for a, _ in self.writers(p.data[0])[:1])
            if p.other < 0 and p.barrier >= 0:
                barriers = [p.barrier]
                if p.kind == "unbalanced":
                    ring, stage = p.data
                    for both in balances(self.system, self.system.rings[ring], self.agents):
                        if p.barrier - stage in (*both[0], *both[1]):
                            barriers = [side[0] + stage for side in both if side]
                for b in barriers:
                    involved.update(a for a, _, _ in list(self.suppliers(b, 0))[:1])
            return sorted(involved)[:COLUMNS]
        found: dict[str, int] = {}
        for a in (*self.chain, *self.stuck()):
            found.setdefault(self.task(a), a)
        return sorted(list(found.values())[:COLUMNS])

    def _shown(self, a: int, pc: int) -> bool:
        ins = self.system.agents[a].code[pc]
        if ins[0] not in _SHOWN:
            return False
        if self.problem.kind not in ("unbalanced", "uncommitted"):
            return True
        about = self.system.rings[self.problem.data[0]].resource  # nothing else is out of balance
        members = {about, *(g.name for g in self.system.kernel.groups.values() if about in g.members)}
        return self.step(ins[-1]).resource in members

    def _waiting(self, a: int, text: str) -> bool:
        """Whether a row is the step that the agent is stuck at, which stands at the end anyway."""
        return (
            self.state.pc[a] >= 0
            and text.startswith(f"{self.step(self.waits_for(a)[2][-1]).text} [")
            and self._last_text(a) == text
        )

    def _last_text(self, a: int) -> str:
        return self._entry(a, self.state.pc[a], self.state.iteration[a], self.state.tile[a], self._position(a))

    def _position(self, a: int) -> int:
        ins = self.system.agents[a].code[self.state.pc[a]]
        return self.state.position[ins[2][0]] if ins[0] == WAIT else -1

    def _heading(self, a: int) -> str:
        agent = self.system.agents[a]
        one = f" (warp {agent.lane})"
        kind = {"lead": " (elected warp)", "rest": " (other warps)", "lane": one, "warp": one}.get(agent.kind, "")
        return agent.name + kind + (f" CTA {agent.cta}" if self.system.ctas > 1 else "")

    def _entry(self, a: int, pc: int, iteration: int, tile: int, position: int) -> str:
        agent = self.system.agents[a]
        ins = agent.code[pc]
        marks = []
        if position >= 0:
            marks.append(f"stage {position % ins[3]} phase {position // ins[3]}")
        if agent.loop[0] >= 0 and agent.loop[0] <= pc <= agent.loop[1]:
            marks.append(f"trip {iteration}")
        if self.system.tile_unknowns:
            marks.append(f"tile {tile}")
        text = self.step(ins[-1]).text
        return f"{text} [{', '.join(marks)}]" if marks else text

    def _replay(self) -> list[tuple[Any, ...]]:
        """The same run again, with the same choices, and each step noted."""
        runner = Runner(self.system, self.agents, self.fixed, self.floors)
        runner.log = []
        runner.stop_at = self.problem.kind
        st = State(self.system)
        chosen = dict(self.decisions)
        while True:
            problem, needs = runner.run(st)
            if problem is not None or not needs:
                return runner.log
            decision = first_need(needs)
            if decision.kind != "value":
                if decision not in chosen:
                    return runner.log
                st.decided[decision] = bool(chosen[decision])
            elif chosen.get(decision) == st.low[decision]:
                st.exact[decision] = st.low.pop(decision)
            elif decision not in chosen and st.low[decision] >= self.state.open.get(decision, 0):
                return runner.log
            else:
                st.low[decision] += 1


def decisions(st: State) -> list[tuple[Decision, int]]:
    found: list[tuple[Decision, int]] = []
    path = st.path
    while path is not None:
        path, decision, value = path
        found.append((decision, value))
    return found[::-1]


def _distinct(related: list[Related]) -> list[Related]:
    """One of each place, the first that was named."""
    found: dict[Span, Related] = {}
    for r in related:
        found.setdefault(r.span, r)
    return list(found.values())
