"""Two specs side by side: every change in meaning, and memory, registers and proof before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tsgen.derive.model import Derived
from tsgen.diagnostics.report import FileReport
from tsgen.diff.facts import Fact, Section, facts
from tsgen.diff.steps import StepChange, step_changes, step_lines
from tsgen.model.kernel import Kernel

Kernels = Sequence[tuple[Kernel, Derived]]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two specs: its kernels by variant, and what `check` says about it."""

    report: FileReport
    variants: Mapping[str, Kernels]  # the default variant first


@dataclass(frozen=True, slots=True)
class Change:
    """One property that differs. `old` or `new` is None where the other side has no such thing."""

    kernel: str
    section: Section
    subject: str
    attribute: str
    old: str | None
    new: str | None
    old_line: int
    new_line: int
    variants: tuple[str, ...] = ()  # empty: in all of them

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        return "added" if self.old is None else "removed" if self.new is None else "changed"


@dataclass(frozen=True, slots=True)
class TaskSteps:
    """What changed in the steps of one task."""

    kernel: str
    task: str
    changes: tuple[StepChange, ...]
    variants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    old: Side
    new: Side
    changes: tuple[Change, ...]
    steps: tuple[TaskSteps, ...]

    @property
    def same(self) -> bool:
        """Whether nothing changed in meaning, and the proof still says the same."""
        return not self.changes and not self.steps and _verdict(self.old) == _verdict(self.new)


def _verdict(side: Side) -> tuple[object, ...]:
    errors = sorted((d.code, d.message) for d in side.report.diagnostics)
    return side.report.proof.complete, tuple(errors)


def compare(old: Side, new: Side) -> Comparison:
    """Compares variant by variant; a change that only some of the common variants see names them."""
    common = [v for v in new.variants if v in old.variants]
    if not common:  # the variants have other names: compare the defaults
        common, pairs = ["default"], [(_default(old), _default(new))]
    else:
        pairs = [(old.variants[v], new.variants[v]) for v in common]
    changes: dict[Change, list[str]] = {}
    steps: dict[TaskSteps, list[str]] = {}
    for name, (before, after) in zip(common, pairs, strict=True):
        for kernel, a, b in _paired(before, after):
            for change in _facts(kernel, a, b):
                changes.setdefault(change, []).append(name)
            for task in _steps(kernel, a, b):
                steps.setdefault(task, []).append(name)
    everywhere = len(common)
    return Comparison(
        old,
        new,
        tuple(replace(c, variants=() if len(v) == everywhere else tuple(v)) for c, v in changes.items()),
        tuple(replace(s, variants=() if len(v) == everywhere else tuple(v)) for s, v in steps.items()),
    )


One = tuple[Kernel, Derived]


def _default(side: Side) -> Kernels:
    return next(iter(side.variants.values()), ())


def _paired(old: Kernels, new: Kernels) -> Iterator[tuple[str, One | None, One | None]]:
    """Kernels of one name, with that name; two single kernels are a pair whatever their names."""
    if len(old) == len(new) == 1:
        yield new[0][0].name, old[0], new[0]
        return
    before, after = {k.name: (k, d) for k, d in old}, {k.name: (k, d) for k, d in new}
    for name in dict.fromkeys([*before, *after]):
        yield name, before.get(name), after.get(name)


def _facts(name: str, old: One | None, new: One | None) -> Iterator[Change]:
    before, after = _index(facts(*old) if old else ()), _index(facts(*new) if new else ())
    for key in dict.fromkeys([*before, *after]):
        a, b = before.get(key), after.get(key)
        if (a.value if a else None) != (b.value if b else None):
            section, subject, attribute = key
            values = (a.value if a else None, b.value if b else None)
            yield Change(name, section, subject, attribute, *values, a.line if a else 0, b.line if b else 0)


def _index(found: Iterable[Fact]) -> dict[tuple[Section, str, str], Fact]:
    return {(f.section, f.subject, f.attribute): f for f in found}


def _steps(name: str, old: One | None, new: One | None) -> Iterator[TaskSteps]:
    before = {t.name: tuple(step_lines(t.schedule.steps, old[0].env)) for t in old[0].tasks} if old else {}
    after = {t.name: tuple(step_lines(t.schedule.steps, new[0].env)) for t in new[0].tasks} if new else {}
    for task in dict.fromkeys([*before, *after]):
        changes = step_changes(before.get(task, ()), after.get(task, ()))
        if changes:
            yield TaskSteps(name, task, tuple(changes))
