"""A spec file taken through load, resolve, derive and verify, for every variant and target that a command is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from tsgen.cli.options import Selection
from tsgen.derive import Derived, derive
from tsgen.diagnostics import Diagnostic
from tsgen.diagnostics.report import FileReport, ProofSummary
from tsgen.model.expr import Scalar
from tsgen.model.kernel import Kernel, Program
from tsgen.spec import Result, load_document, resolve
from tsgen.spec.load import Document
from tsgen.verify import Report, verify


@dataclass(frozen=True, slots=True)
class Case:
    """A spec for one variant and one target. `suffix` is the variant's part of file names, empty for the default."""

    label: str
    suffix: str
    target: str
    program: Program
    kernels: tuple[tuple[Kernel, Derived], ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything about one file: its report, and the cases that could be resolved."""

    report: FileReport
    cases: tuple[Case, ...]


def analyse(path: str, selection: Selection, *, prove: bool = True) -> Analysis:
    """Resolves each selected variant, and verifies it unless told otherwise.

    Raises click.UsageError for a variant that the spec lacks.
    """
    document = load_document(Path(path))
    found: dict[str, tuple[Diagnostic, ...]] = {}
    proofs: list[Report] = []
    cases: list[Case] = []
    for label, suffix, target, result in _results(document, selection):
        diagnostics = list(result.diagnostics)
        if result.program is not None:
            kernels = tuple((k, derive(k)) for k in result.program.kernels)
            reports = [verify(k, d) for k, d in kernels] if prove else []
            diagnostics += [d for r in reports for d in r.diagnostics]
            proofs += reports
            cases.append(Case(label, suffix, target, result.program, kernels))
        found[label] = tuple(diagnostics)
    complete = bool(proofs) and len(cases) == len(found)
    report = FileReport(path, document.text, merge(found), _summary(proofs, complete), document.readable)
    return Analysis(report, tuple(cases))


def _results(document: Document, selection: Selection) -> Iterator[tuple[str, str, str, Result]]:
    """One resolution for each variant and target: label, suffix of file names, target."""
    base = resolve(document, sets=selection.sets, target=selection.target)
    if base.program is None:
        yield "default", "", "", base
        return
    declared = {name: values for k in base.program.kernels for name, values in k.variants.items()}
    for name in selection.variants:
        if name not in declared:
            known = f"it has {', '.join(declared)}" if declared else "it has none"
            raise click.UsageError(f"{document.path} has no variant {name!r}; {known}.")
    first = base.program.kernels[0]
    default = next((n for n, values in declared.items() if _changes_nothing(base.program, values)), "default")
    wanted = selection.variants or ((default,) if selection.single else tuple(dict.fromkeys([default, *declared])))
    targets = (first.target,) if selection.single or selection.target else first.targets
    for target in targets:
        for label in wanted:
            shown = f"{label} on {target}" if len(targets) > 1 else label
            variant = label if label in declared else None
            same = variant is None and target == first.target
            result = base if same else resolve(document, variant=variant, sets=selection.sets, target=target)
            yield shown, "" if label == default else f"_{label}", target, result


def _changes_nothing(program: Program, values: Mapping[str, Scalar]) -> bool:
    """Whether a variant sets nothing but the values that the params have anyway."""
    return all(k.env.get(name, value) == value for k in program.kernels for name, value in values.items())


def merge(found: Mapping[str, tuple[Diagnostic, ...]]) -> tuple[Diagnostic, ...]:
    """All findings once, in the order of their places; one that only some variants have names them."""
    where: dict[tuple[object, ...], list[str]] = {}
    first: dict[tuple[object, ...], Diagnostic] = {}
    for label, diagnostics in found.items():
        for d in diagnostics:
            key = (d.span, d.code, d.message)
            first.setdefault(key, d)
            labels = where.setdefault(key, [])
            if label not in labels:
                labels.append(label)
    named = [
        d if len(where[key]) == len(found) else replace(d, message=f"{d.message} (variant {', '.join(where[key])})")
        for key, d in first.items()
    ]
    return tuple(sorted(named, key=lambda d: (d.span, d.code)))


def _summary(reports: list[Report], complete: bool) -> ProofSummary:
    proofs = [r.proof for r in reports]
    return ProofSummary(
        complete and all(p.complete for p in proofs),
        sum(p.states for p in proofs),
        sum(p.seconds for p in proofs),
        next(iter(dict.fromkeys(p.statement for p in proofs)), ""),
    )
