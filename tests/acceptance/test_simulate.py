"""`tsgen simulate` from the command line: right, wrong, hanging and refused specs; time and traces."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.process import ROOT, tsgen

COPY = (ROOT / "specs/copy_tma.yaml").read_text()


def spec(tmp_path: Path, *edits: tuple[str, str], text: str = COPY) -> str:
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    return str(path)


def test_a_right_spec_is_a_line_for_each_shape() -> None:
    done = tsgen("simulate", "specs/copy_tma.yaml", "--shape", "M=64,N=64", "--shape", "M=72,N=136", "--seeds", "3")
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == 2 and lines[1].startswith("ok   M=72, N=136: y: max abs error 0") and "3 schedules" in lines[1]


def test_without_shapes_those_of_the_reference_are_made_small() -> None:
    done = tsgen("simulate", "specs/copy_tma.yaml", "--seeds", "1")
    assert done.returncode == 0 and done.stdout.splitlines()[1].startswith("ok   M=504, N=1000:")


def test_a_race_is_shown_with_its_steps_and_the_way_to_see_it_again(tmp_path: Path) -> None:
    path = spec(
        tmp_path,
        ("        - ring.wait()\n", ""),
        ("        - ring.release()\n", "        - ring.wait()\n        - ring.release()\n"),
    )
    done = tsgen("simulate", path, "--shape", "M=64,N=520")
    assert done.returncode == 1
    first, *rest = done.stdout.splitlines()
    assert first.startswith("FAIL M=64, N=520, seed ") and "`v = ring.read()` of warp " in first
    assert any(f"--> {path}:39:" in line for line in rest)  # the read
    assert any(line.split() == ["v", "=", "ring.read()", "[trip", "0]"] for line in rest)  # the timeline
    again = rest[-1].split("again: tsgen ")[1].split()
    repeated = tsgen(*again)
    assert repeated.returncode == 1 and repeated.stdout.splitlines()[0] == first


def test_a_hang_says_who_waits_for_what(tmp_path: Path) -> None:
    path = spec(tmp_path, ("        - ring.release()\n", ""))
    done = tsgen("simulate", path, "--shape", "M=64,N=520", "--seeds", "1")
    assert done.returncode == 1
    for said in ("hang", "`ring.wait()` of store (line 39, trip 4) waits for", "1 of 1 arrivals missing", "← waits"):
        assert said in done.stdout


def test_wrong_numbers_are_a_failed_comparison(tmp_path: Path) -> None:
    done = tsgen(
        "simulate", spec(tmp_path, ("value: v, to", "value: v + 1, to")), "--shape", "M=64,N=64", "--seeds", "1"
    )
    assert done.returncode == 1 and "elements wrong" in done.stdout


def test_a_reference_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = spec(tmp_path, ("value: {y: x}", 'value: {y: "transpose(x)"}'))
    done = tsgen("simulate", path, "--shape", "M=64,N=128", "--seeds", "1")
    assert done.returncode == 2 and "gives y the shape [128, 64], the tensor has [64, 128]" in done.stderr


def test_nothing_is_proven_first(tmp_path: Path) -> None:
    """What the verifier rejects for longer rows is right for short ones."""
    path = spec(tmp_path, ("        - ring.release()\n", ""))
    assert tsgen("check", path).returncode == 1
    assert tsgen("simulate", path, "--shape", "M=64,N=64").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "M=1"], "the shape gives no N"),
        (["--shape", "M=1,N=1,Q=1"], "has no dim Q"),
        (["--shape", "M=64,N=9"], "cannot be addressed by TMA"),
        (["--seeds", "0"], "--seeds"),
        (["--trace", "x.json"], "--trace needs --latency"),
        (["--variant", "fast"], "has no variant 'fast'"),
        (["--shape", "M=1000000000000,N=8"], "M: a dim is a 32-bit integer"),
        (["--shape", "M=1000000000,N=8"], "smaller dims"),
        (["--latency", "--seeds", "4"], "--latency is one run"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    done = tsgen("simulate", "specs/copy_tma.yaml", *arguments)
    assert done.returncode == 2 and message in done.stderr


def test_too_little_memory_is_no_fault_of_tsgen() -> None:
    script = (
        "import sys, tsgen.cli, tsgen.simulate.run as r\n"
        "def all_of_it(*a, **k): raise MemoryError('Unable to allocate 9 GiB')\n"
        "r.inputs = all_of_it\n"
        "sys.exit(tsgen.cli.run(['simulate', 'specs/copy_tma.yaml', '--shape', 'M=64,N=64']))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("tsgen: not enough memory: Unable to allocate 9 GiB\n")
    assert "--shape" in done.stderr


def test_without_numpy_it_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text('raise ImportError("No module named numpy")')
    done = tsgen("simulate", "specs/copy_tma.yaml", env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert done.returncode == 2 and "NumPy" in done.stderr and "pip install" in done.stderr
    checked = tsgen("check", "specs/copy_tma.yaml", env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert checked.returncode == 0  # nothing else asks for it


def test_a_spec_without_reference_or_code_is_refused(tmp_path: Path) -> None:
    done = tsgen("simulate", "tests/cases/fork_bytes/spec.yaml")
    assert done.returncode == 2 and "no `reference`" in done.stderr


def test_time_is_modelled_and_traced(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = tsgen("simulate", "specs/copy_tma.yaml", "--shape", "M=64,N=520", "--latency", "--trace", str(trace))
    assert done.returncode == 0
    assert (
        "cycles by the model" in done.stdout
        and "engine TMA" in done.stdout
        and "`ring.wait()` (line 39)" in done.stdout
    )
    events = json.loads(trace.read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {"load", "store warp 0", "TMA"} <= names
    steps = [e for e in events if e["ph"] == "X"]
    assert all(e["dur"] > 0 and e["ts"] >= 0 for e in steps)
    loads = [e for e in steps if e["name"] == "TMA load: ring.load(j=j)"]
    assert len(loads) == 9 and {e["args"]["line"] for e in loads} == {33}
    again = tsgen("simulate", "specs/copy_tma.yaml", "--shape", "M=64,N=520", "--latency")
    assert again.stdout == done.stdout


def test_more_stages_hide_more_latency() -> None:
    cycles = []
    for stages in ("1", "4"):
        done = tsgen(
            "simulate", "specs/copy_tma.yaml", "--shape", "M=64,N=4096", "--latency", "--set", f"stages={stages}"
        )
        cycles.append(int(done.stdout.splitlines()[1].split()[0].replace(",", "")))
    assert cycles[1] < 0.75 * cycles[0]
