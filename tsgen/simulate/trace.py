"""What happened when: a Chrome trace, and a summary of who was busy and who waited."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tsgen.simulate.scheduler import Operation
    from tsgen.simulate.warp import Site


class Stretch(NamedTuple):
    """From `start` to `end`, in cycles: a step, a wait or an engine's operation."""

    cta: int
    row: str
    name: str
    kind: str  # work, wait or engine
    start: float
    end: float
    line: int
    detail: str


class Recorder:
    """Collects the stretches of a run in time."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self.busy: dict[tuple[str, int], float] = defaultdict(float)  # of engines, by CTA
        self.first_warps: set[str] = set()
        self.lanes: dict[tuple[str, int], set[int]] = defaultdict(set)

    def step(self, site: Site, kind: str, start: float, end: float, detail: str = "") -> None:
        if end > start:
            w = site.warp
            if w.elected:
                self.first_warps.add(w.row)
            self.stretches.append(
                Stretch(w.cta, w.row, site.step.text, kind, start, end, site.step.span.line, detail or site.where)
            )

    def engine(self, operation: Operation, engine: str, lane: int, start: float, finish: float, busy: float) -> None:
        site = operation.site
        row = engine if engine != "tensor cores" or operation.engine != "WGMMA" else f"{engine} {lane}"
        name = f"{operation.engine}: {site.step.text}"
        self.stretches.append(
            Stretch(site.warp.cta, row, name, "engine", start, finish, site.step.span.line, site.where)
        )
        self.busy[engine, site.warp.cta] += busy
        self.lanes[engine, site.warp.cta].add(lane)

    @property
    def end(self) -> float:
        return max((s.end for s in self.stretches), default=0.0)

    # ---- a file ----------------------------------------------------------------------------------------------------

    def chrome(self) -> str:
        """The trace as JSON. A cycle is shown as a microsecond: the format has no other unit."""
        rows: dict[tuple[int, str], int] = {}
        events: list[dict[str, object]] = []
        for s in sorted(self.stretches, key=lambda s: (s.cta, s.kind == "engine", s.row)):
            if (s.cta, s.row) not in rows:
                rows[s.cta, s.row] = len(rows)
                events.append(_name("thread_name", s.cta, rows[s.cta, s.row], s.row))
                events.append(
                    {"ph": "M", "name": "thread_sort_index", "pid": s.cta, "tid": rows[s.cta, s.row]}
                    | {"args": {"sort_index": rows[s.cta, s.row]}}
                )
        events += [_name("process_name", cta, 0, f"CTA {cta}") for cta in sorted({s.cta for s in self.stretches})]
        for s in sorted(self.stretches, key=lambda s: s.start):
            event: dict[str, object] = {"ph": "X", "pid": s.cta, "tid": rows[s.cta, s.row], "cat": s.kind}
            event |= {"name": s.name, "ts": round(s.start, 1), "dur": round(s.end - s.start, 1)}
            event["args"] = {"line": s.line, "at": s.detail}
            if s.kind == "wait":
                event["cname"] = "terrible"  # red, where the viewer knows the name
            events.append(event)
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"

    # ---- a summary -------------------------------------------------------------------------------------------------

    def summary(self) -> list[str]:
        """A line for each task: the share of the time that its first warp works and waits, and for what most."""
        total = self.end
        if not total:
            return []
        rows: dict[str, dict[str, float]] = {}
        waits: dict[str, dict[str, float]] = {}
        for s in self.stretches:
            if s.cta or s.kind == "engine" or s.row not in self.first_warps:
                continue
            row, took = s.row.removesuffix(" warp 0"), s.end - s.start
            rows.setdefault(row, defaultdict(float))[s.kind] += took
            if s.kind == "wait":
                waits.setdefault(row, defaultdict(float))[f"`{s.name}` (line {s.line})"] += took
        width = max(len(r) for r in [*rows, *(f"engine {e}" for e, c in self.busy if c == 0)])
        lines = [f"{total:,.0f} cycles by the model"]
        for row, spent in rows.items():
            worst = sorted(waits.get(row, {}).items(), key=lambda x: -x[1])[:2]
            text = ", ".join(f"{name} {_percent(t, total)}" for name, t in worst if t > total / 100)
            lines.append(
                f"{row.ljust(width)}  works {_percent(spent['work'], total)}  waits {_percent(spent['wait'], total)}"
                + (f"  for {text}" if text else "")
            )
        for (engine, cta), busy in self.busy.items():
            if cta == 0 and busy:
                share = busy / len(self.lanes[engine, cta])
                lines.append(f"{f'engine {engine}'.ljust(width)}  busy  {_percent(share, total)}")
        return lines


def _percent(part: float, total: float) -> str:
    return f"{100 * part / total:3.0f} %"


def _name(kind: str, pid: int, tid: int, name: str) -> dict[str, object]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}}
