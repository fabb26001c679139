"""What people get wrong with MMAs of Blackwell: merged and forked rings, and products that CTAs add up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import program
from tests.unit.patterns.test_wrong import Edit, codes, moved, without
from tsgen.derive import derive
from tsgen.verify import verify

SPLIT, MERGE, FORK = (f"specs/sm100_{n}.yaml" for n in ("gemm_split_k", "group_merge", "group_fork"))
TOP = "    - "  # of a step outside of loops

CASES: list[tuple[str, str, list[Edit], str]] = [
    ("every CTA gets everything", SPLIT, [(", peer: p", "")], "TS500"),
    ("one CTA gets all", SPLIT, [("peer: p}", "peer: 0}")], "TS500"),
    ("a CTA that the cluster does not have", SPLIT, [("peer: p}", "peer: p + 1}")], "TS714"),
    ("a CTA that only the tile knows", SPLIT, [("peer: p}", "peer: part}")], "TS114"),
    ("all CTAs send to one place", SPLIT, [('to: "c[part]"', 'to: "c[0]"')], "TS500"),
    ("sent while the load is under way", SPLIT, [without("tcgen05.wait_ld()")], "TS500"),
    ("added up before all is there", SPLIT, [without("partial.wait()", TOP)], "TS405"),
    ("released before it is added up", SPLIT, [
        (f"{TOP}partial.release()\n", ""), (f"{TOP}sum.clear()\n", f"{TOP}partial.release()\n{TOP}sum.clear()\n"),
    ], "TS405"),
    ("bytes of one CTA alone", SPLIT, [("peer_async, num_stages: 1", "peer_async, num_stages: 1, num_bytes: 16384")],
     "TS320"),
    ("only one half is sent", SPLIT,
     [("- partial.send(p=p)\n", "- if: p == 0\n          steps: [partial.send(p=p)]\n")], "TS500"),
    ("a member released alone", MERGE, [("ab.release()  ", "ring_a.release()")], "TS237"),
    ("b not waited for", MERGE, [without("ring_b.wait()")], "TS405"),
    ("put before the MMA has read the stage", MERGE, [moved("ring_a.acquire()", "ring_a.put(v=v)")], "TS405"),
    ("the residual not waited for", MERGE, [without("res.wait()", TOP)], "TS405"),
    ("accumulator and residual given back before they are read", MERGE, [
        (f"{TOP}sum.release()\n", ""), (f"{TOP}res.wait()\n", f"{TOP}res.wait()\n{TOP}sum.release()\n"),
    ], "TS405"),
    ("the accumulator is never committed", MERGE, [without("acc.commit()", TOP)], "TS300"),
    ("a released before relu has read it", FORK, [
        without("a_act.release()"), ("a_act.wait()\n", "a_act.wait()\n        - a_act.release()\n"),
    ], "TS405"),
    ("loaded while relu still reads", FORK, [without("a_act.acquire()")], "TS300"),
    ("the MMA keeps its stages of a", FORK, [without("a_mma.release()")], "TS300"),
    ("one commit for each", FORK, [("a_fork.commit()  ", "a_mma.commit()")], "TS237"),
]  # fmt: skip


@pytest.mark.parametrize("source", [SPLIT, MERGE, FORK])
def test_the_specs_are_proven(tmp_path: Path, source: str) -> None:
    (kernel,) = program(tmp_path, source).kernels
    report = verify(kernel, derive(kernel))
    assert not report.diagnostics and report.proof.complete


def test_the_members_of_a_group_stand_in_any_order(tmp_path: Path) -> None:
    """They share barriers whichever of them the file declares first."""
    for members in ("acc, res", "res, acc"):
        (kernel,) = program(tmp_path, MERGE, ("members: [acc, res]", f"members: [{members}]")).kernels
        assert verify(kernel, derive(kernel)).proof.complete


@pytest.mark.parametrize("split", ["1", "4"])
def test_a_tile_is_shared_by_one_cta_or_four(tmp_path: Path, split: str) -> None:
    (kernel,) = program(tmp_path, SPLIT, split=split).kernels
    assert verify(kernel, derive(kernel)).proof.complete


@pytest.mark.parametrize(
    ("source", "edits", "code"),
    [c[1:] for c in CASES],
    ids=[f"{Path(c[1]).stem}-{c[0]}" for c in CASES],
)
def test_rejected(tmp_path: Path, source: str, edits: list[Edit], code: str) -> None:
    assert code in codes(tmp_path, source, None, edits)
