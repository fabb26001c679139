"""What every warp did last: a column for each warp, a row for each step, in the order in which they were taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tsgen.simulate.warp import Site, Warp

KEPT = 4000  # steps
ROWS = 14
COLUMNS = 4


class Event(NamedTuple):
    site: Site
    stage: int | None
    phase: int | None


class Timeline:
    """The last steps of a run."""

    def __init__(self) -> None:
        self.events: deque[Event] = deque(maxlen=KEPT)

    def add(self, site: Site, stage: int | None, phase: int | None) -> None:
        self.events.append(Event(site, stage, phase))

    def table(self, first: Iterable[Warp], blocked: Iterable[Warp]) -> tuple[str, ...]:
        """The last steps of a few warps: those given, then the ones that moved last."""
        wanted = list(dict.fromkeys(first))
        for event in reversed(self.events):
            if len(wanted) >= COLUMNS:
                break
            if all(event.site.warp.task_name != w.task_name or event.site.warp.cta != w.cta for w in wanted):
                wanted.append(event.site.warp)
        wanted = wanted[:COLUMNS]
        rows = [(e.site.warp, _cell(e)) for e in self.events if e.site.warp in wanted][-ROWS:]
        rows += [(w, f"{w.blocked_at.step.text} ← waits") for w in blocked if w in wanted and w.blocked_at is not None]
        widths = [max([len(w.column), *(len(t) for x, t in rows if x is w)]) for w in wanted]
        lines = ["  ".join(w.column.ljust(n) for w, n in zip(wanted, widths, strict=True)).rstrip()]
        lines.append("  ".join("-" * n for n in widths))
        for who, cell in rows:
            lines.append(
                "  ".join((cell if w is who else "").ljust(n) for w, n in zip(wanted, widths, strict=True)).rstrip()
            )
        return tuple(lines)


def _cell(e: Event) -> str:
    facts = [] if e.stage is None else [f"stage {e.stage} phase {e.phase}"]
    facts += [] if e.site.trip is None else [f"trip {e.site.trip}"]
    facts += [] if e.site.tile is None else [f"tile {e.site.tile}"]
    return e.site.step.text + (f" [{', '.join(facts)}]" if facts else "")
