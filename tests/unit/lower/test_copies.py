"""Copies by cp.async and steps of the tensor core in generated text: who arrives, and with what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import module
from tests.unit.lower.test_rings import task
from tests.unit.verify.handing import COPY, COPY_BODY, RING, SIGNAL, STORE, ring, signal, spec

GROUP = "cp_async_commit_group()"


def built(tmp_path: Path, text: str, *edits: tuple[str, str]) -> str:
    path = tmp_path / "handing.yaml"
    path.write_text(text)
    return module(tmp_path, str(path), *edits)


@pytest.mark.parametrize("put", [COPY, COPY_BODY, COPY.replace("takes", "attrs: [auxiliary], takes")])
def test_a_ring_of_copies_is_committed_by_them(tmp_path: Path, put: str) -> None:
    text = built(tmp_path, spec(ring(put, "async_async"), RING))
    assert "pipeline.PipelineCpAsync.create(" in text and GROUP not in text


@pytest.mark.parametrize("put", [COPY, COPY_BODY])
def test_elsewhere_each_call_closes_a_group(tmp_path: Path, put: str) -> None:
    waits = (SIGNAL[0].replace("s.commit", "cp_async.wait_group(0), s.commit"), SIGNAL[1])
    fill = task(built(tmp_path, spec(signal(put, "async_async"), waits)), "fill")
    assert fill.index(GROUP) < fill.index("cp_async_wait_group(0)") < fill.index("producer_commit")


def test_one_warp_commits_for_all(tmp_path: Path) -> None:
    """A commit elects a lane of each warp that calls it, and the barrier expects one arrival."""
    steps = (SIGNAL[0].replace("s.commit", "bar.sync(), s.commit"), SIGNAL[1])
    for fillers in (1, 4):
        text = spec(signal(STORE, "umma_async"), steps, fillers, target="sm_100a")
        guarded = (
            "if warp_idx % 4 == 0:  # the tensor core arrives once for all warps\n                s.producer_commit"
        )
        assert (guarded in task(built(tmp_path, text), "fill")) == (fillers == 4)


def test_one_warp_multiplies_for_all(tmp_path: Path) -> None:
    two = (
        ("mma: {warp_idx: 4, num_warps: 1", "mma: {warp_idx: 4, num_warps: 2"),
        ("load: {warp_idx: 5", "load: {warp_idx: 6"),
    )
    mma = task(module(tmp_path, "specs/sm100_gemm.yaml", *two), "mma")
    once = [line for line in mma.split("\n") if "if warp_idx % 2 == 0:" in line]
    assert len(once) == 3, "the MMA, the release of its operands and the commit of its accumulator"
