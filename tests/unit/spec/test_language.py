"""The sketches of the language and the product's specs: each resolves for every variant and means what it says."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from tsgen.diagnostics import Span
from tsgen.model.expr import Ref, text
from tsgen.model.kernel import Kernel
from tsgen.model.ops import accesses
from tsgen.model.shares import share_fields
from tsgen.model.steps import CallStep, DomainLoop, StaticFor, TileLoop, When, walk
from tsgen.spec import load_document, load_program, resolve, variants_of
from tsgen.spec.node import plain

ROOT = Path(__file__).parents[3]
LANGUAGE = ROOT / "tests" / "language"
SPECS = [*sorted(LANGUAGE.glob("*.yaml")), *sorted((ROOT / "specs").glob("*.*"))]


def kernel(path: Path, variant: str | None = None) -> Kernel:
    result = load_program(path, variant=variant)
    assert result.program is not None, [d.message for d in result.diagnostics]
    return result.program.kernels[0]


def sketch(name: str, variant: str | None = None) -> Kernel:
    return kernel(LANGUAGE / f"{name}.yaml", variant)


@pytest.mark.parametrize("path", SPECS, ids=lambda p: p.name)
def test_every_spec_resolves_for_every_variant(path: Path) -> None:
    document = load_document(path)
    assert document.diagnostics == ()
    for variant in {None, *variants_of(document)}:
        result = resolve(document, variant=variant)
        assert result.diagnostics == ()
        assert result.program is not None and len(result.program.kernels) == len(document.roots)


def test_there_are_all_26_sketches() -> None:
    assert len(list(LANGUAGE.glob("*.yaml"))) == 26


def without_places(value: object) -> object:
    """A model as plain data in which nothing says where it stood."""
    if isinstance(value, Span):
        return None
    if is_dataclass(value) and not isinstance(value, type):
        kept = (f.name for f in fields(value) if f.name not in ("path", "sha256"))
        return type(value).__name__, {name: without_places(getattr(value, name)) for name in kept}
    if isinstance(value, dict):
        return {k: without_places(v) for k, v in value.items()}
    return [without_places(v) for v in value] if isinstance(value, list | tuple) else value


def test_toml_and_yaml_give_equal_models(tmp_path: Path) -> None:
    """copy_toml.toml is copy.yaml but for its name, which two kernels of one folder cannot share, and its targets."""
    text = (ROOT / "specs/copy_toml.toml").read_text(encoding="utf-8")
    for mine, others in (
        ('kernel = "copy_toml"', 'kernel = "copy"'),
        ('target = "sm_90a"', 'target = ["sm_90a", "sm_100a", "sm_120a"]'),
    ):
        assert mine in text
        text = text.replace(mine, others)
    (tmp_path / "copy.toml").write_text(text, encoding="utf-8")
    yaml, toml = load_program(ROOT / "specs/copy.yaml"), load_program(tmp_path / "copy.toml")
    assert without_places(yaml.program) == without_places(toml.program)
    assert yaml.program != toml.program, "the places differ"


def toml(value: object) -> str:
    """Plain data as a TOML value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@pytest.mark.parametrize(
    "path", [p for p in SPECS if p.suffix == ".yaml" and p.stem != "pdl_chain"], ids=lambda p: p.name
)
def test_every_spec_means_the_same_in_toml(path: Path, tmp_path: Path) -> None:
    document = load_document(path)
    copy = tmp_path / "spec.toml"
    data = plain(document.roots[0])
    assert isinstance(data, dict)
    copy.write_text("".join(f"{k} = {toml(v)}\n" for k, v in data.items()), encoding="utf-8")
    other = load_document(copy)
    for variant in variants_of(document):
        models = [without_places(resolve(d, variant=variant).program) for d in (document, other)]
        assert models[0] is not None and models[0] == models[1]


def test_places_in_toml_point_at_the_text() -> None:
    result = load_program(ROOT / "specs" / "copy_toml.toml")
    assert result.program is not None
    k = result.program.kernels[0]
    lines = result.text.split("\n")

    def at(span: Span) -> str:
        assert span.line == span.end_line
        return lines[span.line - 1][span.column - 1 : span.end_column - 1]

    loop = k.schedules["copy"].steps[0]
    assert isinstance(loop, DomainLoop)
    places = [at(s) for s in (k.span, loop.end.span, loop.body[1].span)]
    assert places == ["kernel", "ceil_div(N, tile)", "y.set(i=i, v=v)"]
    get = k.tensors["x"].works["get"]
    assert [at(get.spans[key]) for key in ("op", "from")] == ["load", "x[i*tile:+tile]"]
    assert at(k.params["warps"].span) == "warps"


