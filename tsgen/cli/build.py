"""`tsgen build`: writes the module of every variant and target of a spec, or compares it with what is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from tsgen.cli import FINDINGS, OK, UNREADABLE
from tsgen.cli.console import note, use_color, write
from tsgen.cli.files import Module
from tsgen.cli.options import Selection, given, set_option, specs_argument, target_option, variants_option

if TYPE_CHECKING:
    from tsgen.cli.analysis import Analysis, Case
    from tsgen.diagnostics import Diagnostic
    from tsgen.diagnostics.report import FileReport
    from tsgen.emit import Form


@click.command()
@specs_argument
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(file_okay=False, path_type=Path),
    default="generated",
    show_default=True,
    metavar="DIR",
    help="Where the modules go.",
)
@target_option
@set_option
@variants_option
@click.option(
    "--emit",
    "form",
    type=click.Choice(["cute", "ts"]),
    default="cute",
    show_default=True,
    help="CuTe alone, or the same kernel against NVIDIA's Task Scheduling (…_ts.py).",
)
@click.option(
    "--compile",
    "kind",
    type=click.Choice(["ptx", "cubin", "aot"]),
    help="Also compile each module, without a GPU; the result lies beside it.",
)
@click.option("--check", is_flag=True, help="Write nothing; print how the modules there differ, exit 1 if they do.")
@click.option("--depfile", "depfiles", is_flag=True, help="Write a rule for make beside each module (.d).")
def command(
    specs: tuple[str, ...],
    out: Path,
    target: str | None,
    sets: dict[str, str],
    variants: tuple[str, ...],
    form: Form,
    kind: str | None,
    check: bool,
    depfiles: bool,
) -> int:
    """Writes DIR/KERNEL[_VARIANT]_SM.py for every variant and target of each SPEC.

    A spec with errors is not built. Files are replaced atomically, and only if their content changes.
    """
    if sets and not given("out"):
        raise click.UsageError("--set changes modules but not their names: say with -o DIR where these are to go.")
    if check and (kind or depfiles):
        raise click.UsageError("--check writes nothing: leave --compile and --depfile out.")
    status, modules = _emit_all(specs, Selection(sets, variants, target), out, form)
    if check:
        from tsgen.cli.drift import compare, leftovers

        whole = not (variants or target)
        return max(status, compare(modules, leftovers(modules, specs, out, form) if whole else {}))
    for module in modules:
        _write(module, depfiles)
    return max(status, _compile(modules, kind)) if kind else status


def _emit_all(specs: Sequence[str], selection: Selection, out: Path, form: Form) -> tuple[int, list[Module]]:
    """The modules of all specs, and the worst status; a spec with findings is reported and gives none."""
    from tsgen.cli.analysis import analyse

    status, modules = OK, list[Module]()
    for spec in specs:
        analysis = analyse(spec, selection)
        report = analysis.report
        if report.ok:
            emitted, report = _emit_spec(spec, analysis, out, form)
            modules += emitted
        if report.diagnostics:
            _report(report)
        status = max(status, OK if report.ok else FINDINGS if report.readable else UNREADABLE)
    _refuse_collisions(modules)
    return status, modules


def _report(report: FileReport) -> None:
    from tsgen.diagnostics.formats.full import render_findings

    note(render_findings(report, use_color(sys.stderr)).rstrip("\n"))


def _emit_spec(spec: str, analysis: Analysis, out: Path, form: Form) -> tuple[list[Module], FileReport]:
    """The modules of a spec; none if one of its variants cannot be emitted, which the report then says."""
    from dataclasses import replace

    from tsgen.cli.analysis import merge

    results = {case.label: _emit_case(case, spec, out, form) for case in analysis.cases}
    refused = {label: () if isinstance(r, Module) else (r,) for label, r in results.items()}
    report = replace(analysis.report, diagnostics=(*analysis.report.diagnostics, *merge(refused)))
    return ([r for r in results.values() if isinstance(r, Module)] if report.ok else []), report


def _emit_case(case: Case, spec: str, out: Path, form: Form = "cute") -> Module | Diagnostic:
    """The module of one variant and target, or what it is that cannot be emitted."""
    from tsgen.emit import emit
    from tsgen.lower.errors import Unsupported

    try:
        text = emit(case.program, [derived for _, derived in case.kernels], form)
        return Module(out / _file_name(case, form), text, spec, case.program.name)
    except Unsupported as e:
        return e.diagnostic


def emit_case(case: Case, spec: str, out: Path) -> Module | None:
    """The module of one variant and target; None if it cannot be emitted, which is reported."""
    result = _emit_case(case, spec, out)
    if isinstance(result, Module):
        return result
    _report_at(spec, result)
    return None


def _file_name(case: Case, form: Form) -> str:
    suffix = "_ts" if form == "ts" else ""
    return f"{case.program.name}{case.suffix}_{case.target.replace('_', '')}{suffix}.py"


def _refuse_collisions(modules: Sequence[Module]) -> None:
    """Two specs of one kernel would overwrite each other's modules, built together or one after the other."""
    first: dict[Path, Path] = {}
    specs = {Path(m.spec) for m in modules}
    for m in modules:
        other = first.setdefault(m.path, Path(m.spec))
        if other == Path(m.spec):
            other = _source_there(m)
            if other in specs:  # it gives other modules now
                continue
        if other != Path(m.spec):
            raise click.UsageError(
                f"{other} and {m.spec} both give {m.path}: rename the kernel of one of them, or build them into two "
                "folders (-o DIR)."
            )


def _source_there(m: Module) -> Path:
    """The spec that the module in this place was built from, if it still lies beside the one at hand, else that."""
    from tsgen.cli.files import source_of

    spec = Path(m.spec)
    other = spec.parent / (source_of(m.path) or spec.name)
    return other if other.is_file() else spec


def _write(module: Module, depfiles: bool) -> None:
    from tsgen.cli.files import depfile, write_if_changed

    changed = write_if_changed(module.path, module.text)
    lines = module.text.count("\n")
    write(f"{module.path}: {f'written, {lines} lines' if changed else 'unchanged'}\n")
    if depfiles:
        rule = depfile(module.path, [Path(module.spec), *_own_sources()])
        write_if_changed(module.path.with_suffix(".d"), rule)


def _own_sources() -> list[Path]:
    """What a module depends on besides its spec: the parts of tsgen that took part in the build, and the templates."""
    from tsgen.emit.render import used_templates

    files = [getattr(m, "__file__", None) for name, m in sys.modules.items() if name.split(".")[0] == "tsgen"]
    return sorted({Path(f) for f in files if f} | set(used_templates()))


def _compile(modules: Sequence[Module], kind: str) -> int:
    """Compiles the modules; what the compiler rejects is reported at its place in the spec."""
    from tsgen.runtime.compile import CompileFailed, Kind, compile_module
    from tsgen.runtime.errors import CannotRun

    status = OK
    for m in modules:
        try:
            files = compile_module(m.path, cast(Kind, kind), spec=Path(m.spec))
        except CompileFailed as e:
            _report_at(m.spec, e.diagnostic)
            status = FINDINGS
        except CannotRun as e:
            raise click.ClickException(str(e)) from None
        else:
            write("".join(f"{f}: compiled\n" for f in files))
    return status


def _report_at(spec: str, diagnostic: Diagnostic) -> None:
    from tsgen.diagnostics.report import FileReport

    text = Path(spec).read_text(encoding="utf-8", errors="replace")
    _report(FileReport(spec, text, (diagnostic,)))
