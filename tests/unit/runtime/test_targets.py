"""Kernels without tensor cores on every target: the same code compiles for each; what a target lacks has its place."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tests.unit.lower.build import ROOT, module, program
from tsgen.derive import derive
from tsgen.model.targets import TARGETS
from tsgen.runtime.compile import compile_module
from tsgen.runtime.meta import read_meta
from tsgen.spec import load_program
from tsgen.verify import verify

OTHERS = [t for t in TARGETS if t != "sm_90a"]
PLAIN = {  # copies of each kind, and what else may differ between targets
    "copy": None,
    "copy_tma": None,
    "async_load": None,
    "ping_pong": None,
    "pdl_chain": None,
    "leader_routed": "cluster",
}
HOPPER = "target: sm_90a"


def text_for(folder: Path, spec: str, target: str, variant: str | None = None) -> str:
    source = (ROOT / f"specs/{spec}.yaml").read_text()
    written = re.search(r"^target: .*$", source, re.M)
    assert written is not None
    return module(folder, f"specs/{spec}.yaml", (written.group(), f"target: {target}"), variant=variant)


@pytest.mark.dsl
@pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl")
@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("spec", PLAIN)
def test_plain_kernels_compile_for_every_target(tmp_path: Path, spec: str, target: str) -> None:
    path = tmp_path / f"{spec}_{target}.py"
    path.write_text(text_for(tmp_path, spec, target, PLAIN[spec]))
    assert read_meta(path).target == target
    (ptx,) = compile_module(path, "ptx")
    assert f".target {target}" in ptx.read_text()
    (cubin,) = compile_module(path, "cubin")
    assert cubin.read_bytes()[:4] == b"\x7fELF"


def test_the_code_of_a_plain_kernel_is_that_of_every_target(tmp_path: Path) -> None:
    texts = {t: text_for(tmp_path, "copy_tma", t) for t in TARGETS}
    spec = re.compile(r'.*"spec_sha256".*')
    for target, text in texts.items():
        major, minor = TARGETS[target].capability
        assert f"== ({major}, {minor})," in text and f"needs a GPU of compute capability {major}.{minor}" in text
        text = text.replace(f"({major}, {minor})", "sm").replace(f"{major}.{minor}", "sm").replace(target, "sm")
        text = text.replace("import cpasync, tcgen05, warp\n", "import cpasync, warp, warpgroup\n")
        texts[target] = spec.sub("", text).replace("tcgen05.", "warpgroup.")
    assert len(set(texts.values())) == 1


@pytest.mark.parametrize(
    ("spec", "target", "code", "line"),
    [
        ("specs/gemm.yaml", "sm_100a", "TS200", "mma: {op: wgmma"),
        ("specs/gemm.yaml", "sm_120a", "TS200", "mma: {op: wgmma"),
        ("tests/language/sm100_gemm.yaml", "sm_120a", "TS170", "type: tma_umma"),
        ("tests/language/sm100_gemm.yaml", "sm_90a", "TS170", "kind: tmem"),
        ("tests/language/sm100_gemm_persistent.yaml", "sm_120a", "TS200", "cta_group: pair"),
    ],
)
def test_what_a_target_lacks_is_said_at_its_place(tmp_path: Path, spec: str, target: str, code: str, line: str) -> None:
    text = re.sub(r"^target: .*$", f"target: {target}", (ROOT / spec).read_text(), flags=re.M)
    path = tmp_path / "kernel.yaml"
    path.write_text(text)
    found = [d for d in load_program(path).diagnostics if line in text.splitlines()[d.span.line - 1]]
    assert [d.code for d in found] == [code], [d.message for d in load_program(path).diagnostics]
    assert target in found[0].message


def test_a_block_has_the_shared_memory_of_its_target(tmp_path: Path) -> None:
    """227 KiB on Hopper and in data centres, 99 KiB on a GeForce card."""
    for target, fits in (("sm_90a", True), ("sm_100a", True), ("sm_120a", False)):
        (k,) = program(tmp_path, "specs/rmsnorm.yaml", (HOPPER, f"target: {target}"), variant="n65536").kernels
        found = {d.code for d in verify(k, derive(k)).diagnostics}
        assert ("TS600" in found) is not fits


def test_multicast_is_slow_where_the_hardware_has_none(tmp_path: Path) -> None:
    for target, variant, slow in (
        ("sm_120a", "cluster", True),
        ("sm_120a", "single", False),
        ("sm_100a", "cluster", False),
    ):
        (k,) = program(tmp_path, "specs/leader_routed.yaml", (HOPPER, f"target: {target}"), variant=variant).kernels
        found = {d.code: d.severity for d in verify(k, derive(k)).diagnostics}
        assert found == ({"TS713": "warning"} if slow else {})