def test_bounds_of_one_let_are_one_symbol_and_keep_its_name() -> None:
    k = sketch("gemm")
    loops = [s for schedule in k.schedules.values() for s in walk(schedule.steps) if isinstance(s, DomainLoop)]
    assert [text(loop.end.expr) for loop in loops] == ["k_tiles", "k_tiles"]
    assert [(s.kind, s.time) for n, s in k.symbols.items() if n in ("K", "m", "k_tiles", "tile_k", "ab")] == [
        ("param", "compile"),
        ("dim", "launch"),
        ("resource", "compile"),
        ("axis", "tile"),
        ("let", "launch"),
    ]
    assert k.symbols.keys() >= {"io", "a", "M", "m", "k_tiles", "ab", "epi_bar"}


def test_a_let_that_uses_an_axis_is_known_for_each_tile() -> None:
    assert sketch("copy_varlen").symbols["length"].time == "tile"
    times = {let.name: let.time for let in sketch("attention").launch.lets}
    assert times["len_q"] == "launch" and times["row0"] == "tile" and times["masked"] == "compile"
    assert {let.name: let.time for let in sketch("attention", "varlen").launch.lets}["len_q"] == "tile"


def test_a_branch_not_taken_is_not_resolved() -> None:
    plain, varlen = sketch("attention"), sketch("attention", "varlen")
    assert text(plain.launch.axes[0].extent) == "ceil_div(Sq, tile_m)"
    assert text(varlen.launch.axes[0].extent) == "ceil_div(max_q, tile_m)"
    assert plain.dims == ("B", "Sq", "Hq", "Sk", "Hk")
    assert set(varlen.dims) == set(plain.dims)
    assert "o_tile" not in varlen.resources and "o_tile" in plain.resources
    targets = {s.target for s in walk(varlen.schedules["attend"].steps) if isinstance(s, CallStep)}
    assert "o_bar" not in targets and "lse" in targets


def test_dims_are_solved_through_sums_and_multiples() -> None:
    assert sketch("copy_varlen").dims == ("T", "S", "W")  # offsets has S + 1 elements
    assert "R" in sketch("copy_every").dims


def test_roles_follow_from_accesses() -> None:
    k = sketch("gemm")
    roles = {
        f"{h.name}.{w.name}": w.role for h in (*k.tensors.values(), *k.resources.values()) for w in h.works.values()
    }
    assert roles == dict.fromkeys(("d.store", "ab.load", "acc.mma", "acc.finish", "epi.put"), "producer")
    ring = sketch("copy_tma").resources["ring"].works
    assert {n: w.role for n, w in ring.items()} == {"load": "producer", "read": "consumer"}
    buf = sketch("ping_pong").resources["buf"].works
    assert {n: w.role for n, w in buf.items()} == {"fill": "producer", "double": "producer", "add_one": "consumer"}


def test_own_fields_and_tensors_of_one_name_are_told_apart() -> None:
    load = sketch("gemm").resources["ab"].works["load"]
    refs = {(a.mode, a.ref.resource, a.ref.name) for a in accesses(load)}
    assert refs == {("read", None, "a"), ("write", "ab", "a"), ("read", None, "b"), ("write", "ab", "b")}
    row = sketch("rmsnorm").resources["row"].works["read"]  # from the tensor x to the own field x
    assert {(a.mode, a.ref.resource, a.ref.name) for a in accesses(row)} == {("read", None, "x"), ("write", "row", "x")}
    own = sketch("group_fork").resources["a_act"].works["read"]  # from the own view a, not from the tensor a
    assert {(a.mode, a.ref.resource) for a in accesses(own)} == {("read", "a_act")}


def test_windows_of_fields_have_an_entry_for_each_dimension() -> None:
    put = sketch("gemm").resources["epi"].works["put"].args["to"]
    assert isinstance(put.expr, Ref)  # type: ignore[union-attr]
    assert text(put.expr) == "epi.c[w, s%epi_stages, :, :]"  # type: ignore[union-attr]


