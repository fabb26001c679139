"""Wrong variants hang or race in the simulator, under the seeds that `tests.simulation.verdicts --write` has found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulation.verdicts import NUMBERS, SEEN
from tests.simulation.wrong import wrong_variants
from tsgen.cli.analysis import analyse
from tsgen.cli.options import Selection, one
from tsgen.simulate.run import simulate

RUNS = json.loads(SEEN.read_text(encoding="utf-8"))
WRONG = {w.name: w for w in wrong_variants()}


@pytest.mark.parametrize("name", RUNS)
def test_it_is_seen_again(tmp_path: Path, name: str) -> None:
    wrong, run = WRONG[name], RUNS[name]
    path = tmp_path / f"spec{wrong.suffix}"
    path.write_text(wrong.text, encoding="utf-8")
    selection = one({}, run["variant"], None) if run["variant"] else Selection({}, single=True)
    case = analyse(str(path), selection, prove=False).cases[0]
    outcome = next(  # a change of the spec may move the fault to another seed
        (o for s in (run["seed"], *range(10)) if not (o := simulate(case.program, case.kernels, run["shape"], s)).ok),
        None,
    )
    assert outcome is not None
    assert (outcome.finding is None) == (run["what"] == NUMBERS)
    if outcome.finding is not None:
        assert outcome.finding.places and outcome.finding.timeline
