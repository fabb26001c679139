"""Memory as cells (one stage of one field in one CTA) and boxes within them; which cells share bytes."""

from __future__ import annotations

from tsgen.derive.memory import instance_name, instances
from tsgen.derive.model import Derived
from tsgen.derive.storage import bits, stages
from tsgen.derive.unfold import Env, constant
from tsgen.model.expr import Expr, Full, Index, Ref, Slice
from tsgen.model.kernel import Field, Kernel
from tsgen.verify.machine import FieldInfo, System
from tsgen.verify.spans import Box, Place

Key = tuple[int, str, int, str]  # CTA, resource, instance, field


class Layout:
    """Where each field's cells are. Registers get cells when an agent first touches them."""

    def __init__(self, kernel: Kernel, derived: Derived, system: System) -> None:
        self.kernel = kernel
        self.system = system
        self.bases: dict[Key, int] = {}
        self.field_index: dict[Key, int] = {}
        self.swizzles = derived.swizzles
        self._spans: dict[int, list[tuple[int, int, int]]] = {}  # space -> start, end, cell
        smem = {b.name: (b.offset, b.size // b.stages) for b in derived.smem if not b.is_barrier}
        tmem = {b.name: (b.offset, b.columns // b.stages) for b in derived.tmem}
        for cta in range(system.ctas):
            for resource in kernel.resources.values():
                if resource.kind not in ("smem", "tmem"):
                    continue
                for index in range(instances(resource)):
                    for field in resource.fields.values():
                        if field.view is None:
                            place = (smem if resource.kind == "smem" else tmem)[
                                f"{instance_name(resource, index)}.{field.name}"
                            ]
                            self._add(cta, resource.kind, (resource.name, index), field, place, stages(resource))
        self._find_aliases()

    def _add(
        self, cta: int, kind: str, owner: tuple[str, int], field: Field, place: tuple[int, int], count: int
    ) -> None:
        key = (cta, owner[0], owner[1], field.name)
        self._cells(key, FieldInfo(owner[0], owner[1], field.name, False), count)
        width, last = bits(self.kernel, field.dtype), len(field.shape) - 1
        swizzle = self.swizzles.get((owner[0], field.name), 0) if kind == "smem" else None
        known = field.major is None or field.major % len(field.shape) == last
        for stage in range(count):
            cell = self.bases[key] + stage
            start = place[0] + stage * place[1]
            self.system.ranges[cell] = Place(start, width, field.shape, place[1], swizzle, known)
            self._spans.setdefault(2 * cta + (kind == "tmem"), []).append((start, start + place[1], cell))

    def _cells(self, key: Key, info: FieldInfo, count: int) -> None:
        system = self.system
        self.bases[key] = system.cells
        self.field_index[key] = len(system.fields)
        system.fields.append(info)
        system.cells += count
        system.cell_field += [len(system.fields) - 1] * count
        system.cell_stage += range(count)

    def _find_aliases(self) -> None:
        found: dict[int, list[int]] = {}
        for spans in self._spans.values():
            spans.sort()
            for i, (_, end, cell) in enumerate(spans):
                for start, _, other in spans[i + 1 :]:
                    if start >= end:
                        break
                    found.setdefault(cell, []).append(other)
                    found.setdefault(other, []).append(cell)
        self.system.aliases = {c: tuple(sorted(o)) for c, o in found.items()}
        names = [(f.resource, f.field) for f in self.system.fields]
        of = self.system.cell_field
        self._sharing = {(names[of[c]], names[of[o]]) for c, others in found.items() for o in others}

    def aliased(self, field: tuple[str, str], other: tuple[str, str]) -> bool:
        """Whether two fields, each with its resource, have bytes in common."""
        return (field, other) in self._sharing

    def shared(self, cta: int, owner: str, instance: int, field: str) -> tuple[int, int]:
        """First cell and field index of a field in shared or tensor memory."""
        key = (cta, owner, instance, field)
        return self.bases[key], self.field_index[key]

    def private(self, agent: int, owner: str, field: str) -> tuple[int, int]:
        """The cell of an agent's registers."""
        key = (-1 - agent, owner, 0, field)
        if key not in self.bases:
            self._cells(key, FieldInfo(owner, 0, field, True), 1)
        return self.bases[key], self.field_index[key]

    def tensor(self, cta: int, name: str) -> int:
        """The cell of a tensor, as a CTA sees it."""
        key = (cta, name, 0, "")
        if key not in self.bases:
            self._cells(key, FieldInfo(name, 0, "", False), 1)
        return self.bases[key]

    def response(self, cta: int, queue: str, count: int) -> tuple[int, int]:
        """The cells of a queue's responses."""
        key = (cta, queue, 0, "response")
        if key not in self.bases:
            self._cells(key, FieldInfo(queue, 0, "response", False), count)
        return self.bases[key], self.field_index[key]


def box_of(ref: Ref, field: Field, env: Env) -> Box:
    """The window as intervals; a start without a value takes the whole dimension; () is the whole field."""
    if ref.window is None:
        return ()
    box: list[tuple[int, int]] = []
    for w, extent in zip(ref.window, field.shape, strict=False):
        whole = (0, extent)
        if isinstance(w, Full):
            box.append(whole)
        elif isinstance(w, Index):
            at = constant(w.at, env)
            box.append((at, at + 1) if isinstance(at, int) else whole)
        else:
            start, length = constant(w.start, env), constant(w.length, env)
            fixed = isinstance(start, int) and isinstance(length, int)
            box.append((start, start + length) if fixed else whole)  # type: ignore[operator,arg-type]
    box += [(0, extent) for extent in field.shape[len(box) :]]
    return () if all(b == (0, e) for b, e in zip(box, field.shape, strict=False)) else tuple(box)


def is_exact(ref: Ref, env: Env) -> bool:
    """Whether a window is known when the kernel is built."""
    parts: list[Expr] = []
    for w in ref.window or ():
        parts += [w.at] if isinstance(w, Index) else [w.start, w.length] if isinstance(w, Slice) else []
    return all(isinstance(constant(e, env), int) for e in parts)


def union(a: Box, b: Box) -> Box:
    """The smallest box around both."""
    if not a or not b:
        return ()
    return tuple((min(x[0], y[0]), max(x[1], y[1])) for x, y in zip(a, b, strict=True))
