"""Which synchronisation instructions each warp of a kernel executes, how often they are written, and in how many loops.

An instruction's key holds its constants: `mbarrier.init(count=16)`. Addresses and phases are no part of it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.ptx.flow import Flow
from tests.support.ptx.read import Instruction, entries


@dataclass(frozen=True, order=True)
class Row:
    """One kind of instruction: where it stands, and whether one lane of a warp executes it or all do."""

    key: str
    loops: int  # around it; those that only poll a barrier do not count
    one_lane: bool

    def __str__(self) -> str:
        return f"{self.key} in {self.loops} loops, {'one lane' if self.one_lane else 'all lanes'}"


Profile = tuple[Counter[Row], ...]  # of each warp


def profiles(text: str) -> dict[str, Profile]:
    """The profiles of the kernels in a PTX file, by their names."""
    return {f.name: profile(Flow(f)) for f in entries(text)}


def profile(flow: Flow) -> Profile:
    """What each warp of a kernel can execute."""
    size = flow.function.directive("reqntid") or flow.function.directive("maxntid")
    assert size is not None, "the number of threads is not in the PTX"
    threads = 1
    for n in size:
        threads *= n
    keyed = [(x, key) for b in flow.order for x in flow.blocks[b] if (key := _key(flow, x)) is not None]
    out = []
    for warp in range((threads + 31) // 32):
        first, second = flow.reached(warp, 0), flow.reached(warp, 1)
        out.append(
            Counter(
                Row(key, flow.depth[x.block], id(x) not in second)
                for x, key in keyed
                if id(x) in first or id(x) in second
            )
        )
    return tuple(out)


def _key(flow: Flow, x: Instruction) -> str | None:
    """The instruction as a key, None if it does not synchronise."""
    parts = [p for p in x.parts if p not in ("sync", "aligned")]
    kind = parts[0]

    def number(i: int) -> str:
        value = flow.constant(x.args[i], x)
        return "dyn" if value is None else str(value)

    if kind == "mbarrier":
        return _mbarrier(flow, x, parts, number)
    if x.op.startswith(("cp.async.bulk", "cp.reduce.async.bulk")):
        return _bulk(parts, number)
    if kind == "cp" and parts[1] == "async":
        return f"cp.async.wait_group(n={number(0)})" if "wait_group" in parts else ".".join(parts)
    if kind == "wgmma":
        detail = ""
        if parts[1] == "mma_async":
            detail = "(A=reg)" if x.args[1].startswith("{") else "(A=smem)"
        if parts[1] == "wait_group":
            detail = f"(n={number(0)})"
        return ".".join(parts) + detail
    if kind == "setmaxnreg":
        return f"setmaxnreg.{parts[1]}(n={number(0)})"
    if kind in ("griddepcontrol", "fence", "membar"):
        return x.op
    if kind in ("tcgen05", "clusterlaunchcontrol"):
        columns = f"(columns={number(1)})" if parts[1] in ("alloc", "dealloc") else ""
        return ".".join(parts) + columns
    if kind in ("bar", "barrier"):
        if "warp" in parts or "cluster" in parts:
            return x.op
        how = re.search(r"\.(sync|arrive|red)\b", x.op)
        threads = number(1) if len(x.args) > 1 else "all"
        return f"barrier.{how.group(1) if how else '?'}(id={number(0)}, threads={threads})"
    if kind in ("st", "red") and "async" in parts:
        return x.op
    return None


def _mbarrier(flow: Flow, x: Instruction, parts: list[str], number: Callable[[int], str]) -> str:
    what = parts[1]
    if what == "init":
        return f"mbarrier.init(count={number(1)})"
    remote = ", remote" if "shared::cluster" in parts else ""
    if what == "arrive":
        at = next(i for i, a in enumerate(x.args) if a.startswith("["))
        if "expect_tx" in parts:
            return f"mbarrier.arrive.expect_tx(bytes={number(at + 1)}{remote})"
        count = number(at + 1) if len(x.args) > at + 1 else "1"
        return f"mbarrier.arrive(count={count}{remote})"
    if what.endswith("_wait"):
        how = "(until it is over)" if x.block in flow.polling else "(once)"
        return f"mbarrier.{what}{how}"
    return ".".join(parts)


def _bulk(parts: list[str], number: Callable[[int], str]) -> str | None:
    if "prefetch" in parts:
        return None
    if "wait_group" in parts:
        return f"cp.async.bulk.wait_group{'.read' if 'read' in parts else ''}(n={number(0)})"
    return ".".join(parts)
