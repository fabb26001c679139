"""Mutants of a spec: each synchronisation step removed, repeated or changed with its neighbour, each count off by one.

A mutant is text; its place is a set of lines of the mutated text. The place of a removed step is what stands around
it: the neighbouring steps, the head of its block, the other steps on the same resource in the same schedule, and the
resource's declaration if the resource has no such step any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tsgen.derive import derive
from tsgen.diagnostics import Span
from tsgen.model.kernel import Kernel, Pipeline
from tsgen.model.methods import METHODS
from tsgen.spec import load_program

SYNC = frozenset(m.name for methods in METHODS.values() for m in methods.values())
_ITEM = re.compile(r"^(\s*)- (.*)$")
_FLOW = re.compile(r"^(\s*(?:- )?(?:steps|else): )\[(.*)\](.*)$")
_CALL = re.compile(r"""^['"]?(?:[\w, ]+ = )?(\w+)(?:\[[^]]*\])?\.(\w+)\(""")


@dataclass(frozen=True)
class Mutant:
    spec: str
    kind: str  # remove, repeat, swap, stages, arrivals, bytes, threads
    what: str  # the step, or the key and its value
    nth: int  # among the equal ones of the spec, from 1
    text: str
    lines: frozenset[int]  # of the mutated text, where a finding belongs

    @property
    def name(self) -> str:
        return f"{self.spec}: {self.kind} {self.what} #{self.nth}"


@dataclass(frozen=True)
class Item:
    """A step or block in a list: lines [first, last), counted from 0; `call` is (target, method) of a step."""

    first: int
    last: int
    indent: int
    call: tuple[str, str] | None
    text: str


def mutants(path: Path) -> Iterator[Mutant]:
    """All mutants of a spec file."""
    text = path.read_text(encoding="utf-8")
    program = load_program(path).program
    kernels = program.kernels if program is not None else ()
    seen: dict[tuple[str, str], int] = {}
    for kind, what, mutated, lines in (*_step_mutants(text, kernels), *_number_mutants(text, kernels)):
        nth = seen[kind, what] = seen.get((kind, what), 0) + 1
        yield Mutant(path.name, kind, what, nth, mutated, frozenset(lines))


# ---- steps -----------------------------------------------------------------------------------------------------


def _sections(lines: list[str]) -> Iterator[range]:
    """The lines of each `schedules:` section."""
    start = None
    for i, line in enumerate([*lines, "end:"]):
        if line[:1].strip() and not line.startswith("#"):
            if start is not None:
                yield range(start, i)
            start = i + 1 if line.startswith("schedules:") else None


def _items(lines: list[str], section: range) -> list[Item]:
    found = []
    for i in section:
        m = _ITEM.match(lines[i])
        if m is None:
            continue
        indent = len(m[1])
        outside = (j for j in range(i + 1, section.stop) if lines[j].strip() and _indent(lines[j]) <= indent)
        end = next(outside, section.stop)
        while end > i + 1 and not lines[end - 1].strip():
            end -= 1
        call = _CALL.match(m[2])
        found.append(Item(i, end, indent, (call[1], call[2]) if call else None, m[2].split("  #")[0].strip()))
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@dataclass(frozen=True)
class _Text:
    """The lines of a spec, and which names stand for the same ring."""

    lines: list[str]
    groups: list[set[str]]

    def near(self, at: int, call: tuple[str, str], section: range) -> set[int]:
        """Where a finding about a step that is gone belongs: lines counted from 0, of the text that still has it."""
        names = "|".join({call[0]}.union(*(g for g in self.groups if call[0] in g)))
        start = next(i for i in range(at, -1, -1) if re.match(r"^  \w+:", self.lines[i]))
        end = next((i for i in range(at + 1, section.stop) if re.match(r"^  \w+:", self.lines[i])), section.stop)
        step = re.compile(rf"\b(?:{names})(?:\[[^]]*\])?\.")
        found = {at - 1, at, start, *(i for i in range(start + 1, end) if step.search(self.lines[i]))}
        same = re.compile(rf"{step.pattern}{call[1]}\(")
        if len(same.findall("\n".join(self.lines[i] for i in section))) == 1:  # none is left: the declaration
            found |= {i for i, line in enumerate(self.lines) if re.match(rf"  (?:{names}):", line)}
        return found


def _step_mutants(text: str, kernels: Iterable[Kernel]) -> Iterator[tuple[str, str, str, set[int]]]:
    lines = text.split("\n")
    whole = _Text(lines, [{g.name, *g.members} for k in kernels for g in k.groups.values()])
    for section in _sections(lines):
        yield from _flow_mutants(whole, section)
        items = _items(lines, section)
        for n, item in enumerate(items):
            after = next((i for i in items[n + 1 :] if i.first >= item.last), None)
            sibling = after if after is not None and after.indent == item.indent and after.first == item.last else None
            sync = item.call is not None and item.call[1] in SYNC
            if sync:
                yield _removed(whole, items, n, section)
                repeated = [*lines[: item.last], *lines[item.first : item.last], *lines[item.last :]]
                yield "repeat", item.text, "\n".join(repeated), _numbers(item.first, 2 * item.last - item.first)
            if sibling is not None and (sync or (sibling.call is not None and sibling.call[1] in SYNC)):
                swapped = [
                    *lines[: item.first],
                    *lines[sibling.first : sibling.last],
                    *lines[item.first : item.last],
                    *lines[sibling.last :],
                ]
                what = f"{item.text} / {sibling.text}"
                yield "swap", what, "\n".join(swapped), _numbers(item.first, sibling.last)


def _flow_mutants(whole: _Text, section: range) -> Iterator[tuple[str, str, str, set[int]]]:
    """Mutants of `steps: [a, b]` on one line."""
    lines = whole.lines
    for at in section:
        m = _FLOW.match(lines[at])
        steps = [s.strip() for s in re.split(r",(?![^(\[]*[)\]])", m[2])] if m is not None else []
        for i, step in enumerate(steps):
            call = _CALL.match(step)
            if m is None or call is None or call[2] not in SYNC:
                continue
            following = steps[i + 1 : i + 2]
            changed = {
                ("remove", step): [*steps[:i], *steps[i + 1 :]],
                ("repeat", step): [*steps[: i + 1], *steps[i:]],
                ("swap", f"{step} / {', '.join(following)}"): [*steps[:i], *following, step, *steps[i + 2 :]],
            }
            for (kind, what), after in changed.items():
                if after != steps:
                    near = whole.near(at, (call[1], call[2]), section) if kind == "remove" else {at}
                    text = "\n".join([*lines[:at], f"{m[1]}[{', '.join(after)}]{m[3]}", *lines[at + 1 :]])
                    yield kind, what, text, {line + 1 for line in near}


def _numbers(first: int, last: int) -> set[int]:
    """Lines [first, last) counted from 0, as line numbers."""
    return set(range(first + 1, last + 1))


def _removed(whole: _Text, items: list[Item], n: int, section: range) -> tuple[str, str, str, set[int]]:
    item = items[n]
    before, after = whole.lines[: item.first], whole.lines[item.last :]
    gone = item.last - item.first
    more = bool(after) and _ITEM.match(after[0]) is not None and _indent(after[0]) == item.indent
    if before[-1].strip() == "steps:" and not more:
        before = [*before[:-1], f"{before[-1]} []"]
    assert item.call is not None
    heads = [i.first for i in items[:n] if i.indent < item.indent and i.last >= item.last]
    near = {item.last, *heads, *(h + 1 for h in heads)} | whole.near(item.first, item.call, section)
    moved = {line if line < item.last else line - gone for line in near}
    return "remove", item.text, "\n".join([*before, *after]), {line + 1 for line in moved}


# ---- numbers ---------------------------------------------------------------------------------------------------


def _number_mutants(text: str, kernels: Iterable[Kernel]) -> Iterator[tuple[str, str, str, set[int]]]:
    for kernel in kernels:
        derived = derive(kernel)
        for r in kernel.resources.values():
            if r.pipeline is not None:
                yield from _pipeline(text, kernel, r.name, r.pipeline)
            if r.kind == "barrier":
                counts = {b.threads for (name, _), b in derived.barriers.items() if name == r.name}
                for count in counts if len(counts) == 1 else ():
                    for wrong in (count - 32, count + 32):
                        at = r.spans.get("threads", r.spans["kind"])
                        key = "" if "threads" in r.spans else "threads"
                        yield _edit(text, "threads", r.name, at, key, wrong)


def _pipeline(text: str, kernel: Kernel, name: str, p: Pipeline) -> Iterator[tuple[str, str, str, set[int]]]:
    derived = derive(kernel)
    counts = derived.arrivals[name]
    if p.num_stages != 1:
        yield _edit(text, "stages", name, p.spans["num_stages"], "", 1)
    for key, right, kind in (
        ("producer_group", counts.full, "arrivals"),
        ("consumer_group", counts.empty, "arrivals"),
        ("num_bytes", derived.tx_bytes[name], "bytes"),
    ):
        if kind == "bytes" and not right:
            continue
        at = p.spans.get(key, p.spans["num_stages"])
        for wrong in (right - 1, right + 1):
            yield _edit(text, kind, f"{name}.{key}", at, "" if key in p.spans else key, wrong)


def _edit(text: str, kind: str, what: str, at: Span, key: str, value: int) -> tuple[str, str, str, set[int]]:
    """The text with a number replaced, or written as a new key after the value at `at`."""
    lines = text.split("\n")
    line = lines[at.end_line - 1]
    if not key:
        lines[at.line - 1] = line[: at.column - 1] + str(value) + line[at.end_column - 1 :]
        return kind, f"{what} = {value}", "\n".join(lines), {at.line}
    head = line[: at.column - 1]
    if "{" in head:
        lines[at.end_line - 1] = f"{line[: at.end_column - 1]}, {key}: {value}{line[at.end_column - 1 :]}"
        return kind, f"{what} = {value}", "\n".join(lines), {at.end_line}
    lines.insert(at.end_line, f"{' ' * _indent(line)}{key}: {value}")
    return kind, f"{what} = {value}", "\n".join(lines), {at.end_line, at.end_line + 1}
