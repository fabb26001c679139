"""What people get wrong with each schedule shape: `check` rejects it, with the finding that says what is wrong.

Each case is a bundled spec with a few lines changed; the spec itself is proven.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import ROOT, program
from tsgen.derive import derive
from tsgen.spec import load_program
from tsgen.verify import verify

SPLIT, LANES, SIBLINGS = "specs/split_consumer.yaml", "specs/interleave_warp.yaml", "specs/interleave_domain.yaml"
LEADER, ASYNC = "specs/leader_routed.yaml", "specs/async_load.yaml"
MERGE, FORK, FUSED = "specs/group_merge.yaml", "specs/group_fork.yaml", "specs/group_fused_merge.yaml"
RESIDUAL, ALIAS = "specs/gemm_residual.yaml", "specs/alias_epilogue.yaml"
STEP = "        - "  # of a domain loop outside a tile loop, or of a tile loop

Edit = tuple[str, str]


def moved(first: str, *then: str) -> Edit:
    """The first of some steps goes behind the others."""
    lines = [f"{STEP}{x}\n" for x in (first, *then)]
    return "".join(lines), "".join([*lines[1:], lines[0]])


def without(step: str, pad: str = STEP) -> Edit:
    return f"{pad}{step}\n", ""


SPECS = [(SPLIT, None), (LANES, "lanes"), (LANES, "dense"), (SIBLINGS, None), (LEADER, "single"), (LEADER, "cluster"),
         (ASYNC, None), (MERGE, None), (FORK, None), (FUSED, None), (RESIDUAL, None), (ALIAS, None)]  # fmt: skip
CASES: list[tuple[str, str, str | None, list[Edit], str]] = [
    # who waits is not who releases
    ("released while the product reads", SPLIT, None,
     [moved("wgmma.wait_group(0)", "ring_a.release()", "ring_b.release()")], "TS500"),
    ("nobody releases a", SPLIT, None, [without("ring_a.release()")], "TS300 TS405"),
    ("signalled before b has arrived", SPLIT, None,
     [moved("ring_b.wait()", "ready.acquire()", "ready.commit()")], "TS405"),
    ("read without the signal", SPLIT, None, [without("ready.wait()")], "TS300 TS405"),
    ("the signal itself is never released", SPLIT, None, [without("ready.release()")], "TS300 TS405"),
    # lanes
    ("six stages for four lanes", LANES, "lanes", [("stages: 8", "stages: 6")], "TS174"),
    ("two warps for four lanes", LANES, "lanes", [("num_warps: lanes}\n  load", "num_warps: 2}\n  load")], "TS313"),
    ("told before it is read", LANES, "dense", [
        (f"{STEP}v = ring.read()\n", ""),
        ("          else: [ring.release()]\n", f"          else: [ring.release()]\n{STEP}v = ring.read()\n"),
    ], "TS500"),
    ("one lane is not freed", LANES, "dense", [("- for: {i: lanes}\n", "- for: {i: lanes - 1}\n")], "TS404"),
    ("both siblings take the even blocks", SIBLINGS, None, [("start: w, end", "start: 0, end")], "TS403 TS500"),
    ("a step that is not the stride", SIBLINGS, None, [("step: lanes", "step: 1")], "TS313"),
    ("a sibling is missing", SIBLINGS, None, [("each: {w: lanes}", "each: {w: 1}")], "TS404"),
    # one warp announces the bytes of all
    ("every warp announces", LEADER, "single", [("signaling: task_warp_leader", "signaling: all")], "TS311"),
    ("bytes of one warp alone", LEADER, "single", [("num_bytes: rows*cols*2", "num_bytes: half*cols*2")], "TS320"),
    ("a third warp", LEADER, "single", [("num_warps: load_warps", "num_warps: 3")], "TS320"),
    ("both load the same half", LEADER, "single", [('"t[warp*half:+half, :]"', '"t[0:+half, :]"')], "TS500"),
    ("bytes of a warp that are those of all", LEADER, "cluster",
     [("per_cta: half*cols*2", "per_cta: rows*cols*2")], "TS322"),
    # cp.async
    ("committed before it is loaded", ASYNC, None,
     [(f"{STEP}for: {{i: tokens // load_warps}}\n", f"{STEP}ring.commit()\n{STEP}for: {{i: tokens // load_warps}}\n"),
      ("          steps: [\"ring.load(j=j, i=i)\"]\n        - ring.commit()\n",
       "          steps: [\"ring.load(j=j, i=i)\"]\n")], "TS405"),
    ("released before it is read", ASYNC, None, [moved("v = ring.read()", "ring.release()")], "TS405"),
    ("the count of one warp", ASYNC, None, [("stages: stages}", "stages: stages, producer_group: 32}")], "TS310"),
    # groups
    ("a member released alone", MERGE, None, [("pq.release()  ", "ring_p.release()")], "TS237"),
    ("one member not waited for", MERGE, None, [without("ring_q.wait()")], "TS300 TS405"),
    ("members with different stages", MERGE, None,
     [("async_async, num_stages: stages", "async_async, num_stages: 2")], "TS330"),
    ("one producer starts late", MERGE, None,
     [("  load_q:\n    - domain_loop: {var: j, end", "  load_q:\n    - domain_loop: {var: j, start: 1, end")], "TS400"),
    ("one reader not waited for", FORK, None, [without("a_act.acquire()")], "TS300 TS405"),
    ("loaded before the second reader ends", FORK, None, [moved("a_act.acquire()", "a_mma.load(k=k)")], "TS402 TS500"),
    ("one reader never releases", FORK, None, [without("a_act.release()")], "TS300 TS405"),
    ("one reader told alone", FORK, None, [("a_fork.commit()  ", "a_mma.commit()")], "TS237"),
    ("one member waited for", FUSED, None, [("- ab.wait()  ", "- ring_a.wait()")], "TS237"),
    ("one producer starts late", FUSED, None,
     [("  load_b:\n    - domain_loop: {var: k, end", "  load_b:\n    - domain_loop: {var: k, start: 1, end")], "TS400"),
    ("released while the product reads", FUSED, None, [moved("wgmma.wait_group(0)", "ab.release()")], "TS500"),
    ("both groups in flight", RESIDUAL, None,
     [("            - wgmma.wait_group(1)             # the group before this one is complete,\n", "")], "TS500"),
    ("no trip at all", RESIDUAL, None, [("  assume: [K >= 1]\n", "")], "TS400"),
    ("the residual's stage is given back before it is read", RESIDUAL, None,
     [moved("acc.take()", "res.release()")], "TS405"),
    # shared bytes
    ("staged over what the other warpgroup reads", ALIAS, None,
     [without("drained.sync()                       # the other warpgroup has read its last stage, too"),
      ("  drained: {kind: barrier}\n", "")], "TS501"),
    ("given back before the store has read them", ALIAS, None,
     [moved("bulk.wait_group_read(0)", "turn.release()")], "TS501"),
    ("two turns at a time", ALIAS, None, [("async_async, num_stages: 1", "async_async, num_stages: 2")], "TS501"),
    ("nobody waits for the store", ALIAS, None, [without("bulk.wait_group_read(0)")], "TS502"),
    ("stored before all of it is written", ALIAS, None,
     [without("staged.sync()"), ("  staged: {kind: barrier}\n", "")], "TS500"),
]  # fmt: skip


def codes(tmp_path: Path, source: str, variant: str | None, edits: list[Edit]) -> list[str]:
    """Codes of the errors, of the front end or of the proof."""
    text = (ROOT / source).read_text()
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = tmp_path / Path(source).name
    path.write_text(text)
    result = load_program(path, variant=variant)
    found = list(result.diagnostics)
    for kernel in result.program.kernels if result.program is not None else ():
        found += verify(kernel, derive(kernel)).diagnostics
    return [d.code for d in found if d.severity == "error"]


@pytest.mark.parametrize(("source", "variant"), SPECS)
def test_the_specs_are_proven(tmp_path: Path, source: str, variant: str | None) -> None:
    (kernel,) = program(tmp_path, source, variant=variant).kernels
    report = verify(kernel, derive(kernel))
    assert not report.diagnostics and report.proof.complete


@pytest.mark.parametrize(
    ("source", "variant", "edits", "code"),
    [c[1:] for c in CASES],
    ids=[f"{Path(c[1]).stem}-{c[0]}" for c in CASES],
)
def test_rejected(tmp_path: Path, source: str, variant: str | None, edits: list[Edit], code: str) -> None:
    """`code` may name two findings of one fault: which of them comes first is not promised."""
    assert set(code.split()) & set(codes(tmp_path, source, variant, edits))
