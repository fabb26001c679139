"""`@frozen` classes behave as frozen dataclasses do."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, asdict, field, is_dataclass, replace

import pytest

from tsgen.frozen import frozen, ordered


@frozen
class Point:
    x: int
    y: int = 0
    tags: dict[str, int] = field(default_factory=dict)


@frozen
class Other:
    x: int
    y: int = 0


@ordered
class Version:
    """Has a text of its own."""

    major: int
    minor: int


@frozen
class Empty:
    pass


def test_fields_defaults_and_factories() -> None:
    p = Point(1)
    assert (p.x, p.y, p.tags) == (1, 0, {}) and p.tags is not Point(1).tags
    assert repr(Point(1, y=2)) == "Point(x=1, y=2, tags={})"
    assert is_dataclass(p) and asdict(p) == {"x": 1, "y": 0, "tags": {}}
    assert replace(p, y=3) == Point(1, 3)


def test_instances_do_not_change_and_have_no_dict() -> None:
    p = Other(1)
    with pytest.raises(FrozenInstanceError):
        p.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del p.x
    assert not hasattr(p, "__dict__")


def test_equality_is_by_class_and_fields() -> None:
    assert Other(1, 2) == Other(1, 2) and hash(Other(1, 2)) == hash(Other(1, 2))
    assert Other(1, 2) != Other(2, 1) and Other(1) != (1, 0)
    assert Empty() == Empty() and len({Empty(), Empty()}) == 1


def test_order_is_by_fields_where_asked_for() -> None:
    assert sorted([Version(2, 0), Version(1, 9)]) == [Version(1, 9), Version(2, 0)]
    assert Version.__doc__ == "Has a text of its own."
    with pytest.raises(TypeError):
        assert Other(1) < Other(2)  # type: ignore[operator]


def test_patterns_match_by_position() -> None:
    match Other(1, 2):
        case Other(x, 2):
            assert x == 1
        case _:
            pytest.fail("no match")


def test_missing_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="'x'"):
        Other()  # type: ignore[call-arg]
