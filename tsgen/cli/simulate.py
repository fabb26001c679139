"""`tsgen simulate`: runs a schedule on the CPU under many orders of warps and engines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tsgen.cli import FINDINGS, OK
from tsgen.cli.console import write
from tsgen.cli.options import (
    given,
    one,
    seed_option,
    set_option,
    shapes_option,
    spec_argument,
    target_option,
    variant_option,
)
from tsgen.diagnostics.formats.full import counted

if TYPE_CHECKING:
    from tsgen.cli.analysis import Case
    from tsgen.simulate.run import Outcome


@click.command()
@spec_argument
@shapes_option
@seed_option
@click.option("--seeds", type=click.IntRange(1, 10**6), default=10, show_default=True, help="Schedules of each shape.")
@click.option("--latency", is_flag=True, help="Model time, too: who is busy, and who waits for what.")
@click.option(
    "--trace",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --latency: a Chrome/Perfetto trace of the first shape.",
)
@set_option
@variant_option
@target_option
def command(
    spec: str,
    shapes: tuple[str, ...],
    seed: int,
    seeds: int,
    latency: bool,
    trace: Path | None,
    sets: dict[str, str],
    variant: str | None,
    target: str | None,
) -> int:
    """Runs a kernel on the CPU with NumPy and compares it with `reference`.

    Every seed from --seed on draws inputs and an order in which warps and asynchronous engines move; the same seed
    gives the same run. Without --shape the shapes of `reference` are taken, made small. Exit status 1 if a result is
    wrong, nothing can move any more, or memory is read or written that must not be then. Nothing is proven first.
    """
    from tsgen.cli.selected import Stop, resolved
    from tsgen.model.chain import whole
    from tsgen.runtime.errors import CannotRun
    from tsgen.runtime.problem import parse_shape

    if trace is not None and not latency:
        raise click.UsageError("--trace needs --latency: without it there is no time to show.")
    if latency and given("seeds"):
        raise click.UsageError("--latency is one run: leave --seeds out, and choose its inputs with --seed.")
    ok = True
    try:
        _need_numpy()
        from tsgen.simulate.run import run
        from tsgen.simulate.shapes import small_shapes

        case = resolved(spec, one(sets, variant, target))
        dims_of_runs = [parse_shape(s) for s in shapes] or small_shapes(whole(case.program))
        for dims in dims_of_runs:
            if latency:
                ok &= _in_time(case, spec, dims, seed, trace)
                trace = None
                continue
            outcomes = run(case.program, case.kernels, [dims], range(seed, seed + seeds))
            write(_report(outcomes, case, spec))
            ok &= outcomes[-1].ok
    except Stop as e:
        return e.status
    except CannotRun as e:
        raise click.ClickException(str(e)) from None
    return OK if ok else FINDINGS


def _need_numpy() -> None:
    """Raises CannotRun without NumPy."""
    import tsgen.simulate  # sets what NumPy reads when it is loaded
    from tsgen.runtime.arrays import NumpyArrays

    assert tsgen.simulate
    NumpyArrays()


def _in_time(case: Case, spec: str, dims: Mapping[str, int], seed: int, trace: Path | None) -> bool:
    """One run in modelled time, with its summary and its trace."""
    from tsgen.cli.files import write_if_changed
    from tsgen.simulate.run import simulate
    from tsgen.simulate.trace import Recorder

    recorder = Recorder()
    outcome = simulate(case.program, case.kernels, dims, seed, recorder)
    write(_report([outcome], case, spec))
    write("".join(f"     {line}\n" for line in recorder.summary()))
    if trace is not None:
        write_if_changed(trace, recorder.chrome())
    return outcome.ok


def _report(outcomes: list[Outcome], case: Case, spec: str) -> str:
    """One line for a shape that is right under all seeds; a failure with its steps and what the warps did last."""
    last = outcomes[-1]
    if last.ok:
        worst = {
            name: max((o.comparisons[name] for o in outcomes), key=lambda c: c.relative) for name in last.comparisons
        }
        parts = [f"{name}: {c}" for name, c in worst.items()]
        moves = sum(o.moves for o in outcomes)
        cost = f"{counted(len(outcomes), 'schedule')}, {counted(moves, 'move')}"
        return f"ok   {last.problem.label}: {'; '.join(parts)}; {cost}\n"
    lines = [str(last)]
    if last.finding is not None:
        lines += [f"  --> {spec}:{span.line}:{span.column}: {message}" for message, span in last.finding.places]
        lines += [f"      {line}" for line in last.finding.timeline]
    dims = ",".join(f"{k}={v}" for k, v in last.problem.dims.items())
    variant = f" --variant {case.program.kernels[0].variant}" if case.program.kernels[0].variant else ""
    lines.append(f"  again: tsgen simulate {spec}{variant} --shape {dims} --seed {last.seed} --seeds 1")
    return "\n".join(lines) + "\n"
