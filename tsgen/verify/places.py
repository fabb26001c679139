"""What is noted while an agent's code is written: where it is, what is still open, where conditions stand."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from tsgen.derive.unfold import Node
from tsgen.model.expr import Expr, Scalar, names
from tsgen.model.steps import DomainLoop, TileLoop
from tsgen.verify.machine import Agent
from tsgen.verify.symbols import Env
from tsgen.verify.values import Outcome


@dataclass
class Context:
    """Where in a schedule code is being written."""

    loop: DomainLoop | None = None
    tiles: TileLoop | None = None
    tile_offset: int = 0  # what a `skip` here passes over: this tile's, or a neighbour's


@dataclass
class Pending:
    """An operand that needs the symbols to be settled."""

    agent: Agent
    pc: int
    at: int
    bound: Expr
    env: Env
    words: Expr  # what the spec wrote
    step: Expr | None = None  # of a loop


class Place(NamedTuple):
    """Where a condition stands. Conditions of one identity have one outcome, if it cannot be computed."""

    condition: int
    identity: Hashable
    outcome: Outcome
    negated: bool  # it is the contrary of what its identity says
    env: Env
    loop: tuple[int, int]
    said: Hashable  # what it says, or the contrary


def said_there(place: Place) -> tuple[Expr, tuple[tuple[str, Scalar], ...]]:
    """What a condition says, with the compile-time values that it needs."""
    e = place.outcome.expr
    return e, tuple((n, place.env[n]) for n in sorted(names(e)) if n in place.env)


def of_warp(nodes: tuple[Node, ...], warp: int) -> tuple[Node, ...]:
    """A schedule as one warp of its task runs it."""
    return tuple(n._replace(env={**n.env, "warp": warp}, body=of_warp(n.body, warp)) for n in nodes)
