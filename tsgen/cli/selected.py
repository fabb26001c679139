"""What `run` and `bench` share: one kernel of a spec, and ways to call it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tsgen.cli import FINDINGS, UNREADABLE
from tsgen.cli.console import note, use_color
from tsgen.cli.options import Selection, one

if TYPE_CHECKING:
    from tsgen.cli.analysis import Case
    from tsgen.diagnostics.report import FileReport
    from tsgen.model.kernel import Program
    from tsgen.runtime.launch import Kernel as Launch
    from tsgen.runtime.meta import Meta


class Stop(click.ClickException):
    """The spec has findings, which have been printed."""

    def __init__(self, status: int) -> None:
        super().__init__("")
        self.status = status


def select(spec: str, sets: dict[str, str], variant: str | None, target: str | None, aot: Path | None) -> Case:
    """The spec for one variant. An AOT library's own variant is taken if its module lies beside it. Raises Stop.

    What is to be built here is proven first: a schedule that may hang or race is not run.
    """
    meta = _meta_beside(aot)
    if meta is not None and variant is None and not sets:
        variant = meta.variant
    case = resolved(spec, one(sets, variant, target), prove=aot is None)
    if meta is not None:
        _compare_meta(aot, meta, case.program)
    return case


def resolved(spec: str, selection: Selection, *, prove: bool = False) -> Case:
    """The one case of a selection, without findings. Raises Stop."""
    from tsgen.cli.analysis import analyse

    analysis = analyse(spec, selection, prove=prove)
    if not analysis.report.ok or not analysis.cases:
        raise _stop(analysis.report)
    return analysis.cases[0]


def _meta_beside(aot: Path | None) -> Meta | None:
    from tsgen.runtime.errors import CannotRun
    from tsgen.runtime.meta import read_meta

    module = aot.with_suffix(".py") if aot is not None else None
    if module is None or not module.is_file():
        return None
    try:
        return read_meta(module)
    except CannotRun:
        return None


def _compare_meta(aot: Path | None, meta: Meta, program: Program) -> None:
    other = []
    for kernel in program.kernels:
        built, env = meta.params.get(kernel.name, {}), kernel.env
        other += [f"{k} = {built[k]}" for k in built if k in env and env[k] != built[k]]
    if other:
        raise click.UsageError(f"{aot} was built with {', '.join(other)}: say so with --variant or --set.")
    if meta.spec_sha256 != program.sha256:
        note(f"note: {aot} was built from another version of {program.path}")


@contextmanager
def callable_kernel(case: Case, aot: Path | None) -> Iterator[Launch]:
    """The kernel ready to be called: from an AOT library, or built and compiled. Raises Stop, CannotRun."""
    from tsgen.cli.build import emit_case
    from tsgen.runtime.device import find_device
    from tsgen.runtime.launch import aot_kernel, module_kernel

    device = find_device(case.target)
    if aot is not None:
        yield aot_kernel(aot, case.program.name, device.sms)
        return
    with tempfile.TemporaryDirectory(prefix="tsgen-") as folder:
        module = emit_case(case, case.program.path, Path(folder))
        if module is None:
            raise Stop(FINDINGS)
        module.path.write_text(module.text, encoding="utf-8")
        yield module_kernel(module.path)


def _stop(report: FileReport) -> Stop:
    from tsgen.diagnostics.formats.full import render_findings

    note(render_findings(report, use_color(sys.stderr)).rstrip("\n"))
    return Stop(FINDINGS if report.readable else UNREADABLE)
