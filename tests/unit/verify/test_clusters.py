"""CTAs of a cluster that share barriers are one part; those that do not are balanced, and proven, apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checking import check_text
from tests.support.process import ROOT
from tsgen.derive import derive
from tsgen.spec import load_program
from tsgen.verify import verify
from tsgen.verify.model import Report

CLUSTER = ("cluster: {c: cluster}", "cluster: {c: 2, r: 2}")
RELEASE = "        - ring.release()\n"


def of(tmp_path: Path, *edits: tuple[str, str]) -> Report:
    text = (ROOT / "specs/leader_routed.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = tmp_path / "leader_routed.yaml"
    path.write_text(text, encoding="utf-8")
    program = load_program(path, variant="cluster").program
    assert program is not None
    (k,) = program.kernels
    return verify(k, derive(k))


def test_rows_of_a_cluster_that_multicast_only_among_themselves(tmp_path: Path) -> None:
    report = of(tmp_path, CLUSTER)
    assert report.diagnostics == ()
    assert report.proof.complete and report.proof.method == "closure"


@pytest.mark.parametrize(
    "release",
    [
        "        - when_true: {cond: j > 0}\n          steps: [ring.release()]\n",
        "        - every: {period: 2, start: 1}\n          steps: [ring.release()]\n",
    ],
)
def test_a_stage_of_such_a_row_that_is_never_freed(tmp_path: Path, release: str) -> None:
    report = of(tmp_path, CLUSTER, (RELEASE, release))
    assert [d.code for d in report.diagnostics][:1] in (["TS404"], ["TS400"])
    assert "half complete" not in report.diagnostics[0].message


PAIRS = """tsgen: 1
kernel: pairs
target: sm_90a
doc: Pairs of CTAs share what one multicast copy loads, in iterations and tiles that the pair chooses.
tensors:
  x: {dtype: f16, shape: [N, 64]}
  y: {dtype: f16, shape: [M, N, 64], output: true, work: {put: {op: store, takes: [i, v], value: v, to: "y[m, i, :]"}}}
launch: {tiles: {m: M}, cluster: {m: 2}}
resources:
  tiles: {kind: work_queue, scheduler: static_persistent}
  ring:
    kind: smem
    storage: {t: {dtype: f16, shape: [64]}}
    pipeline: {type: tma_async, num_stages: 2}
    work:
      load: {op: tma_load, takes: [i], copies: [{to: t, from: "x[i, :]", multicast: m}]}
      read: {op: load, from: t, returns: [v]}
graph: {ring: [x], y: [ring]}
schedules:
  load:
    - work_tile_loop: {queue: tilesSKIP}
      steps:
        - skippable: {}
          steps:
            - domain_loop: {var: i, end: "END"}
              steps:
                - when_true: {cond: "COND"}
                  steps: [ring.acquire(), ring.load(i=i), ring.commit()]
  store:
    - work_tile_loop: {queue: tilesSKIP}
      steps:
        - skippable: {}
          steps:
            - domain_loop: {var: i, end: "END"}
              steps:
                - when_true: {cond: "COND"}
                  steps: [ring.wait(), v = ring.read(), "y.put(i=i, v=v)", ring.release()]
tasks: {store: {warp_idx: 0, num_warps: 1}, load: {warp_idx: 1, num_warps: 1}}
"""


@pytest.mark.parametrize(
    ("end", "cond", "skip", "right"),
    [
        ("N", "m // 2 == 0", "N < 0", True),
        ("N", "m <= 1", "N < 0", True),
        ("N", "m < 6", "N < 0", True),
        ("N", "i <= m // 2", "N < 0", True),
        ("N", "m - m % 2 < 4", "N < 0", True),
        ("min(N, m - m % 2)", "i >= 0", "N < 0", True),
        ("N", "i >= 0", "m // 2 > 3", True),
        ("N", "i >= 0", "m >= 8", True),
        ("N", "m == 0", "N < 0", False),
        ("N", "m < 5", "N < 0", False),
        ("N", "i <= m", "N < 0", False),
        ("min(N, m)", "i >= 0", "N < 0", False),
        ("N", "i >= 0", "m >= 7", False),
    ],
)
def test_what_pairs_have_in_common(end: str, cond: str, skip: str, right: bool) -> None:
    text = PAIRS.replace("END", end).replace("COND", cond).replace("SKIP", f', skip_if: "{skip}"')
    report = check_text(text)
    assert bool(report.diagnostics) != right and report.proof.complete == right
