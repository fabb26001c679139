"""`run` on the CPU with launches made in Python: what it notices."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.runtime.handmade import gemm, kernel, tensor

torch = pytest.importorskip("torch")

from tsgen.runtime.arrays import TorchArrays  # noqa: E402
from tsgen.runtime.buffers import GUARD, make_buffers  # noqa: E402
from tsgen.runtime.errors import CannotRun  # noqa: E402
from tsgen.runtime.peers import torch_peer  # noqa: E402
from tsgen.runtime.problem import make_problem  # noqa: E402
from tsgen.runtime.run import Outcome, run  # noqa: E402


def correct(t: Mapping[str, torch.Tensor]) -> None:
    d = torch.matmul(t["a"].float(), t["b"].float().transpose(1, 2)) + t["bias"].float()
    t["d"].copy_(torch.nn.functional.gelu(d))


def one(launch: object, **more: object) -> Outcome:
    (outcome,) = run(gemm(**more), launch, timed=False, device="cpu")  # type: ignore[arg-type]
    return outcome


def test_a_correct_kernel() -> None:
    outcome = one(correct)
    assert outcome.ok and outcome.comparisons["d"].relative < 1e-3
    assert str(outcome).startswith("ok   L=2, M=5, K=16, N=8: d: max abs error ")


def test_every_fault_is_seen() -> None:
    def changes_input(t: Mapping[str, torch.Tensor]) -> None:
        correct(t)
        t["a"][0, 0, 0] += 1

    def writes_behind(t: Mapping[str, torch.Tensor]) -> None:
        correct(t)
        torch.as_strided(t["d"], (1,), (1,), t["d"].storage_offset() + t["d"].numel()).fill_(0)

    def writes_before(t: Mapping[str, torch.Tensor]) -> None:
        correct(t)
        torch.as_strided(t["d"], (1,), (1,), t["d"].storage_offset() - 1).fill_(0)

    def dies(t: Mapping[str, torch.Tensor]) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    assert one(lambda t: None).comparisons["d"].wrong == 80  # the poison is no result
    assert one(changes_input).faults == ("changed the input a",)
    assert one(writes_behind).faults == one(writes_before).faults == ("wrote outside d",)
    assert one(dies).faults == ("CUDA error: an illegal memory access was encountered",)


def test_a_refusal_is_no_failure() -> None:
    def refuses(t: Mapping[str, torch.Tensor]) -> None:
        raise ValueError("a has strides (3, 1), must be multiples of 8")

    with pytest.raises(CannotRun, match="refused: a has strides"):
        one(refuses)


def test_inputs_by_seed_by_expression_and_by_default() -> None:
    k = kernel(
        [
            tensor("x", "bf16", "N", "4", major=0),
            tensor("mode", "i32", "N"),
            tensor("eps", "f32", default="0.5"),
            tensor("gone", "f32", "N", present=False),
            tensor("y", "i32", "N", output=True),
        ],
        {"y": "mode"},
        inputs={"mode": "randint(0, 4, N)"},
        dims="N",
    )
    p = make_problem(k, {"N": 100})
    first, again, other = (make_buffers(p, TorchArrays(s, "cpu"), s).arguments for s in (1, 1, 2))
    assert list(first) == ["x", "mode", "eps", "gone", "y"] and first["gone"] is None and first["eps"] == 0.5
    assert first["x"].stride() == (1, 100) and first["x"].dtype == torch.bfloat16  # type: ignore[union-attr]
    assert torch.equal(first["x"], again["x"]) and not torch.equal(first["x"], other["x"])
    assert set(first["mode"].tolist()) == {0, 1, 2, 3}  # type: ignore[union-attr]
    assert int(first["y"][0]) == -1515870811  # type: ignore[index]


def test_outputs_are_aligned_and_fenced() -> None:
    p = make_problem(gemm(), {"M": 5, "N": 8, "K": 16})
    d = make_buffers(p, TorchArrays(0, "cpu"), 0).outputs["d"]
    assert d.tensor.isnan().all() and d.tensor.storage_offset() * 2 == GUARD  # type: ignore[attr-defined]
    assert GUARD % 256 == 0 and len(d.raw) == 2 * GUARD + 5 * 8 * 2


def test_an_integer_input_without_a_rule_is_an_error() -> None:
    k = kernel([tensor("ids", "i32", "N"), tensor("y", "i32", "N", output=True)], {"y": "ids"}, dims="N")
    with pytest.raises(CannotRun, match="ids is i32: there is nothing to fill it with"):
        run(k, lambda t: None, [{"N": 3}], timed=False, device="cpu")


def test_a_kernel_without_reference_or_a_reference_without_such_a_tensor() -> None:
    with pytest.raises(CannotRun, match="kernel has no `reference`"):
        run(kernel([], None), lambda t: None, device="cpu")
    k = kernel([tensor("y", "f32", "N", output=True)], {"z": "1.0"}, dims="N")
    with pytest.raises(CannotRun, match="`reference` gives a value for z"):
        run(k, lambda t: None, [{"N": 3}], device="cpu")


def test_peers() -> None:
    for shape, name in [({"M": 5, "N": 8, "K": 16}, "torch.mm"), ({"L": 2, "M": 5, "N": 8, "K": 16}, "torch.matmul")]:
        p = make_problem(gemm(params={"io": "f32", "act": "none"}), shape)
        buffers = make_buffers(p, TorchArrays(0, "cpu"), 0)
        peer = torch_peer(p, buffers)
        a, b = buffers.arguments["a"], buffers.arguments["b"]
        assert peer.name == name
        assert torch.allclose(peer.call(), torch.matmul(a, b.transpose(1, 2)).reshape(peer.call().shape), atol=1e-5)  # type: ignore[union-attr]
    copy = kernel([tensor("x", "f32", "N"), tensor("y", "f32", "N", output=True)], {"y": "x"}, dims="N")
    p = make_problem(copy, {"N": 10})
    buffers = make_buffers(p, TorchArrays(0, "cpu"), 0)
    assert torch.equal(torch_peer(p, buffers).call(), buffers.arguments["x"])


def test_attention_and_norm_peers() -> None:
    qkv = [tensor("q", "f32", "B", "S", "4", "8"), *(tensor(n, "f32", "B", "S", "2", "8") for n in "kv")]
    k = kernel([*qkv, tensor("o", "f32", "B", "S", "4", "8", output=True)],
               {"o": "attention(q, k, v, scale, causal, None, None)"}, params={"causal": True}, dims="B S")  # fmt: skip
    scale = tensor("scale", "f32", default="0.25")
    k = kernel([*k.tensors.values(), scale], {"o": "attention(q, k, v, scale, causal, None, None)"},
               params={"causal": True}, dims="B S", tolerance=(1e-4, 1e-4))  # fmt: skip
    p = make_problem(k, {"B": 2, "S": 9})
    xp = TorchArrays(0, "cpu")
    buffers = make_buffers(p, xp, 0)
    peer = torch_peer(p, buffers)
    assert peer.name == "torch SDPA"

    def launch(t: Mapping[str, torch.Tensor]) -> None:
        q, k, v = (t[n].transpose(1, 2) for n in "qkv")
        out = torch.nn.functional.scaled_dot_product_attention(
            q, k, v, scale=t["scale"], is_causal=True, enable_gqa=True
        )
        t["o"].copy_(out.transpose(1, 2))

    assert run(k, launch, [{"B": 2, "S": 9}], timed=False, device="cpu")[0].ok  # type: ignore[arg-type]
    norm = kernel([tensor("x", "f32", "R", "16"), tensor("w", "f32", "16"), tensor("eps", "f32", default="0.1"),
                   tensor("y", "f32", "R", "16", output=True)],
                  {"y": "rmsnorm(x, w, eps)"}, dims="R", tolerance=(1e-4, 1e-4))  # fmt: skip
    p = make_problem(norm, {"R": 3})

    def normalise(t: Mapping[str, torch.Tensor]) -> None:
        t["y"].copy_(torch.nn.functional.rms_norm(t["x"], (16,), t["w"], t["eps"]))  # type: ignore[arg-type]

    assert run(norm, normalise, [{"R": 3}], timed=False, device="cpu")[0].ok  # type: ignore[arg-type]
    assert torch_peer(p, make_buffers(p, xp, 0)).name == "torch rms_norm"
