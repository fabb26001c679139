"""The steps of a task as comparable lines, and what an edit script between two of them says: added, removed, moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from tsgen.model.algebra import Env, fold
from tsgen.model.expr import Expr, text
from tsgen.model.steps import CallStep, DomainLoop, Guard, Skippable, StaticFor, StaticIf, Step, TileLoop, When


@dataclass(frozen=True, slots=True)
class StepLine:
    """A step or the head of a block; `inside` are the kinds of the blocks around it. The line does not count."""

    inside: tuple[str, ...]
    text: str
    line: int

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        return self.inside, self.text


@dataclass(frozen=True, slots=True)
class StepChange:
    kind: Literal["added", "removed", "moved"]
    text: str
    old_line: int  # 0 where the step is only in the new schedule
    new_line: int
    where: str  # the blocks around it, and its neighbour


def step_lines(steps: Sequence[Step], env: Env, inside: tuple[str, ...] = ()) -> Iterator[StepLine]:
    """A schedule line by line, expressions folded."""
    for s in steps:
        yield StepLine(inside, _words(s, env), s.span.line)
        if not isinstance(s, CallStep):
            yield from step_lines(s.body, env, (*inside, _kind(s)))
        if isinstance(s, StaticIf) and s.orelse:
            yield from step_lines(s.orelse, env, (*inside, "else"))


def step_changes(old: Sequence[StepLine], new: Sequence[StepLine]) -> list[StepChange]:
    """The edits that turn one schedule into the other, in the order of the new one; a step cut here and put there
    has moved."""
    matcher = SequenceMatcher(None, [s.key for s in old], [s.key for s in new], autojunk=False)
    opcodes = [o for o in matcher.get_opcodes() if o[0] != "equal"]
    cut = [i for _, i0, i1, _, _ in opcodes for i in range(i0, i1)]
    put = [j for _, _, _, j0, j1 in opcodes for j in range(j0, j1)]
    source: dict[int, int] = {}
    for j in put:
        match = next((i for i in cut if old[i].text == new[j].text and i not in source.values()), None)
        if match is not None:
            source[j] = match
    gone = [i for i in cut if i not in source.values()]
    changes = [StepChange("removed", old[i].text, old[i].line, 0, _where(old, i)) for i in gone]
    for j in put:
        if j in source:
            changes.append(StepChange("moved", new[j].text, old[source[j]].line, new[j].line, _where(new, j)))
        else:
            changes.append(StepChange("added", new[j].text, 0, new[j].line, _where(new, j)))
    return changes


def _where(steps: Sequence[StepLine], i: int) -> str:
    block = f"in {steps[i].inside[-1]}, " if steps[i].inside else ""
    siblings = [s for s in steps[:i] if s.inside == steps[i].inside]
    return block + (f"after {siblings[-1].text}" if siblings else "first")


def _kind(s: Step) -> str:
    match s:
        case DomainLoop():
            return "domain_loop"
        case TileLoop():
            return "work_tile_loop"
        case Skippable():
            return "skippable"
        case Guard():
            return s.kind
        case When():
            return "when_true" if s.value else "when_false"
        case StaticFor():
            return "for"
        case StaticIf():
            return "if"
        case CallStep():
            return "step"


def _words(s: Step, env: Env) -> str:
    def say(e: Expr) -> str:
        return text(fold(e, env))

    match s:
        case CallStep():
            target = s.target if s.instance is None else f"{s.target}[{say(s.instance)}]"
            arguments = ", ".join(say(p.expr) if n == "n" else f"{n}={say(p.expr)}" for n, p in s.args.items())
            results = f"{', '.join(s.results)} = " if s.results else ""
            return f"{results}{target}.{s.method}({arguments})"
        case DomainLoop():
            unroll = f", unroll {s.unroll}" if s.unroll is not None else ""
            return f"domain_loop {s.var}: {say(s.start.expr)} … {say(s.end.expr)}, step {say(s.step.expr)}{unroll}"
        case TileLoop():
            skip = f", skip if {say(s.skip_if.expr)}" if s.skip_if is not None else ""
            return f"work_tile_loop {s.queue}: from {say(s.first.expr)}, stride {say(s.stride.expr)}{skip}"
        case Skippable():
            return "skippable"
        case Guard():
            return f"every {s.period}, from {s.start}" if s.kind == "every" else s.kind
        case When():
            return f"{_kind(s)} {say(s.condition.expr)} (key {s.key})"
        case StaticFor():
            return f"for {s.var} in {', '.join(map(str, s.values))}"
        case StaticIf():
            return f"if {say(s.condition.expr)}"
