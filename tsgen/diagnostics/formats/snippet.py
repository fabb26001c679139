"""Source lines with marks below them: what a compiler shows of the place of an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import combining, east_asian_width

from tsgen.diagnostics.formats.style import Painter, Tint, printable
from tsgen.diagnostics.model import Span
from tsgen.frozen import frozen

TAB = 4  # columns between tab stops
WIDTH = 140  # columns of a source line that are shown; longer lines are cut around the mark
CONTEXT = 1  # lines shown around the primary mark

_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # those of YAML, as its marks count them


@frozen
class Mark:
    """A stretch of the source to underline, with a label behind the underline."""

    span: Span
    label: str
    primary: bool


@frozen
class _Shown:
    """A source line as the terminal shows it; `columns[i]` is where its character i starts, the end included."""

    text: str
    columns: tuple[int, ...]


def split_lines(text: str) -> list[str]:
    """The lines of a source, without their breaks."""
    return _LINE_BREAK.split(text)


def line_starts(text: str) -> list[int]:
    """Where each line of a source begins, as an index into it."""
    return [0, *(m.end() for m in _LINE_BREAK.finditer(text))]


def snippet(lines: Sequence[str], marks: Sequence[Mark], paint: Painter, tint: Tint) -> Iterator[str]:
    """The marked lines in the order of the file, each mark on a row of its own; gaps are shown as `...`.

    `tint` colours the primary marks. Marks past the end of the source are placed at its end.
    """
    at: dict[int, list[Mark]] = {}
    for m in sorted(marks, key=lambda m: (not m.primary, m.span)):
        at.setdefault(min(max(m.span.line, 1), len(lines)), []).append(m)
    shown = set(at)
    for line, here in at.items():
        if any(m.primary for m in here):
            shown |= set(range(max(1, line - CONTEXT), min(len(lines), line + CONTEXT) + 1))
    gutter = len(str(max(shown)))
    bar = paint("frame", "|")
    previous = None
    yield f"{'':{gutter}} {bar}"
    for line in sorted(shown):
        if previous is not None and line > previous + 1:
            yield paint("frame", "...")
        previous = line
        here = at.get(line, [])
        source = _expand(lines[line - 1])
        start, end = _window(source, here, line)
        yield f"{paint('frame', f'{line:{gutter}}')} {bar} {_cut(source.text, start, end)}".rstrip()
        for m in here:
            yield f"{'':{gutter}} {bar} {_underline(m, source, line, start, end, paint, tint)}"


def gutter_width(lines: Sequence[str], marks: Sequence[Mark]) -> int:
    """How wide the line numbers of a snippet are."""
    last = max(min(m.span.line + (CONTEXT if m.primary else 0), len(lines)) for m in marks)
    return len(str(max(last, 1)))


def width(text: str) -> int:
    """The terminal columns that a text without tabs takes."""
    return sum(_width(c) for c in text)


def _width(c: str) -> int:
    if c < "\u0300":
        return 1
    return 0 if combining(c) or c in "\u200b\u200d\ufe0f" else 2 if east_asian_width(c) in "WF" else 1


def _expand(line: str) -> _Shown:
    text: list[str] = []
    columns = [0]
    column = 0
    for c in printable(line):
        step = TAB - column % TAB if c == "\t" else _width(c)
        text.append(" " * step if c == "\t" else c)
        column += step
        columns.append(column)
    return _Shown("".join(text), tuple(columns))


def _extent(m: Mark, source: _Shown, line: int) -> tuple[int, int]:
    """The terminal columns that a mark covers in its first line, at least one."""
    last = len(source.columns) - 1
    begin = min(m.span.column - 1, last)
    stop = min(m.span.end_column - 1, last) if m.span.end_line <= line else last
    start = source.columns[max(begin, 0)]
    return start, max(source.columns[max(stop, 0)], start + 1)


def _window(source: _Shown, marks: Sequence[Mark], line: int) -> tuple[int, int]:
    """The terminal columns of a line that are shown: all of it where it is short enough."""
    total = source.columns[-1]
    if total <= WIDTH:
        return 0, total
    start = max(0, _extent(marks[0], source, line)[0] - WIDTH // 3) if marks else 0
    return start, start + WIDTH


def _cut(text: str, start: int, end: int) -> str:
    out: list[str] = []
    column = 0
    for c in text:
        if start <= column and column + _width(c) <= end:
            out.append(c)
        column += _width(c)
    return ("…" if start else "") + "".join(out) + ("…" if column > end else "")


def _underline(m: Mark, source: _Shown, line: int, start: int, end: int, paint: Painter, tint: Tint) -> str:
    first, stop = _extent(m, source, line)
    first, stop = max(first, start), max(min(stop, end), first + 1)
    margin = " " * (first - start + (1 if start else 0))
    body = ("^" if m.primary else "-") * (stop - first)
    label = f" {printable(m.label)}" if m.label else ""
    return margin + paint(tint if m.primary else "frame", body + label)
