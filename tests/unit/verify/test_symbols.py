"""Trip counts as symbols: equal values are one, those of a cluster are one, the graph knows what they come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kernels import kernel
from tsgen.derive import derive
from tsgen.diagnostics import Span
from tsgen.model.algebra import canonical
from tsgen.spec.parse import parse_expr
from tsgen.verify import verify
from tsgen.verify.uniform import uniform, uniformly_positive

STORE = '    - domain_loop: {var: j, end: "ceil_div(N, tile_n)"}\n      steps:\n        - ring.try_wait()'
B = "  b: {dtype: io, shape: [L, N, K]}\n"
LENS = (B, B + "  lens: {dtype: i32, shape: [M]}\n")
Z = """tensors:
  eps: {dtype: io, shape: [], default: 1.0}
  z:
    dtype: io
    shape: [M, N]
    output: true
    work: {fill: {op: store, takes: [j], value: eps, to: "z[m*tile_m:+tile_m, j*tile_n:+tile_n]"}}
"""


def codes(tmp_path: Path, name: str, *edits: tuple[str, str]) -> list[str]:
    k = kernel(tmp_path, name, *edits)
    report = verify(k, derive(k))
    assert report.proof.complete or report.diagnostics
    return [d.code for d in report.diagnostics]


@pytest.mark.parametrize(
    ("bound", "same"),
    [
        ("(N + tile_n - 1) // tile_n", True),
        ("(N - 1) // tile_n + 1", True),
        ("-(-N // tile_n)", True),
        ("ceil_div(ceil_div(N, 32), tile_n // 32)", True),
        ("N // tile_n", False),
        ("(N + tile_n) // tile_n", False),
    ],
)
def test_trip_counts_are_compared_by_value(tmp_path: Path, bound: str, same: bool) -> None:
    found = codes(tmp_path, "copy_tma", (STORE, STORE.replace("ceil_div(N, tile_n)", bound)))
    assert (found == []) is same
    assert same or found[0] in ("TS400", "TS404")


@pytest.mark.parametrize(
    ("element", "same"),
    [
        ("m // cluster_m", True),
        ("(m + cluster_m) // cluster_m", True),
        ("m // (2*cluster_m)", True),
        ("n", True),
        ("m", False),
        ("(m + 1) // cluster_m", False),
        ("m // 3", False),
    ],
)
def test_a_value_of_the_cluster_is_one_for_its_ctas(tmp_path: Path, element: str, same: bool) -> None:
    """A ring with multicast wants the same number of trips in all CTAs of a cluster."""
    bound = ('k_tiles: "ceil_div(K, tile_k)"', f'k_tiles: "max(1, ceil_div(lens[{element}], tile_k))"')
    graph = ("  ab: [a, b]\n", "  ab: [a, b, lens]\n")
    found = codes(tmp_path, "gemm", LENS, bound, graph)
    assert (found == []) is same
    assert same or found[0].startswith("TS4")


@pytest.mark.parametrize(
    ("e", "same"),
    [
        ("m // 2", True),
        ("m // 4", True),
        ("(2*m + 1) // 4", True),
        ("(m + n) // 2", False),
        ("(m + 2*n) // 2", True),
        ("(m + 4*(n // 3) + 2) // 2", True),
        ("(2*m + 3) // 4", False),
        ("m // 2 + m", False),
        ("max(m // 2, m // 6)", True),
        ("m % 2", False),
        ("m - m % 2", True),
        ("max(m, m + 1 - 2*(m % 2))", True),
        ("min(m, m + 1 - 2*(m % 2))", True),
        ("max(m, m + 2 - 2*(m % 2))", False),
        ("(m + 1) - (m + 1) % 2", False),
        ("m // k", False),
    ],
)
def test_values_that_are_uniform_in_a_cluster(e: str, same: bool) -> None:
    p = canonical(parse_expr(e, Span.start()), {})
    assert uniform(p, {"m": 2}) is same
    for q, n in ((0, 0), (1, 1), (5, 7)):  # the same by plain arithmetic
        values = [eval(e, {"max": max, "min": min}, {"m": 2 * q + r, "n": n, "k": 3}) for r in (0, 1)]
        assert values[0] == values[1] or not same


def test_a_bound_that_comes_through_a_let_carries_an_edge(tmp_path: Path) -> None:
    """`lens` is read by the tasks whose bounds it makes; one that is made of nothing of it does not."""
    lens = ("  x: {dtype: io, shape: [M, N]}\n", "  x: {dtype: io, shape: [M, N]}\n  lens: {dtype: i32, shape: [M]}\n")
    tiles = 'launch: {tiles: {m: "ceil_div(M, tile_m)"}'
    let = (tiles + "}", tiles + ', let: {len: "lens[m]", blocks: "ceil_div(len, tile_n)"}}')
    loops = ('end: "ceil_div(N, tile_n)"', "end: blocks")
    graph = ("graph: {ring: [x], y: [ring]}", "graph: {ring: [x, lens], y: [ring]}")
    assert codes(tmp_path, "copy_tma", lens, let, loops, loops, graph) == []
    assert codes(tmp_path, "copy_tma", lens, graph) == ["TS270"]


def test_what_is_made_of_scalars_alone_is_in_the_graph(tmp_path: Path) -> None:
    edits = (
        ("tensors:\n", Z),
        ("        - y.write(j=j, v=v)\n", "        - y.write(j=j, v=v)\n        - z.fill(j=j)\n"),
    )
    graph = "graph: {ring: [x], y: [ring]"
    assert codes(tmp_path, "copy_tma", *edits) == ["TS272"]
    for entry in ("z: []", "z: [eps]"):
        assert codes(tmp_path, "copy_tma", *edits, (graph + "}", f"{graph}, {entry}}}")) == []
    wrong = (graph + "}", "graph: {ring: [], y: [ring]}")
    assert "TS271" in codes(tmp_path, "copy_tma", wrong)


@pytest.mark.parametrize(
    ("e", "same"),
    [
        ("1 - m", True),
        ("m - 1", False),
        ("m - 2*n", True),
        ("2*n + 1 - m", True),
        ("n - m", False),
        ("2*m - 4*n - 1", False),
        ("7 - m", True),
        ("8 - m", False),
    ],
)
def test_comparisons_that_say_the_same_in_a_cluster(e: str, same: bool) -> None:
    assert uniformly_positive(canonical(parse_expr(e, Span.start()), {}), {"m": 2}) is same
    places = [(q, n) for q in range(8) for n in range(8)]
    pairs = [[eval(e, {}, {"m": 2 * q + r, "n": n}) >= 0 for r in (0, 1)] for q, n in places]
    assert all(a == b for a, b in pairs) is same
