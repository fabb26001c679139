"""What is built for the GPU tests: specs, variants, params. `python -m tests.gpu.builds DIR` builds all of it AOT.

`python -m tests.gpu.builds DIR ts` builds what TS can say, in the TS form, under the same names: the same tests run it.
One folder for each: DIR/gemm_relu/gemm_sm90a.py with its libraries, one for each dtype choice.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tsgen.derive import derive
from tsgen.emit import Form, emit
from tsgen.lower import Unsupported
from tsgen.model.chain import whole
from tsgen.model.kernel import Kernel, Program
from tsgen.runtime.compile import compile_module
from tsgen.spec import load_program

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Build:
    """A kernel for one variant and one set of params."""

    name: str
    spec: str
    variant: str | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None  # the first of the spec, if left out

    def program(self) -> Program:
        result = load_program(ROOT / self.spec, variant=self.variant, sets=self.sets, target=self.target)
        assert result.program is not None, [d.message for d in result.diagnostics]
        return result.program

    def kernel(self) -> Kernel:
        """The model of its kernel, or of the whole chain."""
        return whole(self.program())

    def module(self, folder: Path) -> Path:
        """Where the generated module is, or goes."""
        variant = f"_{self.variant}" if self.variant else ""
        return folder / self.name / f"{self.program().name}{variant}_sm90a.py"

    def emit(self, folder: Path, form: Form = "cute") -> Path:
        """Writes the module, and returns its place."""
        program, path = self.program(), self.module(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(emit(program, [derive(k) for k in program.kernels], form), encoding="utf-8")
        return path


GEMM = "specs/gemm.yaml"
KERNELS = ("ring_registers", "both_sides", "once", "ramp", "select", "softmax", "mirror")  # of tests/kernels
ATTENTION = "specs/attention.yaml"
BUILDS = {
    b.name: b
    for b in (
        Build("copy", "specs/copy.yaml"),
        Build("copy_tma", "specs/copy_tma.yaml"),
        Build("pdl_chain", "specs/pdl_chain.yaml"),
        Build("pdl_chain_serial", "specs/pdl_chain.yaml", "serial"),
        Build("rmsnorm", "specs/rmsnorm.yaml"),
        Build("rmsnorm_rows", "specs/rmsnorm.yaml", None, {"rows": "4", "warps": "8", "ctas": "1"}),
        Build("rmsnorm_n16384", "specs/rmsnorm.yaml", "n16384"),
        Build("rmsnorm_n65536", "specs/rmsnorm.yaml", "n65536"),
        Build("split_consumer", "specs/split_consumer.yaml"),
        Build("interleave_warp_lanes", "specs/interleave_warp.yaml", "lanes"),
        Build("interleave_warp_dense", "specs/interleave_warp.yaml", "dense"),
        Build("interleave_domain", "specs/interleave_domain.yaml"),
        Build("leader_routed_single", "specs/leader_routed.yaml", "single"),
        Build("leader_routed_cluster", "specs/leader_routed.yaml", "cluster"),
        Build("async_load", "specs/async_load.yaml"),
        Build("group_merge", "specs/group_merge.yaml"),
        Build("group_fork", "specs/group_fork.yaml"),
        Build("group_fused_merge", "specs/group_fused_merge.yaml"),
        Build("gemm_residual", "specs/gemm_residual.yaml"),
        Build("alias_epilogue", "specs/alias_epilogue.yaml"),
        Build("copy_skip_tiles", "specs/copy_skip_tiles.yaml"),
        Build("copy_varlen", "specs/copy_varlen.yaml"),
        Build("copy_cond", "specs/copy_cond.yaml"),
        Build("copy_every", "specs/copy_every.yaml"),
        Build("copy_every_one", "specs/copy_every.yaml", None, {"per_page": "1"}),
        Build("ping_pong", "specs/ping_pong.yaml"),
        Build("ping_pong_once", "specs/ping_pong.yaml", None, {"steps": "1", "n": "512"}),
        Build("gemm_pingpong", "specs/gemm_pingpong.yaml"),
        Build("gemm_pingpong_bf16", "specs/gemm_pingpong.yaml", None, {"io": "bf16", "tile_n": "192", "stages": "4"}),
        *(Build(k, f"tests/kernels/{k}.yaml") for k in KERNELS),
        Build("gemm_f16", GEMM),
        Build("gemm_bf16_bias_gelu", GEMM, "bf16_bias_gelu"),
        Build("gemm_narrow", GEMM, "narrow"),
        Build("gemm_relu", GEMM, None, {"has_bias": "true", "act": "relu"}),
        Build("gemm_silu", GEMM, None, {"act": "silu"}),
        *(Build(f"attention_{v}", ATTENTION, v) for v in ("full", "causal", "full_64", "causal_64", "varlen")),
        Build("attention_varlen_full", ATTENTION, "varlen", {"causal": "false"}),
        Build("attention_lse", ATTENTION, "causal", {"lse_out": "true"}),
        Build("attention_f16", ATTENTION, "causal", {"io": "f16"}),
        *(Build(f"attention_{v}_turns", ATTENTION, v, {"q_in_registers": "false"}) for v in ("full", "causal")),
    )
}


def main(folder: Path, form: Form) -> None:
    for build in BUILDS.values():
        try:
            module = build.emit(folder.resolve(), form)
        except Unsupported as e:
            print(f"{build.name}: {e.diagnostic.message}", flush=True)
            continue
        libraries = [f for f in compile_module(module, "aot", choices="all") if f.suffix == ".so"]
        for other in set(module.parent.iterdir()) - {module, *libraries}:  # objects, and what was built before
            other.unlink()
        print(f"{build.name}: {' '.join(f.name for f in libraries)}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "ts" if sys.argv[2:] == ["ts"] else "cute")
