"""What tensor cores still do when the kernel ends, and tensor memory is freed."""

from __future__ import annotations

import pytest

from tests.support.cases import CASES
from tests.support.checking import check_text
from tests.support.kernels import LANGUAGE

LAST = (CASES / "tensor_memory_freed" / "spec.yaml").read_text()
AFTER = "    - junk.mma(first=True)\n    - ab.release()\n"
OWN = ("  frag:\n", "  j: {kind: smem, pipeline: {type: umma_async, num_stages: 1}}\n  frag:\n")
GEMM = (LANGUAGE / "sm100_gemm.yaml").read_text()


def codes(text: str, *edits: tuple[str, str]) -> list[str]:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    report = check_text(text)
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics]


def test_the_task_that_frees_must_hear_of_the_last_mma() -> None:
    committed = (("    - acc.commit()\n", ""), (AFTER, AFTER + "    - acc.commit()\n"))
    assert codes(LAST) == ["TS507"]
    assert codes(LAST, *committed) == []


@pytest.mark.parametrize(("told", "found"), [("mma", ["TS507"]), ("store", [])])
def test_that_the_mma_task_itself_knows_is_not_enough(told: str, found: list[str]) -> None:
    """Tensor memory is freed when the tasks that move it to registers are at their end, be others done or not."""
    ring = AFTER.replace("    - junk", "    - j.acquire()\n    - junk") + "    - j.commit()\n"
    taken = "    - j.wait()\n    - j.release()\n"
    last = "    - acc.release()\n"
    edits = ((AFTER, ring + taken),) if told == "mma" else ((AFTER, ring), (last, last + taken))
    assert codes(LAST, OWN, *edits) == found


def test_who_moves_tensor_memory_waits_for_its_own_stores() -> None:
    mark = "    work: {read: {op: tmem_load"
    put = (
        mark,
        mark.replace("{read", '{put: {op: tmem_store, static: [s], value: c, to: "acc.c[:, s*epi_n:+epi_n]"}, read'),
    )
    steps = "        - d.write(s=s)\n"
    for wait, found in (("", ["TS507"]), ("        - tcgen05.wait_st()\n", [])):
        stores = (steps, f"{steps}        - frag.put(s=s)\n{wait}")
        assert [
            c for c in codes(GEMM, put, stores, ("    - acc.release()\n", "    - acc.release()\n")) if c[:4] != "TS27"
        ] == found
