"""Where the lanes of a warp meet before one touches what another has touched, and what no meeting can order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.checking import check_text
from tests.unit.lower.build import ROOT
from tests.unit.verify import handing
from tsgen.derive import derive
from tsgen.emit import emit
from tsgen.spec import load_program

SPEC = """tsgen: 1
kernel: exchange
target: sm_90a
doc: A warp passes rows through shared memory.
params: {n: 32}
tensors:
  x: {dtype: f32, shape: [B, n], work: {get: {op: load, takes: [j], from: "x[j, :]", returns: [v]}}}
  y:
    dtype: f32
    shape: [B, n]
    output: true
    work:
      out: {op: tma_store, takes: [j], from: buf.t, to: "y[j:+1, :]"}
      set: {op: store, takes: [j, w], value: w, to: "y[j, thread]"}
      all: {op: store, takes: [j, w], value: w, to: "y[j, :]"}
launch: {tiles: {b: 1}}
resources:
  buf:
    kind: smem
    storage: {t: {dtype: f32, shape: [1, n]}, u: {dtype: f32, shape: [n]}}
    work:
      row: {op: store, takes: [w], value: w, to: "t[0, :]"}
      put: {op: store, takes: [w], value: w, to: "t[0, thread]"}
      take: {op: load, from: "t[0, :]", returns: [w]}
      own: {op: load, from: "t[0, thread]", returns: [w]}
      other: {op: load, from: "t[0, n - 1 - thread]", returns: [w]}
      turn: {op: store, value: "t[0, n - 1 - thread]", to: "t[0, thread]"}
      fill: {op: store, takes: [k], value: 1.0, to: "t[0, k]"}
      back: {op: load, takes: [k], from: "t[0, n - 1 - k]", returns: [w]}
  bar: {kind: barrier}
graph: {buf: [x], y: [buf]}
schedules:
  one:
