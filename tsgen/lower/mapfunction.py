"""A function over WGMMA fragments while it is written: its parameters, and the text of what its expressions name.

A thread owns, of every 64 rows, two (r = 0, 1; eight apart), and of every 8 columns a pair: by_row(x)[r, c] is element
c of its row r, and column c of the thread is tile column thread_col + 8 * (c // 2) + c % 2 with
thread_col = 2 * (lane % 4) (PTX ISA, wgmma accumulator layout). The A operand in registers holds the same elements in
the same order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tsgen.lower.context import TaskState
from tsgen.lower.elementwise import Leaf, Printer, Shape
from tsgen.lower.errors import refuse
from tsgen.lower.leaves import as_number
from tsgen.lower.mapshapes import Shapes, field_shape
from tsgen.lower.mma import fragment
from tsgen.lower.names import RESERVED
from tsgen.lower.program import Statement
from tsgen.model.algebra import prune
from tsgen.model.expr import Call, Compare, Index, Name, Ref, text
from tsgen.model.kernel import Field, Work

REDUCE = {"rowmax": "fmax", "rowsum": "add", "partial_rowsum": "add"}


@dataclass
class Function:
    """The function of a map, or of a store of registers. `before` has the lines that the next statement needs."""

    s: TaskState
    work: Work
    shapes: Shapes
    params: dict[str, str] = field(default_factory=dict)  # parameter -> what the call passes
    annotations: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)  # fragment -> by_row view
    before: list[tuple[Shape, str, str]] = field(default_factory=list)  # shape, line, name that it assigns
    hoisted: dict[str, str] = field(default_factory=dict)  # text of an element of a column -> temporary
    taken: dict[str, None] = field(default_factory=dict)
    tile: str | None = None  # a view that the statement at hand goes over
    width: int = 0  # its columns
    tensors: frozenset[str] = frozenset()  # those that it reads or writes by element

    def fresh(self, wish: str) -> str:
        """A name for something local to the function."""
        kernel = self.s.builder.kernel
        symbols = [n for n in kernel.symbols if n not in kernel.tensors or not kernel.tensors[n].shape]
        names = (*symbols, *self.tensors, *self.shapes.temporaries, *self.work.takes, *self.taken, *RESERVED)
        while wish in names:
            wish += "_"
        self.taken[wish] = None
        return wish

    def param(self, name: str, passed: str, annotation: str | None = None) -> str:
        self.params.setdefault(name, passed)
        if annotation:
            self.annotations[name] = annotation
        return name

    def fragment(self, f: Field) -> str:
        """A register field as a parameter of the function."""
        name = fragment(self.s, f)
        return self.param(name, name, "cute.Tensor")

    def view(self, f: Field) -> str:
        """The by_row view of a tile field."""
        name = self.fragment(f)
        if name not in self.views:
            self.views[name] = self.fresh(f.name)
        if self.tile is None:
            self.tile, self.width = self.views[name], f.shape[-1]
        elif self.width != f.shape[-1]:
            refuse(f"one statement over tiles of {self.width} and {f.shape[-1]} columns", self.work.span)
        return self.views[name]

    def thread_position(self, which: str) -> str:
        """This thread's first row or column of a tile."""
        passed = self.s.thread_position(which)
        return self.param(passed, passed)

    def printer(self) -> Printer:
        return Printer(self.s.scope, self.leaf, self.work.span, compare=self.compare)

    def head(self) -> list[str]:
        """The views of fragments."""
        return [f"{view} = by_row({name})" for name, view in self.views.items()]

    def signature(self) -> list[str]:
        """Its parameters, tensors first, as they are declared."""
        return [f"{p}: {self.annotations[p]}" if p in self.annotations else p for p in self.ordered()]

    def ordered(self) -> list[str]:
        """Parameters: tensors, values of the tile, the thread's place, constants."""
        places = (self.s.scope.names["thread"], *self.s.positions.values())

        def place(p: str) -> int:
            kind = self.annotations.get(p)
            return 0 if kind == "cute.Tensor" else 3 if kind == "cutlass.Constexpr" else 2 if p in places else 1

        return sorted(self.params, key=place)

    def leaf(self, e: Name | Ref | Call) -> Leaf:
        """What a name, a reference, rows(), cols() or a reduction is, with its text for element [r, c]."""
        kind = self.shapes.leaf(e)
        match e:
            case Call(function="rows"):
                return Leaf(f"({self.thread_position('row')} + row_of(r))", kind.shape, kind.number)
            case Call(function="cols"):
                return Leaf(f"({self.thread_position('col')} + col_of(c))", kind.shape, kind.number)
            case Call():
                return Leaf(self._reduction(e), kind.shape, kind.number)
            case Name():
                return Leaf(self._name(e), kind.shape, kind.number)
            case Ref(resource=None):
                return Leaf(self._tensor_element(e, kind.shape), kind.shape, kind.number)
            case Ref():
                return Leaf(self.field_element(e), kind.shape, kind.number)

    def compare(self, e: Compare) -> str | None:
        """A comparison solved for the column: the limit is computed once for each row."""
        solved = self.shapes.solve(e)
        if solved is None:
            return None
        limit = self.fresh("limit")
        column = self.thread_position("col")
        line = f"{limit} = {self.printer().print(solved.limit)} - {column}"
        self.before.append((self.shapes.shape(solved.limit), line, limit))
        return f"{limit} {solved.op} col_of(c)" if solved.flipped else f"col_of(c) {solved.op} {limit}"

    def _name(self, e: Name) -> str:
        if e.id in self.shapes.temporaries:
            return local(e.id)
        if e.id in self.s.builder.constants:
            return self.s.builder.constants[e.id]
        passed = self.s.scope.names[e.id]
        return self.param(passed, passed)

    def field_element(self, ref: Ref, *, assigned: bool = False) -> str:
        """Element [r, c] of a register field, as float32 unless it is assigned."""
        if self.s.builder.kind(ref) != "rmem" or ref.window is not None:
            refuse(f"`{text(ref)}` in a map", self.work.span, "a map works on whole register fields")
        f = self.s.builder.field(ref)
        shape = field_shape(self.s, f, self.work)
        index = "r" if shape == "row" else "0"
        element = f"{self.view(f)}[r, c]" if shape == "tile" else f"{self.fragment(f)}[{index}]"
        return element if assigned or self.s.builder.dtype_word(f.dtype) == "f32" else f"Float32({element})"

    def _tensor_element(self, ref: Ref, shape: Shape) -> str:
        b = self.s.builder
        tensor = b.kernel.tensors[ref.name]
        if ref.window is None or not all(isinstance(w, Index) for w in ref.window):
            example = "a map reads tensors by element, as in `bias[n*tile_n + cols(c)]`"
            refuse(f"`{text(ref)}` in a map", self.work.span, example)
        name = b.tensor(ref.name)
        self.param(name, name, "cute.Tensor")
        indices = []
        for w, extent in zip(ref.window, tensor.shape, strict=True):
            assert isinstance(w, Index)
            index = self.printer().print(prune(w.at, self.s.scope.env))
            limit = self.printer().print(extent, 8)
            indices.append(f"cutlass.min({index}, {limit} - 1)")  # elements past the edge are clamped to it
        element = as_number(f"{name}[{', '.join(indices)}]", b.dtype_word(tensor.dtype)).text
        if shape == "col":
            if element not in self.hoisted:
                self.hoisted[element] = self.fresh(f"{ref.name}_c")
                self.before.append(("col", f"{self.hoisted[element]} = {element}", self.hoisted[element]))
            return self.hoisted[element]
        return element

    def _reduction(self, e: Call) -> str:
        argument = prune(e.args[0], self.s.scope.env)
        op = REDUCE.get(e.function)
        if op is None:
            refuse(f"`{e.function}` over a WGMMA fragment", self.work.span)
        self.s.builder.functions["fragments"] = Statement("functions/fragments", {"reductions": True})
        if self.shapes.shape(argument) == "row":  # the shares of a row, one in each lane of the quad
            return f"quad({op}, {self.printer().float(argument)})"
        if not isinstance(argument, Ref):
            refuse(f"`{e.function}` of an expression", self.work.span, "assign the expression to a field first")
        folded = f"fold({op}, {self.view(self.s.builder.field(argument))}, r)"
        return folded if e.function == "partial_rowsum" else f"quad({op}, {folded})"


def local(name: str) -> str:
    """A temporary of the spec as a name of the function."""
    return f"{name}_" if name in RESERVED else name
