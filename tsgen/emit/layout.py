"""Line breaks of generated code: long calls are folded as a formatter would, and imports are those that are used."""

from __future__ import annotations

import re

WIDTH = 120
_CLOSE = {"(": ")", "[": "]", "{": "}"}

_MODULES = (  # text that shows a use, and the import
    (r"\bmath\.", "import math"),
    (r"\boperator\.", "import operator"),
    (r"\bdataclasses\.", "import dataclasses"),
    (r"\blru_cache\b", "from functools import lru_cache"),
    (r"\bOptional\b", "from typing import Optional"),
)
_DSL = (
    (r"\bcutlass\.", "import cutlass"),
    (r"\bcute\.", "import cutlass.cute as cute"),
    (r"\bpipeline\.", "import cutlass.pipeline as pipeline"),
    (r"\bCUstream\b", "from cuda.bindings.driver import CUstream"),
)
_NAMES = (
    ("cutlass", ("Boolean", "Float32", "Int16", "Int32", "Int64", "Int128", "Uint16", "Uint32", "const_expr")),
    ("cutlass.cute.nvgpu", ("OperandMajorMode", "cpasync", "tcgen05", "warp", "warpgroup")),
    ("cutlass.cute.runtime", ("make_fake_stream", "make_fake_tensor")),
    ("cutlass.memory", ("SmemAllocator",)),
    ("cutlass.utils", ("blockscaled_layout",)),
)
_TASK_SCHEDULING = (  # of modules in the TS form
    ("", "WorkAttr consumer_work domain_loop producer_work schedule when_false when_true work_tile_loop"),
    (".enums", "PipelineGroupMode PipelineType SignalingThreads TileSchedulerType"),
    (".pipeline_group", "PipelineGroup"),
    (
        ".resources",
        "MemoryResource PdlLaunchBarrier PdlWaitBarrier PipelineConfig StageInfo TaskLocalVariable TileSchedulerConfig "
        "WorkQueue WorkTileInfo",
    ),
    (".task", "Task"),
    (".task_manager", "TaskManager"),
)


def imports(body: str, extra: tuple[tuple[str, str], ...]) -> str:
    """The import lines that a module's text needs."""
    standard = [line for pattern, line in _MODULES if re.search(pattern, body)]
    dsl = [line for pattern, line in _DSL if re.search(pattern, body)]
    scheduling = _TASK_SCHEDULING if "TaskManager(" in body else ()
    names_of = [*_NAMES, *((f"cutlass.experimental.task_scheduling{m}", tuple(n.split())) for m, n in scheduling)]
    for module, names in sorted(names_of):
        used = [n for n in names if re.search(rf"(?<![\w.]){n}\b", body)]
        if used:
            dsl.append(_import(module, used))
    dsl += [f"from {module} import {name}" for module, name in extra]
    return "\n".join(standard) + "\n\n" + "\n".join(dsl)


def _import(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    return line if len(line) <= WIDTH else f"from {module} import (\n    " + ",\n    ".join(names) + ",\n)"


def fold(text: str) -> str:
    """Breaks lines past the width at their last bracket: its content on a line of its own, or an item a line."""
    out: list[str] = []
    documents = False  # inside a docstring: its lines are text
    for line in text.split("\n"):
        out += [line] if documents else _fold(line)
        documents ^= line.count('"""') % 2 == 1
    return "\n".join(out)


def _fold(line: str) -> list[str]:
    if len(line) <= WIDTH or "#" in line or '"""' in line or " for " in line:
        return [line]
    opened = _last_group(line)
    if opened is None:
        return [line]
    start, end = opened
    indent = " " * (len(line) - len(line.lstrip()))
    inner = line[start + 1 : end]
    items = _items(inner)
    joined = f"{indent}    {inner}"
    if len(joined) <= WIDTH and line[start] == "(":
        body = [joined]
    else:
        body = [piece for item in items for piece in _fold(f"{indent}    {item},")]
    return [line[: start + 1], *body, indent + line[end:]]


def _last_group(line: str) -> tuple[int, int] | None:
    """The outermost bracket that closes last on the line."""
    stack: list[int] = []
    found = None
    quote = ""
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in _CLOSE:
            stack.append(i)
        elif c in _CLOSE.values() and stack:
            start = stack.pop()
            if not stack:
                found = (start, i)
    return found


def _items(inner: str) -> list[str]:
    items, depth, current, quote = [], 0, "", ""
    for c in inner:
        if quote:
            quote = "" if c == quote else quote
        elif c in "\"'":
            quote = c
        elif c in _CLOSE:
            depth += 1
        elif c in _CLOSE.values():
            depth -= 1
        if c == "," and depth == 0 and not quote:
            items.append(current.strip())
            current = ""
        else:
            current += c
    return [*items, current.strip()] if current.strip() else items
