"""Machines that are the same: variants and targets of a spec often differ in what no run of the machine looks at, such
as a dtype or an activation. What was proven of one holds for all of them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields

from tsgen.model.kernel import Task
from tsgen.verify.explore import Verdict
from tsgen.verify.machine import Agent, System
from tsgen.verify.symbols import Symbols, Unknown

Seen = dict[Hashable, Verdict]  # by fingerprint and agents: verdicts that found nothing

# names and places for messages, and what is only remembered; everything else decides
_WORDS = frozenset({"kernel", "steps", "fields", "full", "_box_index", "_relations"})


def fingerprint(system: System) -> Hashable:
    """Equal for machines of which every run is the same."""
    return tuple(_frozen(getattr(system, f.name)) for f in fields(System) if f.name not in _WORDS)


def _frozen(value: object) -> Hashable:
    match value:
        case list():
            return tuple(value) if not value or isinstance(value[0], int | tuple) else tuple(map(_frozen, value))
        case dict():
            return tuple((k, _frozen(v)) for k, v in value.items())
        case set():
            return frozenset(value)
        case Task():
            return value.name
        case Agent() | Unknown():
            return tuple(_frozen(getattr(value, f.name)) for f in fields(value))
        case Symbols():
            return _frozen(value.unknowns)
    assert isinstance(value, Hashable)
    return value
