"""Registers that a kernel's SASS uses after each USETMAXREG: the instructions that are reached from there."""

from __future__ import annotations

import re
from pathlib import Path

from tsgen.runtime.sass import _functions, _output

_LINE = re.compile(r"^(?:(\.L_\w+):|\s*/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);)", re.MULTILINE)
_WIDTH = re.compile(r"\.x(\d+)$|\.(64|96|128)\b")


def highest_registers(cubin: Path) -> list[tuple[int, int]]:
    """(budget, registers used) for each USETMAXREG of the kernels in a cubin, in order."""
    return [found for _, body in _functions(_output("nvdisasm", "-c", cubin)) for found in _of_function(body)]


def _of_function(body: str) -> list[tuple[int, int]]:
    code, labels = list[tuple[str, str, str]](), dict[str, int]()
    for label, predicate, op, operands in _LINE.findall(body):
        if label:
            labels[label] = len(code)
        else:
            code.append((predicate, op, operands))
    starts = [i for i, (_, op, _) in enumerate(code) if op.startswith("USETMAXREG")]
    return [(int(code[i][2].split()[-1], 16), _highest(code, labels, i + 1)) for i in starts]


def _highest(code: list[tuple[str, str, str]], labels: dict[str, int], start: int) -> int:
    seen, open_, highest = set[int](), [start], 0
    while open_:
        i = open_.pop()
        if i in seen or i >= len(code):
            continue
        seen.add(i)
        predicate, op, operands = code[i]
        if op.startswith("USETMAXREG"):
            continue
        highest = max(highest, _registers(op, operands))
        target = re.search(r"`\((\.L_\w+)\)", operands)
        if op.startswith(("BRA", "CALL", "BSSY")) and target:
            open_.append(labels[target.group(1)])
        always = not predicate and "," not in operands and not re.search(r"\bU?P\d", operands)
        if not (always and (op.startswith("BRA") or op in ("EXIT", "RET.REL.NODEC"))):
            open_.append(i + 1)
    return highest


def _registers(op: str, operands: str) -> int:
    """One more than the highest register that an instruction names; wide ones take those that follow."""
    found = _WIDTH.search(op)
    width = int(found.group(1)) if found and found.group(1) else int(found.group(2)) // 32 if found else 1
    named = [int(n) for n in re.findall(r"(?<![\w])R(\d+)", operands)]
    return max((n + (width if i == 0 or not op.startswith("LDTM") else 1) for i, n in enumerate(named)), default=0)
