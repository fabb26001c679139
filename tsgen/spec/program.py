"""Spec files -> programs: the interface of the front end to the rest of tsgen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tsgen.diagnostics import Diagnostic
from tsgen.frozen import frozen
from tsgen.model.kernel import Kernel, Program
from tsgen.spec.load import Document, load
from tsgen.spec.node import MapNode
from tsgen.spec.resolve.chain import check_chain
from tsgen.spec.resolve.context import Chain
from tsgen.spec.resolve.kernel import resolve_kernel
from tsgen.spec.resolve.params import param_names, variant_names
from tsgen.spec.validate import validate

NO_SETS: Mapping[str, str] = {}


@frozen
class Result:
    """A program, or None and the findings why. `readable` is False if the file could not be read at all (exit 2)."""

    program: Program | None
    diagnostics: tuple[Diagnostic, ...]
    text: str
    readable: bool


def load_document(path: Path) -> Document:
    """Reads a file and checks it against the schema. Never raises: see the document's `diagnostics`."""
    document = load(path)
    found = [d for root in document.roots for d in validate(root)]
    return replace(document, diagnostics=_sorted((*document.diagnostics, *found)))


def variants_of(document: Document) -> tuple[str | None, ...]:
    """The variants that a document has: their names in order, or (None,) for the params' own values."""
    names = dict.fromkeys(n for root in document.roots for n in variant_names(root))
    return tuple(names) or (None,)


def resolve(
    document: Document,
    *,
    variant: str | None = None,
    sets: Mapping[str, str] = NO_SETS,
    target: str | None = None,
) -> Result:
    """The program for one variant (None: the params' own values), `--set` values and target (None: the first)."""
    if document.diagnostics or not document.roots:
        return Result(None, document.diagnostics, document.text, document.readable)
    kernels: list[Kernel] = []
    found: list[Diagnostic] = []
    chain = Chain()
    lines = tuple(document.text.split("\n"))
    for root in document.roots:
        own_variant, own_sets = _selected(document, root, variant, sets)
        kernel, diagnostics = resolve_kernel(
            root, lines=lines, variant=own_variant, sets=own_sets, target=target, chain=chain
        )
        found += diagnostics
        if kernel is not None:
            kernels.append(kernel)
        chain = chain.then(kernel)
    if len(kernels) == len(document.roots):
        found += check_chain(kernels)
    if any(d.severity == "error" for d in found):
        return Result(None, _sorted(found), document.text, True)
    program = Program(document.path, document.sha256, tuple(kernels))
    return Result(program, _sorted(found), document.text, True)


def _selected(
    document: Document, root: MapNode, variant: str | None, sets: Mapping[str, str]
) -> tuple[str | None, Mapping[str, str]]:
    """What of a selection concerns one kernel: in a chain, variants and params need not be in all of them."""
    roots = document.roots
    if variant is not None and variant not in variant_names(root) and any(variant in variant_names(r) for r in roots):
        variant = None
    elsewhere = {k for k in sets if k not in param_names(root) and any(k in param_names(r) for r in roots)}
    return variant, {k: v for k, v in sets.items() if k not in elsewhere}


def load_program(
    path: Path,
    *,
    variant: str | None = None,
    sets: Mapping[str, str] = NO_SETS,
    target: str | None = None,
) -> Result:
    """`load_document` and `resolve` in one."""
    return resolve(load_document(path), variant=variant, sets=sets, target=target)


def _sorted(found: tuple[Diagnostic, ...] | list[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(dict.fromkeys(found), key=lambda d: (d.span, d.code, d.message)))
