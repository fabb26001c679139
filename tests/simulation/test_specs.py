"""Every bundled spec gives the right numbers under every kind of schedule, over small shapes with edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.small_shapes import SMALL_SHAPES
from tsgen.cli.analysis import Case, analyse
from tsgen.cli.options import Selection
from tsgen.runtime.problem import parse_shape
from tsgen.simulate.run import simulate
from tsgen.simulate.scheduler import POLICIES

ROOT = Path(__file__).parents[2]
BUNDLED = {p.name: p for folder in ("tests/language", "specs") for p in ROOT.glob(f"{folder}/*.*ml")}


def cases() -> list[tuple[str, Case]]:
    found = []
    for _, path in sorted(BUNDLED.items()):
        for case in analyse(str(path), Selection({}), prove=False).cases:
            found.append((f"{path.stem}{case.suffix}", case))
    return found


@pytest.mark.parametrize(("case"), [pytest.param(c, id=n) for n, c in cases()])
def test_numbers_are_right_under_every_policy(case: Case) -> None:
    for shape in SMALL_SHAPES[case.program.name]:
        for seed in range(len(POLICIES)):
            outcome = simulate(case.program, case.kernels, parse_shape(shape), seed)
            assert outcome.ok, str(outcome)
