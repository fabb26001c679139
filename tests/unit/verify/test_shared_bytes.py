"""Fields with common bytes: which bytes a window lies in, and who must be ordered with whom."""

from __future__ import annotations

import pytest

from tests.support.checking import check_text
from tsgen.verify.spans import Box, Place, have_common, spans

SPEC = """tsgen: 1
kernel: over
target: sm_90a
doc: Two buffers in the same bytes.
params: {n: 64}
tensors:
  x: {dtype: f16, shape: [B, n, 2*n]}
  y:
    dtype: f16
    shape: [B, n, 2*n]
    output: true
    work:
      send: {op: tma_store, from: "wide.t[SENT]", to: "y[b, SENT]"}
      put: {op: store, takes: [q], value: q, to: "y[b, :, 0:+n]"}
launch: {tiles: {b: B}}
resources:
  wide:
    kind: smem
    storage: {t: {dtype: f16, shape: [n, 2*n]}}
    work:
      fill: {op: store, value: "x[b, :, :]", to: t}
      take: {op: load, role: consumer, from: "t[:, 0:+n]", returns: [q]}
  pad:
    kind: smem
    storage: {p: {dtype: f16, shape: [n, n]}}
    work: {zero: {op: store, value: 0.0, to: p}}
  late:
    kind: smem
    storage: {v: {dtype: f16, shape: [n, n]}}
    work: {fill: {op: store, value: "x[b, :, 0:+n]", to: v}}
  bar: {kind: barrier}
memory:
  alias: {a: [[wide], [pad, late]]}
graph: {wide: [x], y: [wide], late: [x], pad: []}
schedules:
  turn: [STEPS]
tasks: {turn: {warp_idx: 0, num_warps: 4}}
"""
SEND = "wide.fill(), bar.sync(), y.send(), SECOND, bulk.wait_group(0), bar.sync()"


def codes(steps: str, sent: str = ":, 0:+n") -> list[str]:
    text = SPEC.replace("STEPS", steps).replace("y[b, SENT]", f"y[b, {sent}]").replace("SENT", sent)
    report = check_text(text)
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics if d.code < "TS600" and d.code[:4] not in ("TS27", "TS20")]


@pytest.mark.parametrize(
    ("second", "sent", "found"),
    [
        ("late.fill()", ":, 0:+n", []),  # the left half of `wide` lies in front of the right half
        ("pad.zero()", ":, 0:+n", ["TS501"]),
        ("late.fill()", ":, n:+n", ["TS501"]),
        ("pad.zero()", ":, n:+n", []),
        ("late.fill()", "0:+8, :", ["TS501"]),  # eight rows are in both halves
        ("pad.zero()", "0:+8, :", ["TS501"]),
    ],
)
def test_rows_wider_than_the_swizzle_lie_in_parts(second: str, sent: str, found: list[str]) -> None:
    assert codes(SEND.replace("SECOND", second), sent) == found


def test_warps_of_a_task_share_the_bytes_of_an_alias() -> None:
    """One warp may store to `pad` while another still reads `wide`: no single field shows it."""
    take = "wide.fill(), bar.sync(), q = wide.take(), SYNCpad.zero(), y.put(q=q)"
    assert "TS501" in codes(take.replace("SYNC", ""))
    assert "TS501" not in codes(take.replace("SYNC", "bar.sync(), "))


ROWS = Place(1024, 16, (64, 64), 8192, 0, True)
WIDE = Place(0, 16, (2, 64, 128), 32768, 128, True)
LANES = Place(32, 32, (128, 64), 64, None, True)


@pytest.mark.parametrize(
    ("place", "box", "expected"),
    [
        (ROWS, (), ((1024, 9216),)),
        (ROWS, ((2, 4), (0, 64)), ((1280, 1536),)),
        (WIDE, ((0, 1), (0, 8), (64, 128)), ((8192, 9216),)),
        (WIDE, ((1, 2), (8, 16), (0, 128)), ((17408, 18432), (25600, 26624))),
        (WIDE, ((0, 1), (0, 8), (0, 8)), ((0, 1024),)),
        (LANES, ((0, 128), (8, 16)), ((40, 48),)),
        (
            Place(0, 32, (2, 128, 64), 128, None, True),
            ((0, 1), (0, 128), (0, 8)),
            ((0, 128),),
        ),  # several fields of lanes
        (Place(0, 16, (64, 64), 8192, 0, False), ((0, 1), (0, 1)), ((0, 8192),)),
    ],
)
def test_a_window_lies_in_these_bytes(place: Place, box: Box, expected: tuple[tuple[int, int], ...]) -> None:
    assert spans(place, box) == expected
    assert have_common(expected, spans(place, ())) and not have_common(expected, ((1 << 20, 1 << 21),))
