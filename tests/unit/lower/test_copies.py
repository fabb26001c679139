"""Copies by cp.async and steps of the tensor core in generated text: who arrives, and with what."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import module
from tests.unit.lower.test_rings import task
from tests.unit.verify.handing import BODY, COPY, COPY_BODY, RING, SIGNAL, STORE, TAKE, ring, signal, spec

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


# ---- to the async proxy, cp.async writes as any thread does ---------------------------------------------------------
FENCE = "cute.arch.fence_proxy("
OUT = ("op: store, takes: [i, v], value: v, to:", "op: tma_store, takes: [i], from: buf.t, to:")
SENT = TAKE.replace("v = buf.get(), ", "").replace(", v=v", ""), TAKE


def sent(text: str) -> str:
    """The same kernel, which stores by TMA."""
    text = text.replace(*OUT).replace("      get: {op: load, from: t, returns: [v]}\n", "")
    return text.replace(SENT[1], f"{SENT[0]}, bulk.wait_group_read(0)")


@pytest.mark.parametrize("put", [COPY, COPY_BODY])
def test_the_thread_that_waits_for_its_copies_fences(tmp_path: Path, put: str) -> None:
    waits = (SIGNAL[0].replace("s.commit", "cp_async.wait_group(0), s.commit"), SIGNAL[1])
    text = built(tmp_path, sent(spec(signal(put, "async_async"), waits, takers=1)))
    fill, take = task(text, "fill"), task(text, "take")
    assert fill.index("cp_async_wait_group(0)") < fill.index(FENCE) < fill.index("producer_commit")
    assert FENCE not in take
    assert FENCE not in built(tmp_path, spec(signal(put, "async_async"), waits))


@pytest.mark.parametrize("put", [COPY, COPY_BODY])
def test_who_has_waited_for_a_ring_of_copies_fences(tmp_path: Path, put: str) -> None:
    """The commit is made by the copies, when the thread that began them is elsewhere."""
    text = built(tmp_path, sent(spec(ring(put, "async_async"), RING, takers=1)))
    fill, take = task(text, "fill"), task(text, "take")
    assert FENCE not in fill
    assert take.index("consumer_wait") < take.index(FENCE) < take.index("cute.copy(tma_y")


def test_a_body_that_stores_fences_as_the_op_does(tmp_path: Path) -> None:
    for put in (STORE, BODY):
        text = built(tmp_path, sent(spec(ring(put, "async_async"), RING, takers=1)))
        assert FENCE in task(text, "fill") and FENCE not in task(text, "take")


ALONE = (
    ("groups:\n  ab: {mode: merge, members: [ring_a, ring_b]}\n  sum: {mode: merge, members: [acc, res]}\n", ""),
    ("- ab.release()  ", "- ring_a.release()\n        - ring_b.release()  "),
    ("- sum.release()", "- acc.release()\n    - res.release()"),
)


@pytest.mark.parametrize("alone", [False, True])
def test_copies_may_feed_the_tensor_core(tmp_path: Path, alone: bool) -> None:
    """No pipeline of the DSL is filled by cp.async and released by MMAs: the commit arrives at its barrier."""
    edits = (
        ("{put: {op: store, takes: [v], value: v, to: a}}", "{put: {op: cp_async_load, takes: [k], copies: [FROM]}}"),
        ("FROM", '{to: a, from: "a[m*tile_m:+tile_m, k*tile_k:+tile_k]"}'),
        ("        - v = a.read(k=k)                    # while the MMA still reads the stage\n", ""),
        ("ring_a.put(v=v)", "ring_a.put(k=k)"),
        ("assume: [", "assume: [K % 8 == 0, "),
        *(ALONE if alone else ()),
    )
    text = module(tmp_path, "specs/sm100_group_merge.yaml", *edits, target="sm_100a")
    assert "cp_async_mbarrier_arrive_noinc(" in task(text, "load_a") and "PipelineCpAsync" not in text
    assert ("PipelineAsyncUmma" in text) == alone
    mma = task(text, "mma")
    assert mma.index(FENCE) < mma.index("mma(")
