"""Tries whose answer no step can use (TS301), told from those that one can use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checking import check_text
from tests.support.kernels import kernel
from tsgen.derive import derive
from tsgen.verify import verify

BODY = """        - ring.acquire()
        - ring.load(j=j)
        - ring.commit()
"""
TRY = "ring.try_acquire()"


def guarded(guard: str, step: str) -> str:
    return f"        - {guard}: {{}}\n          steps: [{step}]\n"


@pytest.mark.parametrize(
    ("body", "unused"),
    [
        (f"        - {TRY}\n{BODY}", False),
        (f"{BODY}        - {TRY}\n", False),  # for the next iteration
        (BODY + guarded("last_iter", TRY), True),
        (guarded("last_iter", TRY) + BODY, False),
        (BODY + guarded("last_iter", TRY) + "    - ring.acquire()\n    - ring.load(j=0)\n    - ring.commit()\n", False),
        (
            guarded("first_iter", "ring.acquire()")
            + BODY.replace("        - ring.acquire()\n", "")
            + f"        - {TRY}\n",
            True,
        ),
        (guarded("first_iter", TRY) + BODY, False),
        (f"        - for: {{i: 2}}\n          steps: [ring.acquire(), ring.load(j=j), ring.commit(), {TRY}]\n", False),
    ],
)
def test_a_try_needs_a_step_that_can_follow_it(tmp_path: Path, body: str, unused: bool) -> None:
    k = kernel(tmp_path, "copy_tma", (BODY, body))
    assert ("TS301" in {d.code for d in verify(k, derive(k)).diagnostics}) is unused


def test_the_next_tile_uses_a_try_of_the_last_iteration() -> None:
    """Where a tile follows, the loop begins again."""
    head, rest = (Path("specs") / "copy_tma.yaml").read_text().split("schedules:\n")
    steps, tasks = rest.split("tasks:\n")
    steps = steps.replace(BODY, BODY + guarded("last_iter", TRY)).replace(f"        - {TRY}\n", "")
    lines = []
    for line in steps.split("\n"):
        lines.append(f"    {line}" if line.startswith("    ") else line)
        if line.endswith(":") and not line.startswith("   "):
            lines += ["    - work_tile_loop: {queue: q}", "      steps:"]
    queue = "resources:\n  q: {kind: work_queue, scheduler: static_persistent}\n"
    text = head.replace("resources:\n", queue) + "schedules:\n" + "\n".join(lines) + "\ntasks:\n" + tasks
    assert [d.code for d in check_text(text).diagnostics if d.code not in ("TS406",)] == []
