"""`@frozen`: a frozen, slotted dataclass that costs a third of one to define.

`dataclass(frozen=True, slots=True)` compiles six methods for each class, which would be most of what `tsgen check`
spends before it reads its file. Here all classes share their methods but `__init__`. Type checkers, `match`,
`replace`, `fields` and `asdict` see a frozen dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")

__all__ = ["field", "frozen", "ordered"]


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """Makes a class a frozen dataclass with slots. Instances are equal if their classes and fields are."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # else dataclass asks inspect.signature for one
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    names = [f.name for f in fields(made)]  # type: ignore[arg-type]
    key: Callable[[object], Any] = attrgetter(*names) if names else _no_fields

    def equal(self: object, other: object) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(key(self))

    _give(made, __init__=_init(made), __eq__=equal, __hash__=hashed, __repr__=_repr)
    _give(made, __setattr__=_refuse, __delattr__=_refuse)
    return made


@dataclass_transform(frozen_default=True, order_default=True, field_specifiers=(field,))
def ordered(cls: type[T]) -> type[T]:
    """`frozen`, with instances of the class ordered by their fields."""
    made = frozen(cls)
    key = attrgetter(*(f.name for f in fields(made)))  # type: ignore[arg-type]

    def less(self: object, other: object) -> bool:
        return bool(key(self) < key(other)) if other.__class__ is self.__class__ else NotImplemented

    _give(made, __lt__=less)
    return made


def _init(made: type[T]) -> Callable[..., None]:
    """The one method that is compiled: sets the fields past the class's own `__setattr__`."""
    scope: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    own: tuple[Field[Any], ...] = fields(made)  # type: ignore[arg-type]
    parameters, body = ["self"], ["pass"] if not own else []
    for f in own:
        value = f.name
        if f.default is not MISSING:
            scope[f"_default_{f.name}"] = f.default
            parameters.append(f"{f.name}=_default_{f.name}")
        elif f.default_factory is not MISSING:
            scope[f"_factory_{f.name}"] = f.default_factory
            parameters.append(f"{f.name}=_missing")
            value = f"_factory_{f.name}() if {f.name} is _missing else {f.name}"
        else:
            parameters.append(f.name)
        body.append(f"_set(self, {f.name!r}, {value})")
    exec(f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body), scope)
    made_init: Callable[..., None] = scope["__init__"]
    return made_init


def _give(made: type[object], **methods: object) -> None:
    for name, method in methods.items():
        setattr(made, name, method)


def _no_fields(instance: object) -> tuple[()]:
    return ()


def _repr(self: object) -> str:
    values = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))  # type: ignore[arg-type]
    return f"{type(self).__qualname__}({values})"


def _refuse(self: object, name: str, value: object = None) -> NoReturn:
    raise FrozenInstanceError(f"cannot change field {name!r} of {type(self).__qualname__}")
