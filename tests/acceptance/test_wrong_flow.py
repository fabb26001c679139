"""What people get wrong with rings in place, turns, skipped tiles and conditions, in the bundled specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import ROOT
from tsgen.derive import derive
from tsgen.spec import load_program
from tsgen.verify import verify

PING_PONG, GEMM = "specs/ping_pong.yaml", "specs/gemm_pingpong.yaml"
SKIP, COND, EVERY = "specs/copy_skip_tiles.yaml", "specs/copy_cond.yaml", "specs/copy_every.yaml"
ADD = "        - buf.add_one()\n        - last_iter: {}\n          steps:\n            - y.write()\n"
STEPS = ("ring.wait()", "v = ring.read()", "y.write(i=i, v=v)", "ring.release()")
STORE = "".join(f"            - {step}\n" for step in STEPS)

WRONG = {  # spec, code of the first finding, what its message says, the edit
    "release before the work": (
        PING_PONG,
        "TS405",
        "add_one",
        f"{ADD}        - buf.release()",
        f"        - buf.release()\n{ADD}",
    ),
    "work after the commit": (
        PING_PONG,
        "TS405",
        "double",
        "        - buf.double()\n        - buf.commit()\n",
        "        - buf.commit()\n        - buf.double()\n",
    ),
    "one turn too few": (
        PING_PONG,
        "TS404",
        "5 times and released 4",
        "add:\n    - domain_loop: {var: i, end: steps}",
        "add:\n    - domain_loop: {var: i, end: steps - 1}",
    ),
    "no release at all": (PING_PONG, "TS300", "release", "        - buf.release()\n", ""),
    "the second group waits for the first tile": (
        GEMM,
        "TS403",
        "ab stage 0",
        "        - ab.skip(k_tiles)                 # tile 0 belongs to the other group\n",
        "",
    ),
    "stages of the other group's tile are not skipped": (
        GEMM,
        "TS404",
        "ab stage 0",
        "        - ab.skip(k_tiles)                 # the next tile, too, belongs to the other group\n",
        "",
    ),
    "nobody gives the first turn": (GEMM, "TS400", "mma_turn[0]", "        - mma_turn[0].arrive()\n", ""),
    "the turn to store is not given on": (GEMM, "TS500", "epi.c", "        - epi_turn[1 - w].arrive()\n", ""),
    "the staging buffer is given away while it is read": (
        GEMM,
        "TS500",
        "bulk store",
        "        - bulk.wait_group_read(0)          # the staging buffer changes hands\n",
        "",
    ),
    "each group takes every tile": (GEMM, "TS400", "deadlock", "first: w, stride: 2", "first: w, stride: 1"),
    "a skipped queue step": (
        SKIP,
        "TS227",
        "queue steps",
        "                - y.set(i=i, v=v)\n",
        "                - y.set(i=i, v=v)\n            - queue.try_wait()\n",
    ),
    "nothing says which tiles are skipped": (SKIP, "TS223", "skip_if", ', skip_if: "t >= ceil_div(N, width)"', ""),
    "threads skip for themselves": (SKIP, "TS139", "thread", 't >= ceil_div(N, width)"}', 't*width + thread >= N"}'),
    "the tasks look at different bits": (
        COND,
        "TS404",
        "mark",
        f"cond: keep}}\n          steps:\n{STORE}",
        f"cond: mark}}\n          steps:\n{STORE}",
    ),
    "the tasks look at different entries": (
        COND,
        "TS404",
        "i + 1",
        "mode.bits(i=i)      #",
        "mode.bits(i=i + 1)      #",
    ),
    "the other outcome": (
        COND,
        "TS400",
        "deadlock",
        f"when_true: {{cond: keep}}\n          steps:\n{STORE}",
        f"when_false: {{cond: keep}}\n          steps:\n{STORE}",
    ),
    "released whether it was waited for or not": (
        COND,
        "TS405",
        "ring.release()",
        "            - ring.release()\n",
        "        - ring.release()\n",
    ),
    "released in the last iteration alone": (
        EVERY,
        "TS400",
        "deadlock",
        "        - ring.release()\n        - last_iter: {}\n          steps:\n",
        "        - last_iter: {}\n          steps:\n            - ring.release()\n",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_check_finds_it(tmp_path: Path, name: str) -> None:
    spec, code, said, right, wrong = WRONG[name]
    findings = findings_of(tmp_path, spec, (right, wrong))
    assert findings, "accepted"
    assert findings[0][0] == code and said in findings[0][1], findings


@pytest.mark.parametrize("spec", sorted({w[0] for w in WRONG.values()}))
def test_as_they_are_they_are_right(tmp_path: Path, spec: str) -> None:
    assert not findings_of(tmp_path, spec)


def findings_of(tmp_path: Path, spec: str, *edits: tuple[str, str]) -> list[tuple[str, str]]:
    """Codes and messages of what is wrong with a spec after edits, in the order of the text."""
    text = (ROOT / spec).read_text()
    for right, wrong in edits:
        assert right in text, right
        text = text.replace(right, wrong)
    path = tmp_path / Path(spec).name
    path.write_text(text)
    result = load_program(path)
    if result.program is None:
        return [(d.code, d.message) for d in result.diagnostics]
    kernel = result.program.kernels[0]
    return [(d.code, d.message) for d in verify(kernel, derive(kernel)).diagnostics if d.severity == "error"]
