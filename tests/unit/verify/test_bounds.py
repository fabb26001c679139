"""Bounds that fall where a number rises, and bounds that are sums: all trips they can have are run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.kernels import kernel
from tsgen.derive import derive
from tsgen.verify import verify
from tsgen.verify.model import Report

BOUND = 'end: "ceil_div(N, tile_n)"}'
X = "  x: {dtype: io, shape: [M, N]}\n"
SCALARS = (X, X + "  a: {dtype: i32, shape: []}\n  b: {dtype: i32, shape: []}\n")
GRAPH = "graph: {ring: [x], y: [ring]}"
LAUNCH = 'launch: {tiles: {m: "ceil_div(M, tile_m)"}'


def of(tmp_path: Path, load: str, store: str, launch: str = "") -> Report:
    """copy_tma, with other loops."""
    tasks = {"load": load, "store": store}
    edits = [SCALARS, (BOUND, load + "}"), (BOUND, store + "}")]
    reads = {task: "".join(f", {x}" for x in "ab" if re.search(rf"\b{x}\b", words)) for task, words in tasks.items()}
    edits.append((GRAPH, f"graph: {{ring: [x{reads['load']}], y: [ring{reads['store']}]}}"))
    if launch:
        edits.append((LAUNCH, f"{LAUNCH}, {launch}"))
    k = kernel(tmp_path, "copy_tma", *edits)
    return verify(k, derive(k))


@pytest.mark.parametrize(
    ("load", "store"),
    [
        ("end: a", "end: a - b"),
        ("end: a - b", "end: a"),
        ("start: b, end: a", "start: a, end: b"),
        ("end: 5 - a", "end: 4 - a"),
        ("end: 2*a + 3", "end: 2*a + 2"),
        ("start: m, end: a", "start: m + 1, end: a"),
    ],
)
@pytest.mark.parametrize("assumed", ["", "assume: [b >= 0, a >= b - 9]"])
def test_loops_that_differ_where_a_number_is_subtracted(tmp_path: Path, load: str, store: str, assumed: str) -> None:
    report = of(tmp_path, load, store, assumed)
    assert report.diagnostics and report.diagnostics[0].code in ("TS400", "TS404")


@pytest.mark.parametrize(
    ("load", "store"),
    [
        ("start: b, end: a", "start: b, end: a"),
        ("start: b, end: a", "end: a - b"),
        ("start: b, end: a", "start: 1, end: a - b + 1"),
        ("end: 5 - a", "start: a, end: 5"),
        ("end: 2*a + 3", "start: -3, end: a + a"),
        ("start: m, end: a", "end: a - m"),
    ],
)
def test_loops_of_equal_difference(tmp_path: Path, load: str, store: str) -> None:
    report = of(tmp_path, load, store)
    assert report.diagnostics == ()
    assert report.proof.complete and report.proof.method == "closure"
