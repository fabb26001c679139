"""`tsgen bench`: times a kernel beside others, in one process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from tsgen.runtime.bench import Row, Table
    from tsgen.runtime.launch import Kernel as Launch


@click.command()
@spec_argument
@shapes_option
@click.option("--against", metavar="torch|copy|FILE", multiple=True,
              help="PyTorch's call for the same work, a device copy of as many bytes, a generated module or an AOT "
              "library of the same signature; may be repeated.")  # fmt: skip
@click.option("--rounds", type=click.IntRange(1, 1000), default=12, show_default=True, help="Medians are over these.")
@seed_option
@aot_option
@set_option
@variant_option
@target_option
def command(
    spec: str,
    shapes: tuple[str, ...],
    against: tuple[str, ...],
    rounds: int,
    seed: int,
    aot: Path | None,
    sets: dict[str, str],
    variant: str | None,
    target: str | None,
) -> int:
    """Times a kernel and what it is held against, on the shapes of `reference` unless others are given.

    In each round the candidates come in another order, each with 5 untimed launches directly before 20 timed ones;
    the table has the medians, and how many times faster the kernel is than each other. Outputs are checked first: one
    that is wrong has a `!` and makes the exit status 1.
    """
    from tsgen.cli.selected import Stop, callable_kernel, select
    from tsgen.model.chain import whole
    from tsgen.runtime.bench import Table, bench
    from tsgen.runtime.device import find_device
    from tsgen.runtime.errors import CannotRun
    from tsgen.runtime.problem import parse_shape

    try:
        given = [parse_shape(s) for s in shapes] or None
        case = select(spec, sets, variant, target, aot)
        kernel = whole(case.program)
        device = find_device(kernel.target)
        others = _others(against, device.sms)
        table = Table([kernel.name, *others])
        heads: list[str] = []

        def report(row: Row) -> None:
            if row.rate.unit not in heads:
                heads.append(row.rate.unit)
                write(table.head(row.rate.unit) + "\n")
            write(table.row(row) + "\n")

        with callable_kernel(case, aot) as launch:
            candidates = {kernel.name: launch, **others}
            rows = bench(kernel, candidates, given, seed=seed, rounds=rounds, report=report)
    except Stop as e:
        return e.status
    except CannotRun as e:
        raise click.ClickException(str(e)) from None
    _summary(table, rows, device.name)
    return FINDINGS if any(r.wrong for r in rows) else OK


def _others(against: Sequence[str], sms: int) -> dict[str, Launch | None]:
    from tsgen.runtime.bench import PEERS
    from tsgen.runtime.launch import aot_kernel, module_kernel

    others: dict[str, Launch | None] = {}
    for name in against:
        path = Path(name)
        if name in PEERS:
            others[name] = None
        elif path.suffix == ".so":
            others[path.stem] = aot_kernel(path, None, sms)
        elif path.suffix == ".py":
            others[path.stem] = module_kernel(path)
        else:
            raise click.UsageError(f"--against takes torch, copy, a module (.py) or a library (.so), not {name!r}.")
    return others


def _summary(table: Table, rows: list[Row], device: str) -> None:
    if len(table.names) > 1 and len(rows) > 1:
        write(table.mean(rows) + "\n")
    peers = dict.fromkeys((name, what) for r in rows for name, what in r.peers.items())
    write(f"{device}, medians" + "".join(f"; {name} is {what}" for name, what in peers) + "\n")
