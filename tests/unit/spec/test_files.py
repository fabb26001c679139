"""Every way in which a file cannot be read gives one finding with a place, and never an exception."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tsgen.spec import load_document

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{c}: &{c} [{', '.join(['*' + p] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
)


def _missing(path: Path) -> None:
    return None


def _folder(path: Path) -> None:
    path.mkdir()


def _unreadable(path: Path) -> None:
    os.mkfifo(path)


def _bytes(data: bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(data)

    return write


UNREADABLE = (  # code, file name, what makes the file, line and column, part of the message
    ("TS100", "a.yaml", _missing, (1, 1), "no such file"),
    ("TS101", "a.yaml", _folder, (1, 1), "is a directory"),
    ("TS102", "a.yaml", _unreadable, (1, 1), "not a regular file"),
    ("TS102", "a\0.yaml", _missing, (1, 1), "null byte"),
    ("TS103", "a.yaml", _bytes(b"tsgen: 1\nkernel: caf\xe9\n"), (2, 12), "byte 20"),
    ("TS103", "a.yaml", _bytes("tsgen: 1\n".encode("utf-16")), (1, 1), "byte 0"),
    ("TS104", "a.yaml", _bytes(b""), (1, 1), "is empty"),
    ("TS104", "a.toml", _bytes(b"# nothing\n\n"), (1, 1), "is empty"),
    ("TS105", "a.yaml", _bytes(b"tsgen: 1\nkernel: [a\n"), (3, 1), "expected ',' or ']'"),
    ("TS105", "a.yaml", _bytes(b"tsgen: 1\n\tkernel: a\n"), (2, 1), "a tab indents the line"),
    ("TS105", "a.yaml", _bytes(b"tsgen: 1\nkernel: \x01\n"), (2, 9), "control characters"),
    ("TS105", "a.yaml", _bytes(b"a:\n  b: 1\n c: 2\n"), (3, 2), "indentation of this line fits nothing above"),
    ("TS105", "a.yaml", _bytes(b"  a: 1\nb: 2\n"), (2, 1), "indentation of this line fits nothing above"),
    ("TS105", "a.yaml", _bytes(b"a:\n  - x\n - y: 1\n"), (3, 2), "indentation of this line fits nothing above"),
    ("TS105", "a.yaml", _bytes(b"a:\n  b: 1\n    c: 2\n"), (3, 6), "deeper than the one above it"),
    ("TS105", "a.yaml", _bytes(b"a:\n  - x\n    y: 1\n"), (3, 6), "deeper than the one above it"),
    ("TS105", "a.yaml", _bytes(b"a: 1\n- x\n"), (2, 1), "a key is expected here"),
    ("TS105", "a.yaml", _bytes(b"a:\n  - x\n  b: 1\n"), (3, 3), "an item `- \u2026` is expected here"),
    ("TS105", "a.yaml", _bytes(b"a: 'x' y\n"), (1, 8), "a value ends before this text"),
    ("TS106", "a.toml", _bytes(b"tsgen = 1\nkernel = \n"), (2, 10), "invalid value"),
    ("TS106", "a.toml", _bytes(b"[[a]]\n[a]\nx = ['\n"), (2, 3), "declare"),
    ("TS107", "a.toml", _bytes(b"a = 1\n[a]\nb = 2\n"), (2, 2), "`a` is given twice"),
    ("TS107", "a.toml", _bytes(b"tsgen = 1\ntsgen = 1\n"), (2, 1), "`tsgen` is given twice"),
    ("TS107", "a.toml", _bytes(b"x = {a = 1, 'a' = 2}\n[a\n"), (1, 13), "`a` is given twice"),
    ("TS107", "a.toml", _bytes(b"a.b = 1\nc = 2\na.b = 3\n"), (3, 3), "`b` is given twice"),
    ("TS107", "a.toml", _bytes(b"[a.b]\n[a]\n[c]\n[a]\n"), (4, 2), "`a` is given twice"),
    ("TS108", "a.yaml", _bytes(BOMB.encode()), (5, 28), "more than 50000 entries"),
    ("TS108", "a.yaml", _bytes(b"[" * 200), (1, 62), "more than 60 levels"),
    ("TS108", "a.toml", _bytes(b"a = " + b"[" * 20000 + b"]" * 20000), (1, 1), "levels"),
    ("TS108", "a.yaml", _bytes(b"a" * (4 * 2**20 + 1)), (1, 1), "bytes"),
    ("TS150", "a.yaml", _bytes(b"work: {get: {op: load, from: x[i]}}"), (1, 31), "`[` ends the text before it"),
    ("TS150", "a.yaml", _bytes(b"doc: a: b"), (1, 7), "starts another mapping"),
    ("TS150", "a.yaml", _bytes(b"doc: @home"), (1, 6), "cannot start with `@`"),
    ("TS150", "a.yaml", _bytes(b"doc: - x"), (1, 6), "starts a list"),
    ("TS151", "a.yaml", _bytes(b"params: {a: *b}"), (1, 13), "not defined before"),
    ("TS151", "a.yaml", _bytes(b"params: &b {a: *b}"), (1, 16), "within the value that it repeats"),
    ("TS157", "a.json", _bytes(b"{}"), (1, 1), "neither .yaml, .yml nor .toml"),
)
FOUND = (  # what does not stop the reading
    ("TS109", "a.yaml", b"- tsgen: 1\n", (1, 3), "document 1 is a list"),
    ("TS109", "a.yaml", b"tsgen\n", (1, 1), "the text `tsgen`"),
    ("TS150", "a.yaml", b"a: {end: max(a, b)}\n", (1, 17), "a comma ends the value `max(a`"),
    ("TS150", "a.yaml", b"a: [max(a, b), c]\n", (1, 12), "a comma ends the value `max(a`"),
    ("TS159", "a.toml", b"tsgen = 1\nkernel = 2024-01-01\n", (2, 10), "the date or time 2024-01-01"),
)
FILE_CODES = {u[0] for u in UNREADABLE} | {f[0] for f in FOUND}


@pytest.mark.parametrize(("code", "name", "make", "place", "message"), UNREADABLE)
def test_an_unreadable_file_is_one_finding(
    code: str,
    name: str,
    make: Callable[[Path], None],
    place: tuple[int, int],
    message: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / name
    make(path)
    document = load_document(path)
    assert not document.readable
    (found,) = document.diagnostics
    assert (found.code, (found.span.line, found.span.column)) == (code, place)
    assert message in found.message


@pytest.mark.parametrize(("code", "name", "data", "place", "message"), FOUND)
def test_a_readable_file_with_a_fault(
    code: str, name: str, data: bytes, place: tuple[int, int], message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    document = load_document(path)
    assert document.readable
    found = next(d for d in document.diagnostics if d.code == code)
    assert (found.span.line, found.span.column) == place
    assert message in found.message


def test_an_anchor_and_a_merge_key_are_data(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("base: &base {x: 1, y: 2}\nmore: {<<: *base, y: 3}\n")
    (root,) = load_document(path).roots
    more = root.get("more")
    assert {k: n.value for k, _, n in more.items()} == {"y": 3, "x": 1}  # type: ignore[union-attr]


def test_a_byte_order_mark_and_windows_line_ends_are_harmless(tmp_path: Path) -> None:
    source = (Path(__file__).parents[2] / "language" / "copy.yaml").read_text(encoding="utf-8")
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + source.replace("\n", "\r\n").encode())
    assert load_document(path).diagnostics == ()
