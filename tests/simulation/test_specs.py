"""Every bundled spec gives the right numbers under every kind of schedule, over small shapes with edges."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsgen.cli.analysis import Case, analyse
from tsgen.cli.options import Selection
from tsgen.runtime.problem import parse_shape
from tsgen.simulate.run import simulate
from tsgen.simulate.scheduler import POLICIES

ROOT = Path(__file__).parents[2]
SHAPES = {  # by kernel: edges in each dim, more trips than stages somewhere, several tiles for each cluster
    "gemm": ["L=2,M=200,N=328,K=72", "M=128,N=256,K=8"],
    "gemm_pingpong": ["L=2,M=136,N=264,K=72"],
    "gemm_residual": ["M=136,N=264,K=392"],
    "alias_epilogue": ["M=136,N=264,K=328"],
    "attention": ["B=1,Sq=200,Sk=333,Hq=2,Hk=1"],
    "split_consumer": ["M=136,N=136,K=328"],
    "group_fork": ["M=72,N=136,K=328"],
    "group_fused_merge": ["M=72,N=136,K=328"],
    "group_merge": ["M=40,N=300", "M=32,N=32"],
    "interleave_warp": ["B=2,N=3000", "B=1,N=256"],
    "interleave_domain": ["M=300,N=72", "M=32,N=64"],
    "leader_routed": ["C=3,M=136,N=392", "C=1,M=128,N=64"],
    "async_load": ["V=100,T=31,N=2568", "V=1,T=1,N=8"],
    "copy": ["N=1", "N=9001"],
    "copy_tma": ["M=136,N=392", "M=64,N=64"],
    "copy_cond": ["T=9,N=136", "T=1,N=64"],
    "copy_every": ["P=9,B=2,T=2"],
    "copy_skip_tiles": ["M=5,N=1000"],
    "copy_varlen": ["S=20,T=200,W=32", "S=4,T=0,W=8"],
    "ping_pong": ["B=3"],
    "rmsnorm": ["R=19", "R=1"],
    "chain_pdl_chain": ["N=5000", "N=1"],
    "pdl_chain": ["N=5000", "N=1"],
    "sm100_gemm": ["L=2,M=136,N=264,K=328"],
    "sm100_gemm_persistent": ["L=2,M=264,N=328,K=72"],
    "sm100_gemm_nvfp4": ["M=256,N=256,K=768"],
    "sm100_gemm_split_k": ["M=136,N=136,K=904", "M=128,N=64,K=8"],
    "sm100_group_merge": ["M=136,N=264,K=328"],
    "sm100_group_fork": ["M=136,N=136,K=328"],
    "sm100_attention": ["B=1,Sq=200,Sk=333,Hq=2,Hk=1"],
}
SPECS = sorted([*ROOT.glob("specs/*.yaml"), *ROOT.glob("specs/*.toml"), *ROOT.glob("tests/language/sm100_*.yaml")])


def cases() -> list[tuple[str, Case]]:
    found = []
    for path in SPECS:
        for case in analyse(str(path), Selection({}), prove=False).cases:
            found.append((f"{path.stem}{case.suffix}", case))
    return found


@pytest.mark.parametrize(("case"), [pytest.param(c, id=n) for n, c in cases()])
def test_numbers_are_right_under_every_policy(case: Case) -> None:
    for shape in SHAPES[case.program.name]:
        for seed in range(len(POLICIES)):
            outcome = simulate(case.program, case.kernels, parse_shape(shape), seed)
            assert outcome.ok, str(outcome)
