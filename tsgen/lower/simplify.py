"""A kernel without what says nothing in this variant: branches not taken, and `let` values that are another name.

`k0: cu_k[b] if varlen else 0` is 0 without varlen: no variable is made for it, and `k0 + j*tile_n` becomes
`j*tile_n`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from tsgen.derive.pdl import behind_wait
from tsgen.diagnostics import Span
from tsgen.model.algebra import Env, evaluate, is_constant, prune, rebuild, substitute
from tsgen.model.expr import Binary, BoolOp, Call, Compare, Const, Expr, IfElse, Name, Ref, Unary, walk
from tsgen.model.kernel import Kernel, Let

_EXPRESSIONS = (Const, Name, Unary, Binary, Compare, BoolOp, IfElse, Call, Ref)
_KEPT = ("params", "variants", "symbols", "spans", "reference", "memory")  # they use no `let` values

T = TypeVar("T")


def simplified(kernel: Kernel) -> Kernel:
    """The kernel with its expressions simplified and its trivial `let` values put in where they are used.

    So are those that are made from a tensor behind the PDL wait: where they are computed otherwise, before the first
    step, the kernel that writes it may still run.
    """
    env = kernel.env
    values: dict[str, Expr] = {}
    lets: list[Let] = []
    late = behind_wait(kernel)
    for let in kernel.launch.lets:
        value = simple(let.value, values, env)
        if isinstance(value, Const | Name) or any(isinstance(x, Ref) and x.name in late for x in walk(value)):
            values[let.name] = value
        else:
            lets.append(replace(let, value=value))
    done = replace(kernel, launch=replace(kernel.launch, lets=tuple(lets)))
    changes = {f.name: _map(getattr(done, f.name), values, env) for f in fields(done) if f.name not in _KEPT}
    return replace(done, **changes)


def simple(e: Expr, values: Mapping[str, Expr], env: Env) -> Expr:
    """The expression with names replaced, branches taken, 0 left out of sums and what is known out of conditions."""
    return _reduced(prune(substitute(prune(e, env), values), env), env)


def _reduced(e: Expr, env: Env) -> Expr:
    e = rebuild(e, lambda c: _reduced(c, env))
    if isinstance(e, BoolOp) and any(is_constant(v, env) for v in e.values):
        return _conclusion(e, env)
    if isinstance(e, Binary) and e.op in ("+", "-"):
        if _zero(e.right):
            return e.left
        if _zero(e.left):
            return e.right if e.op == "+" else Unary("-", e.right)
    return e


def _conclusion(e: BoolOp, env: Env) -> Expr:
    """`and` and `or` without operands that are known."""
    unknown = []
    for v in e.values:
        if not is_constant(v, env):
            unknown.append(v)
        elif bool(evaluate(v, env)) == (e.op == "or"):
            return Const(e.op == "or")
    return unknown[0] if len(unknown) == 1 else BoolOp(e.op, tuple(unknown)) if unknown else Const(e.op == "and")


def _zero(e: Expr) -> bool:
    return isinstance(e, Const) and type(e.value) is int and e.value == 0


def _map(x: T, values: Mapping[str, Expr], env: Env) -> T:
    """The same structure with its expressions simplified; what does not change stays the same object."""
    if isinstance(x, _EXPRESSIONS):
        done = simple(x, values, env)
        return x if done == x else cast(T, done)
    if isinstance(x, tuple):
        items = tuple(_map(i, values, env) for i in x)
        return x if all(a is b for a, b in zip(x, items, strict=True)) else cast(T, items)
    if isinstance(x, Mapping):
        entries = {k: _map(v, values, env) for k, v in x.items()}
        return x if all(entries[k] is v for k, v in x.items()) else cast(T, entries)
    if is_dataclass(x) and not isinstance(x, Span | type):
        changes = {f.name: _map(getattr(x, f.name), values, env) for f in fields(x)}
        changed: Any = {k: v for k, v in changes.items() if v is not getattr(x, k)}
        return replace(x, **changed) if changed else x
    return x
