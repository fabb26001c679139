"""`tsgen run`: runs a kernel on the GPU here and compares it with the spec's `reference`."""

from __future__ import annotations

from pathlib import Path

import click

from tsgen.cli import FINDINGS, OK
from tsgen.cli.console import write
from tsgen.cli.options import (
    aot_option,
    seed_option,
    set_option,
    shapes_option,
    spec_argument,
    target_option,
    variant_option,
)


@click.command()
@spec_argument
@shapes_option
@seed_option
@aot_option
@set_option
@variant_option
@target_option
def command(
    spec: str,
    shapes: tuple[str, ...],
    seed: int,
    aot: Path | None,
    sets: dict[str, str],
    variant: str | None,
    target: str | None,
) -> int:
    """Builds a kernel, runs it on the GPU here and compares it with `reference`, over the shapes written there.

    Outputs are filled with NaN beforehand and fenced by guard zones. With --aot neither the DSL nor a compiler is
    needed: PyTorch, apache-tvm-ffi and libcute_dsl_runtime.so are. Exit status 1 if a result is wrong.
    """
    from tsgen.cli.selected import Stop, callable_kernel, select
    from tsgen.model.chain import whole
    from tsgen.runtime.errors import CannotRun
    from tsgen.runtime.problem import parse_shape
    from tsgen.runtime.run import run

    try:
        given = [parse_shape(s) for s in shapes] or None
        case = select(spec, sets, variant, target, aot)
        with callable_kernel(case, aot) as launch:
            outcomes = run(whole(case.program), launch, given, seed=seed, report=lambda o: write(f"{o}\n"))
    except Stop as e:
        return e.status
    except CannotRun as e:
        raise click.ClickException(str(e)) from None
    return OK if all(o.ok for o in outcomes) else FINDINGS
