"""`tsgen run` and `tsgen bench` where there is nothing to run on: each says what is missing, exit status 2.

What they do on a GPU is in tests/gpu.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.process import ROOT, tsgen

NO_TORCH = 'raise ImportError("No module named torch")'
NO_GPU = """
__version__ = "2.11"
class cuda:
    is_available = staticmethod(lambda: {gpu})
    get_device_capability = staticmethod(lambda: (8, 0))
    get_device_name = staticmethod(lambda: "NVIDIA A100")
"""


def run(tmp_path: Path, torch: str, *arguments: str) -> tuple[int, str]:
    """Status and stderr with another package in place of PyTorch."""
    (tmp_path / "torch.py").write_text(torch)
    done = tsgen(*arguments, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize("verb", ["run", "bench"])
@pytest.mark.parametrize(
    ("torch", "message"),
    [
        (NO_TORCH, "running a kernel needs PyTorch, which this Python does not have"),
        (NO_GPU.format(gpu=False), "no GPU: running a kernel needs one of compute capability 9.0"),
        (NO_GPU.format(gpu=True), "sm_90a code needs a GPU of compute capability 9.0; NVIDIA A100 has 8.0"),
    ],
    ids=["no torch", "no GPU", "another GPU"],
)
def test_what_the_machine_lacks(tmp_path: Path, verb: str, torch: str, message: str) -> None:
    status, stderr = run(tmp_path, torch, verb, "specs/gemm.yaml")
    assert status == 2
    assert message in stderr and "= help: " in stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "M"], "--shape: `M` is not of the form DIM=SIZE"),
        (["--shape", "M=1,M=2"], "--shape: M is given twice"),
        (["--variant", "fast"], "has no variant 'fast'"),
        (["--set", "tile_k"], "'tile_k' is not of the form NAME=VALUE"),
        (["--seed", "-1"], "--seed"),
    ],
)
def test_wrong_usage(tmp_path: Path, arguments: list[str], message: str) -> None:
    status, stderr = run(tmp_path, NO_TORCH, "run", "specs/gemm.yaml", *arguments)
    assert status == 2 and message in stderr


def test_a_spec_with_errors_is_not_run(tmp_path: Path) -> None:
    spec = tmp_path / "bad.yaml"
    spec.write_text((ROOT / "specs/copy.yaml").read_text().replace('end: "ceil_div(N', 'end: "ceil_div(Q'))
    status, stderr = run(tmp_path, NO_TORCH, "run", str(spec))
    assert status == 1 and "bad.yaml" in stderr and "Q" in stderr


def test_a_library_built_with_other_params_is_not_taken(tmp_path: Path) -> None:
    meta = {
        "kernel": "copy",
        "target": "sm_90a",
        "variant": None,
        "params": {"warps": 8},
        "tsgen": "0",
        "spec_sha256": "",
    }
    (tmp_path / "copy_sm90a.py").write_text(f"META = {meta}\n")
    status, stderr = run(tmp_path, NO_TORCH, "run", "specs/copy.yaml", "--aot", str(tmp_path / "copy_sm90a.so"))
    assert status == 2 and "was built with warps = 8: say so with --variant or --set" in stderr


def test_a_library_without_a_name_is_wrong_usage() -> None:
    done = tsgen("run", "specs/copy.yaml", "--aot", "")
    assert done.returncode == 2 and "is no file" in done.stderr
