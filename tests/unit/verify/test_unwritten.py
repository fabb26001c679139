"""Reads of what nobody wrote: certain ones are found, for every trip count, and others are left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernels import kernel
from tsgen.derive import derive
from tsgen.diagnostics import Diagnostic
from tsgen.verify import verify

NO_EDGE = ("graph: {buf: [x, buf], y: [buf]}", "graph: {buf: [x], y: [buf]}")
STAGES = ("pipeline: {type: async_async, num_stages: 1}", "pipeline: {type: async_async, num_stages: 2}")
ONCE = ("steps: 5}", "steps: 1}")
STAGE = (
    "  ring:\n    kind: smem\n",
    "  side:\n    kind: smem\n    storage: {t: {dtype: io, shape: [2, tile_m, tile_n]}}\n"
    "    work:\n"
    '      put: {op: store, takes: [j, v], value: v, to: "t[AT]"}\n'
    '      get: {op: load, from: "t[FROM]", returns: [v]}\n'
    "  ring:\n    kind: smem\n",
)
EDGE = ("graph: {ring: [x], y: [ring]}", "graph: {ring: [x], side: [ring], y: [ring, side]}")


def findings(tmp_path: Path, name: str, *edits: tuple[str, str]) -> list[Diagnostic]:
    k = kernel(tmp_path, name, *edits)
    report = verify(k, derive(k))
    errors = [d for d in report.diagnostics if d.severity == "error"]
    assert report.proof.complete == (not errors)
    return list(report.diagnostics)


def side(at: str, source: str, body: str) -> tuple[tuple[str, str], ...]:
    """copy_tma with a second buffer between the ring and the output."""
    return (
        (STAGE[0], STAGE[1].replace("AT", at).replace("FROM", source)),
        EDGE,
        ("        - y.write(j=j, v=v)\n", body + "        - y.write(j=j, v=v)\n"),
    )


def test_one_turn_needs_no_edge(tmp_path: Path) -> None:
    """Nothing goes from turn to turn if there is one; with five, the second reads what the first left."""
    assert findings(tmp_path, "ping_pong", NO_EDGE, ONCE) == []
    (d,) = findings(tmp_path, "ping_pong", NO_EDGE)
    assert d.code == "TS503" and "left from the turn before" in d.message and "`buf: [buf]`" in (d.help or "")


def test_a_stage_that_is_never_filled_is_found_in_its_first_turn(tmp_path: Path) -> None:
    assert findings(tmp_path, "ping_pong", STAGES, ONCE) == []
    (d,) = findings(tmp_path, "ping_pong", STAGES)
    assert d.code == "TS503" and "stage 1, which nobody has written" in d.message


@pytest.mark.parametrize(
    ("at", "source", "codes"),
    [
        ("0", "0", []),
        ("0", "1", ["TS503"]),
        ("0", "j % 2", ["TS503"]),  # from the second trip on
        ("j % 2", "j % 2", []),
        ("j % 2", "(j + 1) % 2", ["TS503"]),
        ("j // 2", "j", []),  # no windows that come round: they may be the same
    ],
)
def test_windows_are_told_apart_where_they_are_known(tmp_path: Path, at: str, source: str, codes: list[str]) -> None:
    body = "        - side.put(j=j, v=v)\n        - w = side.get()\n"
    edits = [(a, b.replace("returns: [v]}", "takes: [j], returns: [v]}")) for a, b in side(at, source, body)]
    edits[-1] = (edits[-1][0], edits[-1][1].replace("side.get()", "side.get(j=j)"))
    found = findings(tmp_path, "copy_tma", *edits)
    assert [d.code for d in found if d.code in ("TS503", "TS504")] == codes


def test_what_is_written_under_a_condition_is_read_under_the_same(tmp_path: Path) -> None:
    guard = "        - first_iter: {}\n          steps:\n            - side.put(j=j, v=v)\n"
    assert not any(
        d.code == "TS503" for d in findings(tmp_path, "copy_tma", *side("0", "0", guard + "        - w = side.get()\n"))
    )
    late = guard.replace("first_iter: {}", "every: {period: 1, start: 1}")
    found = findings(tmp_path, "copy_tma", *side("0", "0", late + "        - w = side.get()\n"))
    assert "TS503" in {d.code for d in found}


def test_an_accumulator_needs_a_first_value(tmp_path: Path) -> None:
    for name, old in (("sm100_gemm", "first=(k == 0)"), ("gemm", "first=True")):
        (d,) = findings(tmp_path, name, (old, "first=False"))
        assert d.code == "TS503" and "`acc.c`, which nobody has written" in d.message


def test_without_trips_nothing_is_in_the_accumulator(tmp_path: Path) -> None:
    (d,) = findings(tmp_path, "sm100_gemm", ("  assume: [K >= 1]\n", ""))
    assert d.code == "TS503" and "with k_tiles = 0" in d.message


def test_a_race_is_told_before_what_it_leaves_unwritten(tmp_path: Path) -> None:
    """Whether the memory was written is up to the race."""
    k = kernel(tmp_path, "ping_pong", STAGES, ("        - buf.wait()\n", ""))
    report = verify(k, derive(k))
    assert "TS503" not in {d.code for d in report.diagnostics}


REGISTERS = (
    "  ring:\n    kind: smem\n",
    "  regs:\n    kind: rmem\n    storage: {a: {dtype: io, shape: [tile_m, tile_n]}}\n"
    "    work:\n"
    "      keep: {op: load, from: ring.t, to: a}\n"
    '      clear: {op: map, set: ["a = 0.0"]}\n'
    '      more: {op: map, set: ["a = a + 1.0"]}\n'
    "  ring:\n    kind: smem\n",
)
TAKEN = "        - v = ring.read()\n        - y.write(j=j, v=v)\n"
GUARDED = """        - every: {period: 1, start: START}
          steps: [regs.more()]
        - first_iter: {}
          steps: [regs.keep()]
"""


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("        - regs.keep()\n", None),
        ("        - regs.more()\n        - regs.keep()\n", "regs.more()"),
        ("", "y.write(j=j)"),
        ("        - regs.clear()\n        - regs.more()\n", None),
        (GUARDED.replace("START", "1"), None),  # what an earlier iteration wrote
        (GUARDED.replace("START", "0"), "regs.more()"),
    ],
)
def test_registers_are_written_before_they_are_read(tmp_path: Path, body: str, at: str | None) -> None:
    value = ("takes: [j, v], value: v", "takes: [j], value: regs.a")
    found = findings(tmp_path, "copy_tma", (TAKEN, body + "        - y.write(j=j)\n"), value, REGISTERS)
    assert [d.code for d in found] == (["TS503"] if at else [])
    if at is not None:
        assert f"`{at}` of store" in found[0].message and "regs.a`, which nobody has written" in found[0].message
