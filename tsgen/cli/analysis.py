"""A spec file taken through load, resolve, derive and verify, for every variant and target that a command is about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from tsgen.cli.options import Selection
from tsgen.derive import Derived, derive
from tsgen.diagnostics import Diagnostic, Span
from tsgen.diagnostics.report import FileReport, ProofSummary
from tsgen.frozen import frozen
from tsgen.model.expr import Scalar
from tsgen.model.kernel import Kernel, Program
from tsgen.spec import Result, load_document, resolve, variants_of
from tsgen.spec.load import Document
from tsgen.spec.node import MapNode, Node, plain
from tsgen.verify import Report, Seen, verify
from tsgen.verify.chains import verify_chain

DEFAULT = "default"  # the label of the params' own values


@frozen
class Case:
    """A spec for one variant and one target. `suffix` is the variant's part of file names, empty for the default."""

    label: str
    suffix: str
    target: str
    program: Program
    kernels: tuple[tuple[Kernel, Derived], ...]


@frozen
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
    seen: Seen = {}
    for label, suffix, target, result in _results(document, selection):
        diagnostics = list(result.diagnostics)
        if result.program is not None:
            kernels = tuple((k, derive(k)) for k in result.program.kernels)
            reports = [verify(k, d, seen) for k, d in kernels] if prove else []
            diagnostics += [d for r in reports for d in r.diagnostics]
            diagnostics += verify_chain(result.program.kernels) if prove else []
            proofs += reports
            cases.append(Case(label, suffix, target, result.program, kernels))
        found[label] = tuple(diagnostics)
    complete = bool(proofs) and len(cases) == len(found)
    report = FileReport(path, document.text, merge(found), _summary(proofs, complete), document.readable)
    return Analysis(report, tuple(cases))


def _results(document: Document, selection: Selection) -> Iterator[tuple[str, str, str, Result]]:
    """One resolution for each variant and target: label, suffix of file names, target.

    A variant that changes nothing is the default under its name. Where variants are asked for by name it does not
    matter whether the default can be resolved.
    """
    own = _own_values(document)
    _refuse_unknown(document, selection, own)
    base = resolve(document, sets=selection.sets, target=selection.target)
    known = base.program
    if known is None:
        sets, target = selection.sets, selection.target
        asked = {
            n: resolve(document, variant=None if n == own else n, sets=sets, target=target) for n in selection.variants
        }
        known = next((r.program for r in asked.values() if r.program is not None), None)
        if known is None:
            yield from ((n, f"_{n}", "", r) for n, r in asked.items()) if asked else [(DEFAULT, "", "", base)]
            return
    declared = {name: values for k in known.kernels for name, values in k.variants.items()}
    first = known.kernels[0]
    nothing = (n for n, values in declared.items() if _changes_nothing(known, values))
    default = next(nothing, DEFAULT) if base.program is not None else DEFAULT
    named = tuple(dict.fromkeys(default if n == own else n for n in selection.variants))
    wanted = named or ((default,) if selection.single else tuple(dict.fromkeys([default, *declared])))
    targets = (first.target,) if selection.single or selection.target else first.targets
    for target in targets:
        for label in wanted:
            shown = f"{label} on {target}" if len(targets) > 1 else label
            variant = None if label == default else label
            same = variant is None and target == first.target
            result = base if same else resolve(document, variant=variant, sets=selection.sets, target=target)
            yield shown, f"_{variant}" if variant else "", target, result


def _own_values(document: Document) -> str | None:
    """What `--variant` calls the spec with the params' own values: `default`, unless that is a variant's name."""
    return None if DEFAULT in variants_of(document) else DEFAULT


def _refuse_unknown(document: Document, selection: Selection, own: str | None) -> None:
    """Options that name what the spec lacks are wrong usage, not findings in the spec."""
    params = {name for root in document.roots for name in _keys(root.get("params"))}
    variants = [name for name in (own, *variants_of(document)) if name is not None]
    targets = [str(t) for root in document.roots for t in _items(root.get("target"))]
    for option, noun, names, known in (
        ("--set", "param", selection.sets, params),
        ("--variant", "variant", selection.variants, variants),
        ("--target", "target", [selection.target] if selection.target else [], targets),
    ):
        for name in names:
            if document.roots and name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise click.UsageError(f"{option}: {document.path} has no {noun} {name!r}; it has {listed}.")


def _keys(node: Node | None) -> Sequence[str]:
    return list(node.entries) if isinstance(node, MapNode) else []


def _items(node: Node | None) -> Sequence[object]:
    value = plain(node) if node is not None else []
    return value if isinstance(value, list) else [value]


def _changes_nothing(program: Program, values: Mapping[str, Scalar]) -> bool:
    """Whether a variant sets nothing but the values that the params have anyway."""
    return all(k.env.get(name, value) == value for k in program.kernels for name, value in values.items())


def merge(found: Mapping[str, tuple[Diagnostic, ...]]) -> tuple[Diagnostic, ...]:
    """The findings of all variants by place. What several find at one place is one finding, in the first one's words;
    a finding that only some variants have names them."""
    groups: dict[tuple[Span, str], list[_Merged]] = {}
    for label, diagnostics in found.items():
        for d in diagnostics:
            _add(groups.setdefault((d.span, d.code), []), label, d)
    merged = [m.finding(len(found)) for group in groups.values() for m in group]
    return tuple(sorted(merged, key=lambda d: (d.span, d.code)))


class _Merged:
    """A finding with the variants that have it, and what those said that said it otherwise."""

    def __init__(self, label: str, diagnostic: Diagnostic) -> None:
        self.diagnostic = diagnostic
        self.labels = [label]
        self.others: dict[str, str] = {}  # message -> the first variant with it

    def finding(self, everywhere: int) -> Diagnostic:
        d = self.diagnostic
        notes = [line for message, label in self.others.items() for line in ("", f"variant {label}: {message}")]
        message = d.message if len(self.labels) == everywhere else f"{d.message} (variant {', '.join(self.labels)})"
        return replace(d, message=message, notes=(*d.notes, *notes))


def _add(group: list[_Merged], label: str, d: Diagnostic) -> None:
    free = [m for m in group if label not in m.labels]
    same = next((m for m in free if m.diagnostic.message == d.message), free[0] if free else None)
    if same is None:
        if all(m.diagnostic.message != d.message for m in group):
            group.append(_Merged(label, d))
        return
    same.labels.append(label)
    if same.diagnostic.message != d.message:
        same.others.setdefault(d.message, label)


def _summary(reports: list[Report], complete: bool) -> ProofSummary:
    proofs = [r.proof for r in reports]
    return ProofSummary(
        complete and all(p.complete for p in proofs),
        sum(p.states for p in proofs),
        sum(p.seconds for p in proofs),
        next(iter(dict.fromkeys(p.statement for p in proofs)), ""),
    )
