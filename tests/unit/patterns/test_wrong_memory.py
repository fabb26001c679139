"""What people get wrong with dependent launches and with sums that CTAs of a cluster exchange: `check` rejects it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import program
from tests.unit.patterns.test_wrong import Edit, codes, moved, without
from tsgen.derive import derive
from tsgen.verify import verify

CHAIN, RMSNORM = "specs/pdl_chain.yaml", "specs/rmsnorm.yaml"
WAIT_X = "    - pdl.wait_griddep()                   # what runs before may still write x, or read t\n"
WAIT_T = "    - pdl.wait_griddep()                   # all of t is written\n"
LAUNCH = "    - pdl.launch_griddep()\n"
GET_X, GET_T = "    - v = x.get()\n", "    - v = t.get()\n"

CASES: list[tuple[str, str, str | None, list[Edit], str]] = [
    ("launched before it has waited", CHAIN, None, [(WAIT_X + LAUNCH, LAUNCH + WAIT_X)], "TS700"),
    ("no wait before t is overwritten", CHAIN, None, [(WAIT_X, "")], "TS702"),
    ("t read before the wait", CHAIN, None, [(WAIT_T + GET_T, GET_T + WAIT_T)], "TS701"),
    ("t read without a wait", CHAIN, None, [(WAIT_T, "")], "TS702"),
    ("x read before the wait", CHAIN, None, [(GET_X, ""), (WAIT_X, GET_X + WAIT_X)], "TS701"),
    ("sent before the stage is free", RMSNORM, "n65536", [moved("sums.acquire()", "sums.send()")], "TS405"),
    ("read before all sums are there", RMSNORM, "n65536", [moved("sums.wait()", "row.gather()")], "TS405"),
    ("released before they are read", RMSNORM, "n65536", [moved("row.gather()", "sums.release()")], "TS405"),
    ("never released", RMSNORM, "n65536", [without("sums.release()")], "TS300"),
    ("all CTAs send to the same columns", RMSNORM, "n65536", [("s[:, p*warps:+warps]", "s[:, 0:+warps]")], "TS500"),
    ("releases of the own CTA alone", RMSNORM, "n65536",
     [("peer_async, num_stages: 2", "peer_async, num_stages: 2, consumer_group: 8")], "TS310"),
    ("bytes of the own CTA alone", RMSNORM, "n65536",
     [("peer_async, num_stages: 2", "peer_async, num_stages: 2, num_bytes: 32")], "TS320"),
    ("the block given back before it is read again", RMSNORM, None,
     [("row.read()\n        - ring.release()", "ring.release()\n        - row.read()")], "TS405"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "variant"), [(CHAIN, None), (CHAIN, "serial"), (RMSNORM, None), (RMSNORM, "n65536")]
)
def test_the_specs_are_proven(tmp_path: Path, source: str, variant: str | None) -> None:
    for kernel in program(tmp_path, source, variant=variant).kernels:
        report = verify(kernel, derive(kernel))
        assert not report.diagnostics and report.proof.complete


@pytest.mark.parametrize(
    ("source", "variant", "edits", "code"),
    [c[1:] for c in CASES],
    ids=[f"{Path(c[1]).stem}-{c[0]}" for c in CASES],
)
def test_rejected(tmp_path: Path, source: str, variant: str | None, edits: list[Edit], code: str) -> None:
    assert code in codes(tmp_path, source, variant, edits)