"""
LOOP = "- {domain_loop: {var: j, end: B}, steps: ["
DEALT = "- {domain_loop: {var: k, start: thread, end: n, step: threads}, steps: ["


def spec(*steps: str, warps: int = 1) -> str:
    """Steps of the task; blocks are opened by LOOP or DEALT and closed by `]}`."""
    lines, depth = [], 4
    for s in steps:
        if s == "]}":
            depth -= 2
        elif s in (LOOP, DEALT):
            lines += [f"{' ' * depth}- {s[3 : s.index(', steps')]}", f"{' ' * depth}  steps:"]
            depth += 4
        else:
            lines.append(f"{' ' * depth}- {s}")
    return SPEC + "\n".join(lines) + f"\ntasks: {{one: {{warp_idx: 0, num_warps: {warps}}}}}\n"


def meetings(tmp_path: Path, text: str) -> list[str]:
    """The steps before which lanes meet, as written."""
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    program = load_program(path).program
    assert program is not None
    lines = text.split("\n")
    places = sorted(span for _, span in derive(program.kernels[0]).lanes.meetings)
    return [lines[p.line - 1].strip().removeprefix("- ") for p in places]


BULK = ("bulk.wait_group_read(0)", "buf.row(w=v)", "y.out(j=j)")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        # one lane stores what all wrote, and knows when it has been read
        (BULK, ["buf.row(w=v)", "y.out(j=j)"]),
        (("bulk.wait_group_read(0)", "bar.sync()", "buf.row(w=v)", "bar.sync()", "y.out(j=j)"), []),
        (("bar.sync()", *BULK), ["buf.row(w=v)", "y.out(j=j)"]),  # too early: the source is not read yet
        # each lane its own elements
        (("buf.row(w=v)", "w = buf.take()", "y.all(j=j, w=w)"), []),
        (("buf.put(w=1.0)", "w = buf.own()", "y.set(j=j, w=w)"), []),
        # those of others
        (("buf.put(w=1.0)", "w = buf.other()", "y.set(j=j, w=w)"), ["buf.put(w=1.0)", "w = buf.other()"]),
        (("buf.put(w=1.0)", "bar.sync()", "w = buf.other()", "y.set(j=j, w=w)"), ["buf.put(w=1.0)"]),
        (("buf.put(w=1.0)", "w = buf.other()", "bar.sync()", "y.set(j=j, w=w)"), ["w = buf.other()"]),
    ],
)
def test_lanes_meet_where_one_goes_on_where_another_was(
    steps: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    assert meetings(tmp_path, spec(LOOP, "v = x.get(j=j)", *steps)) == expected


def test_lanes_meet_in_front_of_a_loop_that_only_some_run(tmp_path: Path) -> None:
    steps = ("buf.row(w=0.0)", DEALT, "w = buf.back(k=k)", "y.set(j=0, w=w)")
    assert meetings(tmp_path, spec(*steps)) == ["domain_loop: {var: k, start: thread, end: n, step: threads}"]
    assert meetings(tmp_path, spec(DEALT, "buf.fill(k=k)", "]}", "]}", "w = buf.take()")) == ["w = buf.take()"]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            (DEALT, "buf.fill(k=k)", "w = buf.back(k=k)", "y.set(j=0, w=w)"),
            "in `w = buf.back(k=k)` lanes of a warp touch",
        ),
        (("buf.turn()",), "`buf.turn()` reads what other lanes of the warp write in the same step"),
    ],
)
def test_lanes_that_cannot_meet_are_found(steps: tuple[str, ...], message: str) -> None:
    found = [d for d in check_text(spec(*steps)).diagnostics if d.code == "TS506"]
    assert found and all(d.message.startswith("race on buf.t: ") for d in found)
    assert any(message in d.message for d in found)


def test_the_module_syncs_the_warp_where_lanes_meet(tmp_path: Path) -> None:
    text = spec(LOOP, "v = x.get(j=j)", *BULK, "]}", "]}", "bulk.wait_group(0)").replace("  bar: {kind: barrier}\n", "")
    assert not check_text(text).diagnostics
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    program = load_program(path).program
    assert program is not None
    derived = [derive(k) for k in program.kernels]
    for form in ("cute", "ts"):
        lines = [line.strip() for line in emit(program, derived, form).split("\n")]
        syncs = [i for i, line in enumerate(lines) if line.startswith("cute.arch.sync_warp()")]
        assert len(syncs) == 2
        store = next(i for i, line in enumerate(lines) if line.startswith("cute.copy(") and "tma_y" in line)
        assert syncs[1] < store and "fence_proxy" in "".join(lines[syncs[0] : store])


# ---- an arrival of one lane speaks for all --------------------------------------------------------------------------
GET = "      get: {op: load, from: t, returns: [v]}\n"


def told(tmp_path: Path, text: str) -> list[str]:
    """The pipeline steps before which lanes meet."""
    path = tmp_path / "spec.yaml"
    path.write_text(text, encoding="utf-8")
    program = load_program(path).program
    assert program is not None
    lines = text.split("\n")
    places = sorted(span for _, span in derive(program.kernels[0]).lanes.meetings)
    found = [re.match(r"[\w.\[\]]+\(\)", lines[p.line - 1][p.column - 1 :]) for p in places]
    return [m[0] for m in found if m is not None]


@pytest.mark.parametrize(
    ("kind", "met"),
    [
        ("async_async", []),  # every thread arrives for itself
        ("async_umma", ["s.release()"]),
        ("umma_async", ["s.commit()", "s.release()"]),
        ("umma_umma", ["s.commit()", "s.release()"]),
    ],
)
def test_lanes_meet_before_one_of_them_tells_what_all_have_done(tmp_path: Path, kind: str, met: list[str]) -> None:
    text = handing.spec(handing.signal(handing.STORE, kind), handing.SIGNAL, takers=1, target="sm_100a")
    assert told(tmp_path, text) == met


def test_a_release_of_another_ring_may_hand_memory_on(tmp_path: Path) -> None:
    """What lanes have read is filled again after the release of a ring of TMA, whose own stages only TMA reads."""
    first, then = "r.wait(), y.send(i=i), bulk.wait_group_read(0)", ", r.release(), s.release()"
    resources = handing.signal(handing.STORE, "async_async")
    resources += handing.ring(handing.TMA, "tma_async").replace("buf:", "r:").replace(GET, "")
    fill = "r.acquire(), s.acquire(), buf.put(i=i), s.commit(), r.put(i=i), r.commit()"
    text = handing.spec(resources, (fill, f"s.wait(), {first}, v = buf.get(){then}"), takers=1)
    text = text.replace(
        "work: {set:", 'work: {send: {op: tma_store, takes: [i], from: r.t, to: "y[m, i*128:+128]"}, set:'
    )
    assert told(tmp_path, text) == ["r.acquire()", "r.release()"]


def test_a_stage_is_handed_on_by_its_own_ring(tmp_path: Path) -> None:
    """No other step tells of it, so none needs a meeting on its account."""
    for name in ("specs/rmsnorm.yaml", "specs/sm100_attention.yaml"):
        assert not [s for s in told(tmp_path, (ROOT / name).read_text()) if s.endswith(("acquire()", "commit()"))]
