"""cp.async in the simulator: which commit and which wait are after the copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.verify.handing import COPY, RING, SIGNAL, buffer, ring, signal, spec
from tsgen.cli.analysis import analyse
from tsgen.cli.options import Selection
from tsgen.simulate.run import simulate

SEEDS = 12
WAITS = SIGNAL[0].replace("s.commit", "cp_async.wait_group(0), s.commit")
BOTH = buffer(COPY) + ring(COPY, "async_async").replace("buf:", "r:")
TAKE = 'r.wait(), v = r.get(), "y.set(i=i, v=v)", r.release()'
TWO = "buf.put(i=i), r.acquire(), r.put(i=i), r.commit(), cp_async.wait_group({n}), v = buf.get()"


def right(tmp_path: Path, text: str) -> bool:
    """Whether a copy of x is right under all seeds."""
    path = tmp_path / "handing.yaml"
    path.write_text(
        text.replace("resources:\n", "reference: {value: {y: x}, shapes: [{M: 1, N: 512}]}\nresources:\n", 1)
    )
    case = analyse(str(path), Selection({}, single=True), prove=False).cases[0]
    return all(simulate(case.program, case.kernels, {"M": 1, "N": 512}, s).ok for s in range(SEEDS))


@pytest.mark.parametrize(
    ("resources", "steps", "ok"),
    [
        (signal(COPY, "async_async"), SIGNAL, False),
        (signal(COPY, "async_async"), (WAITS, SIGNAL[1]), True),
        (ring(COPY, "async_async"), RING, True),
    ],
)
def test_a_commit_of_another_ring_waits_for_no_copy(
    tmp_path: Path, resources: str, steps: tuple[str, str], ok: bool
) -> None:
    assert right(tmp_path, spec(resources, steps)) == ok


@pytest.mark.parametrize("n", [0, 1])
def test_a_copy_into_a_ring_is_no_group(tmp_path: Path, n: int) -> None:
    text = spec(BOTH, (TWO.format(n=n), TAKE))
    text = text.replace("graph: {buf: [x], y: [buf]}", "graph: {buf: [x], r: [x], y: [r]}")
    assert right(tmp_path, text) == (n == 0)
