"""A spec file -> its text and documents with places. Every way in which a file can be unreadable is a finding."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tsgen.diagnostics import Diagnostic, Span
from tsgen.frozen import frozen
from tsgen.spec import rules_file as rules
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode, Node, ScalarNode

MAX_BYTES = 4 * 2**20
SUFFIXES = (".yaml", ".yml", ".toml")
_TOML = re.compile(r"\[|[\w.\"'-]+[ \t]*=")  # how a TOML document starts, after comments: with a table or a key


@frozen
class Document:
    """A spec file as read: one root for each kernel. `readable` is False if it could not be read at all."""

    path: str
    text: str
    sha256: str
    roots: tuple[MapNode, ...]
    diagnostics: tuple[Diagnostic, ...]
    readable: bool


def load(path: Path) -> Document:
    """Reads a YAML or TOML file. Never raises: what is wrong is in `diagnostics`."""
    try:
        data = _bytes(path)
    except SpecError as e:
        return Document(str(path), "", "", (), (e.diagnostic,), False)
    sha256 = hashlib.sha256(data).hexdigest()
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        roots, diagnostics = _parse(path, data, text)
    except SpecError as e:
        return Document(str(path), text, sha256, (), (e.diagnostic,), False)
    found = [rules.not_a_mapping(_kind(r), i, r.span) for i, r in enumerate(roots, 1) if not isinstance(r, MapNode)]
    mappings = tuple(r for r in roots if isinstance(r, MapNode))
    return Document(str(path), text, sha256, mappings, (*diagnostics, *found), True)


def _is_open_pipe(path: Path) -> bool:
    """A pipe that the shell has opened, as of `<(git show …)`. A named one without a writer would block for ever."""
    return path.is_fifo() and str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/self/fd/"))


def _bytes(path: Path) -> bytes:
    try:
        if path.is_file() and path.suffix not in SUFFIXES:
            raise SpecError(rules.file_type(str(path)))
        if path.exists() and not (path.is_dir() or path.is_file() or _is_open_pipe(path)):
            raise SpecError(rules.file_unreadable(str(path), "it is not a regular file"))
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SpecError(rules.too_large("bytes", MAX_BYTES, Span.start()))
        return data
    except FileNotFoundError:
        raise SpecError(rules.file_missing(str(path))) from None
    except IsADirectoryError:
        raise SpecError(rules.file_is_directory(str(path))) from None
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise SpecError(rules.file_unreadable(str(path), reason.lower())) from None


def _parse(path: Path, data: bytes, text: str) -> tuple[list[Node], list[Diagnostic]]:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as e:
        before = data[: e.start].decode("utf-8")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        raise SpecError(rules.file_not_utf8(str(path), e.start, Span(line, column, line, column + 1))) from None
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        raise SpecError(rules.file_empty(str(path)))
    if _is_toml(path, text):
        from tsgen.spec.toml_load import read_toml

        return read_toml(text)
    from tsgen.spec.yaml_load import read_yaml

    roots, diagnostics = read_yaml(text)
    if not roots:
        raise SpecError(rules.file_empty(str(path)))
    return roots, diagnostics


def _is_toml(path: Path, text: str) -> bool:
    """By the ending of the file; a pipe has none, and shows it by its first line."""
    if path.suffix in SUFFIXES:
        return path.suffix == ".toml"
    lines = (line.strip() for line in text.splitlines())
    return _TOML.match(next((line for line in lines if line and not line.startswith("#")), "")) is not None


def _kind(node: Node) -> str:
    if isinstance(node, ListNode):
        return "a list"
    assert isinstance(node, ScalarNode)
    return "empty" if node.value is None else f"the text `{node.source[:40]}`"
