"""Register fields that every path through a schedule writes before it reads them, and those of which that is not sure.

The run follows those of the second kind alone (TS503): most registers are written right before they are read.
"""

from __future__ import annotations

from tsgen.derive.unfold import Node
from tsgen.derive.uses import Uses
from tsgen.model.expr import Full
from tsgen.model.kernel import Kernel
from tsgen.model.steps import CallStep, TileLoop

Field = tuple[str, str]


def doubtful(kernel: Kernel, uses: Uses, program: tuple[Node, ...]) -> set[Field]:
    """Register fields that a task may read before it has written them."""
    found: set[Field] = set()
    _block(kernel, uses, program, set(), found)
    return found


def _block(kernel: Kernel, uses: Uses, nodes: tuple[Node, ...], written: set[Field], found: set[Field]) -> None:
    """Adds to `written` what the nodes write on every path, and to `found` what they read before."""
    for node in nodes:
        step = node.step
        if not isinstance(step, CallStep):
            always = isinstance(step, TileLoop)  # there is a tile
            _block(kernel, uses, node.body, written if always else set(written), found)
            continue
        work = kernel.work(step.target, step.method) if step.kind == "work" else None
        here: list[Field] = []
        for access in uses.accesses(work) if work is not None else ():
            ref = access.ref
            owner = kernel.resources.get(ref.resource or "")
            if owner is None or owner.kind != "rmem" or owner.fields[ref.name].view is not None:
                continue
            key = (owner.name, ref.name)
            if access.mode == "read":
                if key not in written:
                    found.add(key)
            elif all(isinstance(w, Full) for w in ref.window or ()):
                here.append(key)
        written.update(here)
