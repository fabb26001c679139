"""Variants, `--set` and targets: what a caller selects, and what is said about a selection that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsgen.model.kernel import Kernel
from tsgen.spec import Result, load_document, load_program, resolve, variants_of

LANGUAGE = Path(__file__).parents[2] / "language"
SELECTION_CODES = {"TS135", "TS181"}


def spec(name: str) -> Path:
    return LANGUAGE / f"{name}.yaml"


def kernel(result: Result) -> Kernel:
    assert result.program is not None, [d.message for d in result.diagnostics]
    return result.program.kernels[-1]


def test_a_variant_sets_params_and_what_depends_on_them() -> None:
    k = kernel(load_program(spec("attention"), variant="causal_wg3"))
    assert (k.env["warpgroups"], k.env["tile_m"], k.env["head_dim"], k.env["causal"]) == (3, 192, 64, True)
    assert k.params["warpgroups"].written is None
    assert k.variant == "causal_wg3"


def test_a_set_value_wins_over_the_variant() -> None:
    k = kernel(load_program(spec("gemm"), variant="narrow", sets={"stages": "2 + 3", "act": "silu"}))
    assert (k.env["stages"], k.env["act"], k.env["tile_n"]) == (5, "silu", 128)
    assert k.resources["ab"].pipeline is not None and k.resources["ab"].pipeline.num_stages == 5


@pytest.mark.parametrize(
    ("sets", "code", "message"),
    [
        ({"stage": "3"}, "TS134", "`--set` sets `stage`, which is not a param"),
        ({"act": "tanh"}, "TS136", "param `act` is tanh, expected"),
        ({"stages": "true"}, "TS137", "param `stages` is an integer, `true` is not"),
        ({"stages": "4 //"}, "TS110", "cannot parse `4 //`"),
        ({"stages": "lots"}, "TS130", "unknown name `lots`"),
        ({"stages": "1 // 0"}, "TS113", "division by zero"),
        ({"stages": ""}, "TS110", "it is empty"),
        ({"stages": "0"}, "TS138", "`stages` is 0, expected 1 to"),
    ],
)
def test_a_value_that_cannot_be_set(sets: dict[str, str], code: str, message: str) -> None:
    result = load_program(spec("gemm"), sets=sets)
    assert result.program is None and result.readable
    assert [d.code for d in result.diagnostics] == [code], [d.message for d in result.diagnostics]
    assert message in result.diagnostics[0].message


def test_an_unknown_variant_names_the_known_ones() -> None:
    (found,) = load_program(spec("gemm"), variant="narow").diagnostics
    assert found.code == "TS135"
    assert found.message == "there is no variant `narow`; known: `f16`, `bf16_bias_gelu` or `narrow`"
    assert found.help == "did you mean `narrow`?"


def test_a_target_must_be_listed() -> None:
    (found,) = load_program(spec("gemm"), target="sm_100a").diagnostics
    assert (found.code, found.message) == ("TS181", "`sm_100a` is not a target of this kernel: `sm_90a`")


def test_a_spec_for_two_targets_resolves_for_both(tmp_path: Path) -> None:
    path = tmp_path / "copy.yaml"
    path.write_text(spec("copy").read_text(encoding="utf-8").replace("target: sm_90a", "target: [sm_90a, sm_120a]"))
    assert kernel(load_program(path)).target == "sm_90a"
    assert kernel(load_program(path, target="sm_120a")).targets == ("sm_90a", "sm_120a")


def test_one_document_serves_all_variants() -> None:
    document = load_document(spec("rmsnorm"))
    assert variants_of(document) == ("n4096", "n8192", "n65536")
    widths = [kernel(resolve(document, variant=v)).env["parts"] for v in variants_of(document)]
    assert widths == [1, 2, 8]
    assert variants_of(load_document(spec("copy"))) == (None,)


def test_the_params_of_one_kernel_of_a_chain_can_be_set(tmp_path: Path) -> None:
    text = spec("pdl_chain").read_text(encoding="utf-8").replace("warps: 4, chunk: 4096}", "warps: 4, first: 4096}", 1)
    path = tmp_path / "chain.yaml"
    path.write_text(text.replace("chunk", "first", 3))
    result = load_program(path, sets={"first": "128"})
    assert result.program is not None, [d.message for d in result.diagnostics]
    assert [k.env.get("first") for k in result.program.kernels] == [128, None]


def test_absent_entries_vanish_from_lists_and_graph_but_a_tensor_stays_in_the_signature() -> None:
    plain, biased = (kernel(load_program(spec("gemm"), variant=v)) for v in ("f16", "bf16_bias_gelu"))
    assert not plain.tensors["bias"].present and biased.tensors["bias"].present
    assert list(plain.tensors) == list(biased.tensors)
    assert [e for e in plain.graph if "bias" in (e.upstream, e.downstream)] == []
    assert {(e.upstream, e.downstream) for e in biased.graph} >= {("pdl", "bias"), ("bias", "epi")}
    assert "bias" not in plain.symbols
