"""What says nothing in a variant leaves no trace in its module."""

from __future__ import annotations

from pathlib import Path

from tests.unit.lower.build import module, program
from tsgen.lower.proofs import in_names, never
from tsgen.lower.simplify import simplified
from tsgen.model.expr import Binary, Call, Compare, Const, Name

GEMM = "specs/gemm.yaml"


def test_another_name_and_a_number(tmp_path: Path) -> None:
    """`let` values that are another name, or a number in this variant, are put in where they are used."""
    text = module(
        tmp_path,
        GEMM,
        ("k_tiles: ", "high: M, from_row: 128 if has_bias else 0, k_tiles: "),
        ("a[l, m*tile_m:+tile_m", "a[l, from_row + m*tile_m:+tile_m"),
    )
    assert "high" not in text and "from_row" not in text and "load_a_gmem[None, m, k, l]" in text


def test_kept(tmp_path: Path) -> None:
    """A value that is computed stays a variable."""
    text = module(tmp_path, GEMM, ("end: k_tiles}", "end: k_end}"), ('tile_k)"}', 'tile_k)", k_end: k_tiles + 0*K}'))
    assert "k_end = k_tiles + 0 * K" in text


def test_what_is_read_behind_the_wait(tmp_path: Path) -> None:
    """A value of a tensor that the kernel before still writes is computed where it is used, not before the wait."""
    waits = (
        ("launch:\n  tiles: {s: S}\n", "launch:\n  tiles: {s: S}\n  pdl: true\n"),
        ("resources:\n", "resources:\n  pdl: {kind: pdl}\n"),
        ("graph: {y: [x, offsets]}", "graph: {y: [x, offsets], offsets: [pdl]}"),
        ("    - work_tile_loop: {queue: queue}\n", "    - pdl.wait_griddep()\n    - work_tile_loop: {queue: queue}\n"),
    )
    assert "length = offsets[s + 1] - offsets[s]" in module(tmp_path, "specs/copy_varlen.yaml")
    text = module(tmp_path, "specs/copy_varlen.yaml", *waits)
    assert "    length = " not in text and "cutlass.range(thread, offsets[s + 1] - offsets[s], threads" in text


def test_offset_windows(tmp_path: Path) -> None:
    """A window whose start is no multiple of its length is a multiple from a shifted origin, once for each tile."""
    text = module(tmp_path, GEMM, ("n*tile_n:+tile_n, k", "n*tile_n + l*8:+tile_n, k"), cluster_m="1")
    origin = text.index("load_b_gmem = cute.domain_offset((l * 8, 0, 0), b)")
    assert origin > text.index("for tile in cutlass.range")
    assert "load_b_gmem[None, n, k, l]" in text


def test_never(tmp_path: Path) -> None:
    """m*tile_m >= M holds for no tile of ceil_div(M, tile_m); m*tile_m + 1 >= M may."""
    kernel = simplified(program(tmp_path, GEMM, cluster_m="1").kernels[0])
    start = Binary("*", Name("m"), Name("tile_m"))
    assert never(kernel, Compare((">=",), (start, Name("M"))))
    assert not never(kernel, Compare((">=",), (Binary("+", start, Const(1)), Name("M"))))
    assert not never(kernel, Compare((">",), (Name("M"), start)))
    clustered = simplified(program(tmp_path, GEMM, cluster_m="2").kernels[0])
    assert not never(clustered, Compare((">=",), (start, Name("M")))), "a CTA past the edge takes part"


def test_in_names(tmp_path: Path) -> None:
    """Sums and products of names are put in, quotients stay variables."""
    edit = ("k_tiles: ", "row0: m*tile_m, k_tiles: ")
    kernel = simplified(program(tmp_path, GEMM, edit).kernels[0])
    e = in_names(kernel, Binary("+", Name("row0"), Call("min", (Name("k_tiles"), Name("row0")))))
    m = Binary("*", Name("m"), Name("tile_m"))
    assert e == Binary("+", m, Call("min", (Name("k_tiles"), m)))
