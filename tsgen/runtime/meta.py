"""Reading a generated module's META without importing it (importing needs the DSL)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tsgen.model.expr import Scalar
from tsgen.runtime.errors import CannotRun


@dataclass(frozen=True, slots=True)
class Meta:
    """What a generated module says about itself."""

    kernel: str  # or chain; also the name of its host function and of the function in AOT objects
    target: str
    variant: str | None
    params: Mapping[str, Mapping[str, Scalar]]  # by kernel: one, or those of a chain in order
    tsgen: str
    spec_sha256: str


def read_meta(module: Path) -> Meta:
    """META of a generated module. Raises CannotRun if the file is none."""
    try:
        tree = ast.parse(module.read_text(encoding="utf-8"))
    except OSError as e:
        raise CannotRun(f"{module}: {e.strerror or e}") from None
    except (SyntaxError, ValueError) as e:
        raise CannotRun(f"{module}: not a Python module: {e}") from None
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="META")], value=value):
                return _meta(module, value)
            case ast.AnnAssign(target=ast.Name(id="META"), value=ast.expr() as value):
                return _meta(module, value)
    raise CannotRun(f"{module}: no META: this is no module written by tsgen")


def _meta(module: Path, value: ast.expr) -> Meta:
    try:
        raw = ast.literal_eval(value)
        variant = raw.get("variant")
        return Meta(
            str(raw["kernel"]),
            str(raw["target"]),
            None if variant is None else str(variant),
            {k: dict(v) for k, v in raw.get("kernels", {raw["kernel"]: raw.get("params", {})}).items()},
            str(raw["tsgen"]),
            str(raw["spec_sha256"]),
        )
    except (ValueError, AttributeError, KeyError, TypeError) as e:
        raise CannotRun(f"{module}: META cannot be read: {e}") from None
