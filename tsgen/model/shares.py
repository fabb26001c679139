"""Whole and share (docs/language.md section 2): whether each lane knows a row value or the lanes of a row share it.

`partial_rowsum` gives a share: each lane holds the sum of its own columns. share ± share, share · whole, share · scalar
and 0 stay shares, `rowsum(share)` adds the shares up; anything else on a share has no meaning. A field `[M, 1]` is a
share if any `map` writes one to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from tsgen.diagnostics import Span
from tsgen.frozen import frozen
from tsgen.model.expr import Binary, Call, Const, Expr, Name, Placed, Ref, Unary, children, text
from tsgen.model.kernel import Work
from tsgen.model.ops import assigns

Kind = Literal["zero", "scalar", "row", "share", "tile"]
FieldKey = tuple[str, str]


@frozen
class Misuse:
    """An expression that does with a share what cannot be done with it."""

    written: str
    reason: str
    span: Span


@dataclass(slots=True)
class _Reader:
    shapes: Mapping[FieldKey, tuple[int, ...]]
    shares: set[FieldKey]
    span: Span
    temporaries: dict[str, Kind]
    misuses: list[Misuse]

    def kind(self, e: Expr) -> Kind:
        match e:
            case Const():
                return "zero" if e.value == 0 and not isinstance(e.value, bool) else "scalar"
            case Name():
                return self.temporaries.get(e.id, "scalar")
            case Ref():
                return self.field(e)
            case Unary(op="-" | "+"):
                return self.kind(e.operand)
            case Call(function="partial_rowsum" | "warp_rowsum"):
                self.whole(e, e.args)
                return "share" if e.function == "partial_rowsum" else "tile"
            case Call(function="rowsum"):
                self.kind(e.args[0])
                return "row"
            case Call(function="rows" | "cols"):
                return "tile"
            case Call(function="rowmax"):
                self.whole(e, e.args)
                return "row"
            case Binary():
                return self.binary(e, self.kind(e.left), self.kind(e.right))
        return self.whole(e, tuple(children(e)))

    def field(self, e: Ref) -> Kind:
        shape = self.shapes.get((e.resource or "", e.name))
        if shape is None or e.window is not None:
            return "tile"
        if not shape:
            return "scalar"
        if shape[-1] != 1:
            return "tile"
        return "share" if (e.resource or "", e.name) in self.shares else "row"

    def binary(self, e: Binary, a: Kind, b: Kind) -> Kind:
        if "share" not in (a, b):
            return max(a, b, key=("zero", "scalar", "row", "share", "tile").index)
        other = b if a == "share" else a
        if e.op in ("+", "-") and other in ("share", "zero"):
            return "share"
        if e.op == "*" and other in ("zero", "scalar", "row"):
            return "share"
        self.misuse(e, f"`{e.op}` joins a share with {_WORDS[other]}")
        return "share"  # while fields are still being found out, the other operand may yet prove to be one

    def whole(self, e: Expr, parts: Iterable[Expr]) -> Kind:
        """Of an operation that shares cannot take part in."""
        kinds = [self.kind(p) for p in parts]
        if "share" in kinds:
            self.misuse(e, "a share stands where the whole is needed")
        kinds = [k for k in kinds if k != "share"]
        return max((*kinds, "scalar"), key=("zero", "scalar", "row", "share", "tile").index)

    def misuse(self, e: Expr, reason: str) -> None:
        self.misuses.append(Misuse(text(e), reason, self.span))


_WORDS = {"zero": "0", "scalar": "a scalar", "row": "a whole", "share": "a share", "tile": "a tile"}


def share_fields(works: Iterable[Work], shapes: Mapping[FieldKey, tuple[int, ...]]) -> frozenset[FieldKey]:
    """The register fields that hold shares. `shapes` are those of all register fields."""
    maps = [w for w in works if w.op == "map"]
    shares: set[FieldKey] = set()
    while True:
        before = len(shares)
        for work in maps:
            _statements(work, shapes, shares, [])
        if len(shares) == before:
            return frozenset(shares)


def misuses(works: Iterable[Work], shapes: Mapping[FieldKey, tuple[int, ...]]) -> list[Misuse]:
    """What the works of a kernel do with shares that cannot be done."""
    works = list(works)
    shares = set(share_fields(works, shapes))
    found: list[Misuse] = []
    for work in works:
        if work.op == "map":
            _statements(work, shapes, shares, found)
        for key in ("value", "where", "init"):
            arg = work.args.get(key)
            if isinstance(arg, Placed):
                reader = _Reader(shapes, shares, arg.span, {}, found)
                if reader.kind(arg.expr) == "share":
                    reader.misuse(arg.expr, f"`{key}` needs the whole")
    return found


def _statements(
    work: Work, shapes: Mapping[FieldKey, tuple[int, ...]], shares: set[FieldKey], found: list[Misuse]
) -> None:
    """Goes through a `map` in order; shares written to fields are entered into `shares`."""
    temporaries: dict[str, Kind] = {}
    for a in assigns(work):
        reader = _Reader(shapes, shares, a.span, temporaries, found)
        kind = reader.kind(a.value)
        key = (work.owner, a.name)
        if f"set.{a.name}" not in work.spans:
            temporaries[a.name] = kind
        elif kind == "share":
            if key in shapes and shapes[key] and shapes[key][-1] == 1:
                shares.add(key)
            else:
                reader.misuse(a.value, f"`{a.name}` is no row value `[M, 1]`, so it cannot hold a share")
        elif key in shares and kind != "zero":
            reader.misuse(a.value, f"`{a.name}` holds shares, this is {_WORDS[kind]}")
