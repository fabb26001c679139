"""The hand-written attention (bf16) behind the arguments of specs/attention.yaml; gpu/pack.sh fills in VARIANT."""

import sys
from pathlib import Path
from typing import Optional

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Float32, Int32
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

sys.path.insert(0, str(Path(__file__).parent))
from attention_sm90a import IO, VARIANTS, attention_launch

META = {
    "kernel": "attention",
    "target": "sm_90a",
    "variant": "VARIANT",
    "params": {},
    "tsgen": "written by hand",
    "spec_sha256": "",
}


@cute.jit
def launch(
    q: cute.Tensor,
    k: cute.Tensor,
    v: cute.Tensor,
    cu_q: Optional[cute.Tensor],  # noqa: UP045
    cu_k: Optional[cute.Tensor],  # noqa: UP045
    max_q: Optional[Int32],  # noqa: UP045
    scale: Float32,
    o: cute.Tensor,
    lse: Optional[cute.Tensor],  # noqa: UP045
    sms: Int32,
    stream: CUstream,
    p: cutlass.Constexpr,
):
    attention_launch(q, k, v, o, scale, sms, stream, p)


def compile(options="--enable-tvm-ffi"):
    p = VARIANTS["VARIANT"]
    batch, rows, keys, q_heads, k_heads = (cute.SymInt() for _ in range(5))

    def fake(length, heads):
        shape = (batch, length, heads, p.head_dim)
        return make_fake_compact_tensor(IO, shape, stride_order=(3, 2, 1, 0), assumed_align=16)

    q, k = fake(rows, q_heads), fake(keys, k_heads)
    absent = (None, None, None)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    args = (q, k, fake(keys, k_heads), *absent, Float32(1), fake(rows, q_heads), None, Int32(1), stream, p)
    return cute.compile(launch, *args, options=options)
