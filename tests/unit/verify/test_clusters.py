"""CTAs of a cluster that share barriers are one part; those that do not are balanced, and proven, apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.process import ROOT
from tsgen.derive import derive
from tsgen.spec import load_program
from tsgen.verify import verify
from tsgen.verify.model import Report

CLUSTER = ("cluster: {c: cluster}", "cluster: {c: 2, r: 2}")
RELEASE = "        - ring.release()\n"


def of(tmp_path: Path, *edits: tuple[str, str]) -> Report:
    text = (ROOT / "specs/leader_routed.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "leader_routed.yaml"
    path.write_text(text, encoding="utf-8")
    program = load_program(path, variant="cluster").program
    assert program is not None
    (k,) = program.kernels
    return verify(k, derive(k))


def test_rows_of_a_cluster_that_multicast_only_among_themselves(tmp_path: Path) -> None:
    report = of(tmp_path, CLUSTER)
    assert report.diagnostics == ()
    assert report.proof.complete and report.proof.method == "closure"


@pytest.mark.parametrize(
    "release",
    [
        "        - when_true: {cond: j > 0}\n          steps: [ring.release()]\n",
        "        - every: {period: 2, start: 1}\n          steps: [ring.release()]\n",
    ],
)
def test_a_stage_of_such_a_row_that_is_never_freed(tmp_path: Path, release: str) -> None:
    report = of(tmp_path, CLUSTER, (RELEASE, release))
    assert [d.code for d in report.diagnostics][:1] in (["TS404"], ["TS400"])
    assert "half complete" not in report.diagnostics[0].message
