"""The control flow of a PTX kernel: its blocks, how deep in loops they lie, and which of them a thread can reach."""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Callable

from tests.support.ptx.read import Function, Instruction, Label, Targets, statements

Value = int | bool | None  # of a register, if it is known
_ENDS = ("bra", "brx", "ret", "exit", "trap")
_NO_RESULT = ("st", "bra", "brx", "bar", "barrier", "setmaxnreg", "red", "call")
_POLLING = re.compile(r"mbarrier\.(try|test)_wait|bra|setp|mov|selp|not|and|or|nanosleep|add|xor")
_NUMBER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|\d+)U?")
_DEEPEST = 40
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": min,
    "max": max,
    "shl": lambda a, b: a << (b & 63),
    "shr": lambda a, b: a >> (b & 63),
    "div": lambda a, b: int(a / b),
    "rem": lambda a, b: a - b * int(a / b),
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    **dict.fromkeys(("lt", "lo"), operator.lt),
    **dict.fromkeys(("le", "ls"), operator.le),
    **dict.fromkeys(("gt", "hi"), operator.gt),
    **dict.fromkeys(("ge", "hs"), operator.ge),
}


class Flow:
    """A kernel's blocks. `depth` counts the loops around each block, without those that only poll a barrier."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.blocks: list[list[Instruction]] = [[]]
        self.successors: list[list[int]] = []
        self._split(function)
        self.defined: defaultdict[str, list[Instruction]] = defaultdict(list)
        for x in (x for block in self.blocks for x in block):
            if x.args and not x.args[0].startswith("[") and x.parts[0] not in _NO_RESULT:
                for register in re.findall(r"%?[\w$]+(?:#\d+)?", x.args[0]):
                    self.defined[register].append(x)
        self.order: list[int] = []
        self.depth = [0] * len(self.blocks)
        self.polling: set[int] = set()
        self._loops()

    def _split(self, function: Function) -> None:
        labels: dict[str, int] = {}
        for item in statements(function.body):
            last = self.blocks[-1]
            if isinstance(item, Label):
                if last or len(self.blocks) - 1 in labels.values():  # two loops may start at one place
                    self.blocks.append([])
                labels[item.name] = len(self.blocks) - 1
            elif isinstance(item, Targets):
                branch = last or self.blocks[-2]
                branch[-1].args += item.names
            else:
                item.block = len(self.blocks) - 1
                last.append(item)
                if item.parts[0] in _ENDS:
                    self.blocks.append([])
        for i, block in enumerate(self.blocks):
            end = block[-1] if block else None
            jumps = end is not None and end.parts[0] in ("bra", "brx")
            out = [labels[a] for a in end.args if a in labels] if end is not None and jumps else []
            falls = end is None or end.parts[0] not in _ENDS or end.pred is not None
            self.successors.append(out + ([i + 1] if falls and i + 1 < len(self.blocks) else []))

    # -- loops ---------------------------------------------------------------------------------------------------

    def _loops(self) -> None:
        """Natural loops: back edges to a block that dominates them."""
        self.order = self._postorder()[::-1]
        number = {b: i for i, b in enumerate(self.order)}
        before: defaultdict[int, list[int]] = defaultdict(list)
        for b in self.order:
            for t in self.successors[b]:
                before[t].append(b)
        dominator = self._dominators(number, before)

        def dominates(a: int, b: int) -> bool:
            while number[b] > number[a]:
                b = dominator[b]
            return a == b

        bodies: dict[int, set[int]] = {}
        for b in self.order:
            for head in self.successors[b]:
                if dominates(head, b):
                    body, todo = bodies.setdefault(head, {head}), [b]
                    while todo:
                        x = todo.pop()
                        if x not in body:
                            body.add(x)
                            todo += before[x]
        for body in bodies.values():
            ops = [x.op for b in body for x in self.blocks[b]]
            if any("_wait" in o for o in ops) and all(_POLLING.match(o) for o in ops):
                self.polling |= body
                continue
            for b in body:
                self.depth[b] += 1

    def _postorder(self) -> list[int]:
        out, seen, stack = [], {0}, [(0, iter(self.successors[0]))]
        while stack:
            block, rest = stack[-1]
            following = next((t for t in rest if t not in seen), None)
            if following is None:
                out.append(block)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(self.successors[following])))
        return out

    def _dominators(self, number: dict[int, int], before: dict[int, list[int]]) -> dict[int, int]:
        dominator, changed = {0: 0}, True
        while changed:
            changed = False
            for b in self.order[1:]:
                known = [q for q in before[b] if q in dominator]
                nearest = known[0]
                for q in known[1:]:
                    while nearest != q:
                        if number[nearest] > number[q]:
                            nearest = dominator[nearest]
                        else:
                            q = dominator[q]
                changed = changed or dominator.get(b) != nearest
                dominator[b] = nearest
        return dominator

    # -- values --------------------------------------------------------------------------------------------------

    def constant(self, register: str, at: Instruction) -> int | None:
        """The value that a register has at an instruction, if it is the same for all threads."""
        block = self.blocks[at.block]
        before = block[: next(i for i, x in enumerate(block) if x is at)]
        last = next((x for x in reversed(before) if any(x is y for y in self.defined.get(register, ()))), None)
        value = self._value(register, {}, 0) if last is None else self._result(last, register, {}, 0)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _value(self, register: str, known: dict[str, Value], deep: int) -> Value:
        number = _NUMBER.fullmatch(register.strip())
        if number:
            return int(number.group(2), 0) * (-1 if number.group(1) else 1)
        register = register.strip()
        if register not in known:
            made = self.defined.get(register, [])
            single = len(made) == 1 and made[0].pred is None and deep < _DEEPEST
            known[register] = self._result(made[0], register, known, deep + 1) if single else None
        return known[register]

    def _result(self, x: Instruction, register: str, known: dict[str, Value], deep: int) -> Value:
        kind, parts = x.parts[0], x.parts

        def operand(i: int) -> Value:
            return self._value(x.args[i], known, deep)

        if kind == "elect":
            return known.get("elect") if x.args[0].endswith("|" + register) else None
        if kind == "shfl":
            return operand(1) if "|" not in x.args[0] or x.args[0].startswith(register + "|") else None
        if kind in ("mov", "cvt", "cvta") and len(x.args) == 2 and not x.args[1].startswith("{"):
            return operand(1)
        if kind == "not":
            v = operand(1)
            return None if v is None else not v if parts[1] == "pred" else ~v
        if kind == "setp":
            return self._compared(x, operand(1), operand(2), known, deep) if "|" not in x.args[0] else None
        if kind == "selp":
            p = operand(3)
            return None if p is None else operand(1) if p else operand(2)
        if kind in ("and", "or") and parts[1] == "pred":
            a, b = operand(1), operand(2)
            if (kind == "and" and False in (a, b)) or (kind == "or" and True in (a, b)):
                return kind == "or"
            return None if a is None or b is None else kind == "and"
        return self._computed(x, [operand(i) for i in range(1, len(x.args))])

    def _computed(self, x: Instruction, values: list[Value]) -> Value:
        kind = x.parts[0]
        if "wide" in x.parts or "hi" in x.parts or any(v is None for v in values):
            return None
        numbers = [int(v) for v in values if v is not None]
        if kind == "mad":
            return numbers[0] * numbers[1] + numbers[2]
        if kind not in _ARITHMETIC or len(numbers) != 2 or (kind in ("div", "rem") and not numbers[1]):
            return None
        value = _ARITHMETIC[kind](*numbers)
        return bool(value) if x.parts[1] == "pred" else value

    def _compared(self, x: Instruction, a: Value, b: Value, known: dict[str, Value], deep: int) -> Value:
        how = x.parts[1]
        result: Value = None
        if a is not None and b is not None and how in _COMPARE:
            if x.parts[-1].startswith("u") or how in ("lo", "ls", "hi", "hs"):
                a, b = a & 0xFFFFFFFF, b & 0xFFFFFFFF
            result = _COMPARE[how](a, b)
        if len(x.args) > 3:
            also = self._value(x.args[3].lstrip("!"), known, deep)
            also = not also if also is not None and x.args[3].startswith("!") else also
            stops = x.parts[2] == "or"
            if stops in (result, also):
                return stops
            return None if result is None or also is None else not stops
        return result

    # -- reach ---------------------------------------------------------------------------------------------------

    def reached(self, warp: int, lane: int) -> set[int]:
        """The instructions, by their id(), that a thread can reach: a branch on a known value takes one way."""
        size = self.function.directive("reqntid") or self.function.directive("maxntid") or [1024]
        known: dict[str, Value] = {"elect": lane == 0, "%laneid": lane}
        if all(n == 1 for n in size[1:]):
            known |= {"%tid.x": 32 * warp + lane, "%tid.y": 0, "%tid.z": 0}
            known |= {"%ntid.x": size[0], "%ntid.y": 1, "%ntid.z": 1}
        seen: set[int] = set()
        todo, out = [0], set()
        while todo:
            b = todo.pop()
            if b in seen:
                continue
            seen.add(b)
            taken: bool | None = None
            for x in self.blocks[b]:
                guard = self._value(x.pred, known, 0) if x.pred else True
                taken = None if guard is None else bool(guard) != x.negated if x.pred else True
                if taken is not False:
                    out.add(id(x))
            end = self.blocks[b][-1] if self.blocks[b] else None
            following = self.successors[b]
            if end is not None and end.pred and taken is not None and end.parts[0] in _ENDS:
                jumps = end.parts[0] == "bra"
                following = ([following[0]] if jumps else []) if taken else following[-1:]
            todo += following
        return out
