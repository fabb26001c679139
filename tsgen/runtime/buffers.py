"""The tensors of one run: random inputs, outputs poisoned and fenced by guard zones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tsgen.model.algebra import NotConstant, NoValue, evaluate
from tsgen.model.dtypes import DTYPES
from tsgen.runtime.arrays import Array, Arrays, TorchArrays
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.functions import Value
from tsgen.runtime.problem import Problem, TensorShape
from tsgen.runtime.reference import Evaluator

GUARD = 16384  # bytes before and behind each output
NAN_BYTE, INT_BYTE = 0xFF, 0xA5  # all bits set is a NaN in every float format; no integer result is likely 0xA5A5…

Argument = Array | int | float | None


@dataclass(frozen=True, slots=True)
class Fenced:
    """An output inside a larger buffer of bytes that holds the poison everywhere else."""

    shape: TensorShape
    raw: Array  # uint8
    tensor: Array
    poison: int

    def intact(self, xp: TorchArrays) -> bool:
        """Whether nothing was written outside the output."""
        zones = self.raw[:GUARD], self.raw[GUARD + self.shape.nbytes :]
        return all(bool(xp.smallest(xp.equal(z, self.poison)).item()) for z in zones)


@dataclass(frozen=True, slots=True)
class Buffers:
    """`arguments` in the spec's order, None for absent tensors; `copies` of the inputs, to see that they stay."""

    arguments: Mapping[str, Argument]
    outputs: Mapping[str, Fenced]
    copies: Mapping[str, Array]

    @property
    def inputs(self) -> dict[str, Value]:
        """What the caller gives."""
        return {n: v for n, v in self.arguments.items() if n not in self.outputs}

    def overwritten(self, xp: TorchArrays) -> list[str]:
        """The inputs that a kernel changed."""
        return [n for n, kept in self.copies.items() if not xp.same(kept, self._array(n))]

    def _array(self, name: str) -> Array:
        v = self.arguments[name]
        assert v is not None and not isinstance(v, int | float)
        return v


def make_buffers(problem: Problem, xp: TorchArrays, seed: int) -> Buffers:
    """Inputs by `reference.inputs` or random normal, scalars by their defaults, poisoned outputs. Raises CannotRun."""
    arguments: dict[str, Argument] = {}
    outputs, copies = {}, {}
    random = Random(seed)
    for name, tensor in problem.kernel.tensors.items():
        if not tensor.present:
            arguments[name] = None
            continue
        shape = problem.tensors[name]
        if tensor.output:
            outputs[name] = fenced(shape, xp)
            arguments[name] = outputs[name].tensor
            continue
        value = arguments[name] = make_input(problem, shape, arguments, xp, random)
        if xp.is_array(value):
            copies[name] = xp.clone(value)
    return Buffers(arguments, outputs, copies)


def fenced(t: TensorShape, xp: TorchArrays) -> Fenced:
    """A poisoned output with its guard zones."""
    poison = NAN_BYTE if DTYPES[t.dtype].kind == "float" else INT_BYTE
    raw = xp.full_bytes(2 * GUARD + t.nbytes, poison)
    return Fenced(t, raw, xp.view_bytes(raw, GUARD, t.nbytes, t.dtype, t.shape, t.strides), poison)


def make_input(p: Problem, t: TensorShape, known: Mapping[str, Value], xp: Arrays, random: Random) -> Argument:
    """One argument that a caller gives. Raises CannotRun where nothing says what it is."""
    reference, tensor = p.kernel.reference, t.tensor
    if reference is not None and tensor.name in reference.inputs:
        names: dict[str, Value] = {**p.env, **known}
        value = Evaluator(xp, names, random).evaluate(reference.inputs[tensor.name].expr)
        return _fit(t, value, xp)
    if not t.shape and tensor.default is not None:
        try:
            default = evaluate(tensor.default.expr, p.env)
        except (NotConstant, NoValue) as e:
            raise CannotRun(f"the default of {tensor.name} has no value: {e}") from None
        assert not isinstance(default, str)
        return default
    if DTYPES[t.dtype].kind != "float":
        raise CannotRun(
            f"{tensor.name} is {t.dtype}: there is nothing to fill it with",
            f"say so in the spec: `reference: {{inputs: {{{tensor.name}: randint(0, 4, …)}}}}`",
        )
    drawn = xp.normal(t.shape, t.dtype)
    return float(drawn.item()) if not t.shape else xp.laid_out(drawn, t.strides)


def _fit(t: TensorShape, value: Value, xp: Arrays) -> Argument:
    if value is None or isinstance(value, str):
        raise CannotRun(f"`inputs` gives {value!r} for {t.tensor.name}, a tensor is wanted")
    if not t.shape:
        return value.item() if xp.is_array(value) else value
    array = xp.cast(xp.array(value), t.dtype)
    if tuple(array.shape) != t.shape:
        raise CannotRun(f"`inputs` gives {t.tensor.name} the shape {list(array.shape)}, it must be {list(t.shape)}")
    return xp.laid_out(array, t.strides)