def test_a_view_has_the_shape_of_what_it_shows() -> None:
    k = sketch("group_fork")
    view, source = k.resources["a_act"].fields["a"], k.resources["a_mma"].fields["a"]
    assert view.view == Ref("a_mma", None, "a")
    assert (view.shape, view.dtype) == (source.shape, source.dtype) == ((64, 64), source.dtype)


def test_a_body_touches_its_owner_as_its_role_says() -> None:
    bits = sketch("copy_cond").tensors["mode"].works["bits"]
    assert (bits.role, bits.auxiliary, bits.op) == ("consumer", True, None)
    assert [(a.mode, a.ref.name) for a in accesses(bits)] == [("read", "mode")]


def test_queue_steps_are_appended_where_the_loop_does_not_wait() -> None:
    def queue_steps(name: str, schedule: str) -> list[tuple[str, bool]]:
        (loop,) = (s for s in sketch(name).schedules[schedule].steps if isinstance(s, TileLoop))
        return [(s.method, s.derived) for s in loop.body if isinstance(s, CallStep) and s.kind == "queue"]

    four = ["try_wait", "wait", "get_and_advance_work_tile", "release"]
    assert queue_steps("gemm", "load") == [(m, True) for m in four]
    assert queue_steps("copy_skip_tiles", "copy") == [(m, False) for m in four]
    own = [(m, False) for m in ("acquire", "fetch_work_tile", "commit")]
    assert queue_steps("sm100_gemm_persistent", "schedule_tiles") == own + [(m, True) for m in four]


def test_equal_conditions_have_one_key_in_all_tasks() -> None:
    k = sketch("copy_cond")
    keys = {
        name: [s.key for s in walk(schedule.steps) if isinstance(s, When)] for name, schedule in k.schedules.items()
    }
    assert keys == {
        "load": ["mode.bits(i=i).keep"],
        "store": ["mode.bits(i=i).keep", "mode.bits(i=i).mark"],
    }


def test_positional_counts_are_named_n_and_for_keeps_its_expression() -> None:
    steps = sketch("gemm").schedules["mma"].steps
    (loop,) = (s for s in walk(steps) if isinstance(s, StaticFor))
    assert loop.values == (0, 1, 2, 3) and loop.count is not None and text(loop.count) == "tile_n//epi_n"
    waits = [s for s in walk(steps) if isinstance(s, CallStep) and s.method == "wait_group_read"]
    assert [text(w.args["n"].expr) for w in waits] == ["epi_stages - 1"]


def test_tasks_have_an_instance_for_each_value() -> None:
    (mma, load) = sketch("gemm").tasks
    assert [(i.index, i.first_warp, i.num_warps, i.num_registers) for i in mma.instances] == [
        (0, 0, 4, 232),
        (1, 4, 4, 232),
    ]
    assert [list(i.warps) for i in load.instances] == [[8]]


def test_raster_follows_the_params() -> None:
    def raster(variant: str) -> list[tuple[str, bool]]:
        queue = sketch("attention", variant).resources["tiles"].queue
        assert queue is not None
        return [(r.axis, r.reverse) for r in queue.raster]

    assert raster("full") == [("m", False), ("h", False), ("b", False)]
    assert raster("causal") == [("h", False), ("b", False), ("m", True)]
    queue = sketch("gemm_pingpong").resources["tiles"].queue
    assert queue is not None and [r.axis for r in queue.raster] == ["m", "n", "l"]  # axes left out follow as declared


def test_shares_are_the_fixed_point_over_maps() -> None:
    k = sketch("attention")
    works = [w for h in (*k.tensors.values(), *k.resources.values()) for w in h.works.values()]
    shapes = {(r.name, f.name): f.shape for r in k.resources.values() if r.kind == "rmem" for f in r.fields.values()}
    assert share_fields(works, shapes) == {("acc", "row_sum")}


def test_a_chain_is_a_program_of_several_kernels() -> None:
    result = load_program(LANGUAGE / "pdl_chain.yaml")
    assert result.program is not None
    square, add_bias = result.program.kernels
    assert (square.name, add_bias.name) == ("square", "add_bias")
    assert square.reference is None and add_bias.reference is not None


def test_alias_phases_name_resources_with_each_once() -> None:
    (alias,) = sketch("sm100_attention").memory.aliases
    assert [[(m.resource, m.field) for m in phase] for phase in alias.phases] == [[("s", None)], [("p", None)]]
