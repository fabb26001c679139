"""PTX text as functions, and functions as labels and instructions whose names are told apart by their scope."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_LABEL = re.compile(r"([\w$%]+)\s*:(?!:)")
_NAME = re.compile(r"[\w$%]+")
_CLOSE = {"(": ")", "{": "}"}


@dataclass(eq=False)
class Instruction:
    op: str
    args: list[str]
    pred: str | None = None
    negated: bool = False
    block: int = -1

    @property
    def parts(self) -> list[str]:
        return self.op.split(".")


@dataclass
class Label:
    name: str


@dataclass
class Targets:
    """The labels of a `brx.idx`, which a directive lists."""

    names: list[str]


@dataclass
class Function:
    name: str
    head: str  # parameters and directives
    body: str

    def directive(self, name: str) -> list[int] | None:
        """The numbers of `.reqntid 384, 1, 1` and its like."""
        found = re.search(rf"\.{name}\b([\s\d,]+)", self.head)
        return [int(v) for v in re.findall(r"\d+", found.group(1))] if found else None


def entries(text: str) -> Iterator[Function]:
    """The kernels of a PTX file."""
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", " ", text, flags=re.S))
    text = re.sub(r"(?m)^\s*\.(loc|file)\b[^\n]*$", "", text)
    for m in re.finditer(r"\.entry\s+([\w$]+)\s*", text):
        start = m.end()
        if text[start] == "(":
            start = _closing(text, start) + 1
        opened = min(i for i in (text.find("{", start), text.find(";", start), len(text)) if i >= 0)
        if opened < len(text) and text[opened] == "{":
            yield Function(m.group(1), text[start:opened], text[opened + 1 : _closing(text, opened)])


def _closing(text: str, at: int) -> int:
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == text[at]) - (text[i] == _CLOSE[text[at]])
        if depth == 0:
            return i
    raise ValueError(f"unbalanced {text[at]}")


def arguments(text: str) -> list[str]:
    """Arguments at commas outside of brackets."""
    out, depth, current = [], 0, ""
    for c in text:
        depth += (c in "{[(") - (c in "}])")
        if c == "," and depth == 0:
            out.append(current.strip())
            current = ""
        else:
            current += c
    return [*out, current.strip()] if current.strip() else out


@dataclass
class _Scopes:
    """Blocks in braces: their parents, and the labels and registers that each declares."""

    parent: dict[int, int | None] = field(default_factory=lambda: {0: None})
    labels: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    registers: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))

    def home(self, table: Mapping[int, set[str]], scope: int | None, name: str) -> int | None:
        while scope is not None and name not in table.get(scope, ()):
            scope = self.parent[scope]
        return scope

    def label(self, scope: int, name: str) -> str:
        home = self.home(self.labels, scope, name)
        return name if home is None else f"{home}/{name}"

    def register(self, scope: int, name: str) -> str:
        home = self.home(self.registers, scope, name) if scope else None
        return f"{name}#{home}" if home else name


def statements(body: str) -> list[Instruction | Label | Targets]:
    """A function's body in order."""
    scopes, raw = _Scopes(), []
    stack, position, made = [0], 0, 0
    while position < len(body):
        c = body[position]
        label = _LABEL.match(body, position)
        if c.isspace():
            position += 1
        elif c == "{":
            made += 1
            scopes.parent[made] = stack[-1]
            stack.append(made)
            position += 1
        elif c == "}":
            stack.pop()
            position += 1
        elif label:
            scopes.labels[stack[-1]].add(label.group(1))
            raw.append((stack[-1], label.group()))
            position = label.end()
        else:
            end = body.find(";", position)
            text = body[position:end].strip()
            position = end + 1
            if text.startswith(".reg"):
                scopes.registers[stack[-1]] |= set(_NAME.findall(text.split(None, 2)[-1]))
            elif text and (not text.startswith(".") or text.startswith(".branchtargets")):
                raw.append((stack[-1], text))
    return [_resolved(scopes, scope, text) for scope, text in raw]


def _resolved(scopes: _Scopes, scope: int, text: str) -> Instruction | Label | Targets:
    if text.endswith(":"):
        return Label(scopes.label(scope, text.rstrip(": ")))
    if text.startswith(".branchtargets"):
        return Targets([scopes.label(scope, t) for t in arguments(text.removeprefix(".branchtargets"))])
    guard = re.match(r"@(!?)([\w$%]+)\s+", text)
    op, _, rest = (text[guard.end() :] if guard else text).partition(" ")
    op, _, more = op.partition("\t")
    args = [_NAME.sub(lambda m: scopes.register(scope, m.group()), a) for a in arguments(more + rest)]
    if op.startswith("bra"):
        args = [scopes.label(scope, a.split("#")[0]) for a in args]
    pred = scopes.register(scope, guard.group(2)) if guard else None
    return Instruction(op, args, pred, bool(guard and guard.group(1)))
