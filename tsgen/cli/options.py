"""Options that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tsgen.frozen import frozen

F = TypeVar("F", bound=Callable[..., Any])


@frozen
class Selection:
    """Which kernels of a spec a command is about.

    No variants: all of them; no target: all that the spec names. A `single` selection is one variant, the default if
    none is named, for one target, the first if none is named.
    """

    sets: dict[str, str]
    variants: tuple[str, ...] = ()
    target: str | None = None
    single: bool = False


def one(sets: dict[str, str], variant: str | None, target: str | None) -> Selection:
    """The selection of commands that are about one kernel."""
    return Selection(sets, () if variant is None else (variant,), target, single=True)


def given(parameter: str) -> bool:
    """Whether a parameter of the command at hand was written down, be it as it is anyway."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is not None and source is not click.core.ParameterSource.DEFAULT


def _assignments(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in value:
        name, equals, written = text.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{text!r} is not of the form NAME=VALUE", ctx, param)
        found[name.strip()] = written.strip()
    return found


def set_option(function: F) -> F:
    """`--set NAME=VALUE`, repeatable."""
    return click.option(
        "--set", "sets", metavar="K=V", multiple=True, callback=_assignments, help="Give a param another value."
    )(function)


def variants_option(function: F) -> F:
    """`--variant NAME`, repeatable; all variants without it."""
    return click.option(
        "--variant", "variants", metavar="NAME", multiple=True, help="Only this variant; may be repeated."
    )(function)


def variant_option(function: F) -> F:
    """`--variant NAME` of commands that are about one kernel."""
    return click.option("--variant", metavar="NAME", help="A variant of the spec instead of its default.")(function)


def target_option(function: F) -> F:
    """`--target SM`."""
    return click.option("--target", metavar="SM", help="One of the spec's targets, such as sm_90a.")(function)


# Reading it tells whether a spec can be read: a finding with its own code, in every format, and the next file goes on.
SPEC_PATH = click.Path(readable=False)


def spec_argument(function: F) -> F:
    """One SPEC."""
    return click.argument("spec", metavar="SPEC", type=SPEC_PATH)(function)


def _spec_files(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Folders replaced by the specs in them; a folder without any stays, to be reported as an unreadable spec."""
    return tuple(dict.fromkeys(file for path in value for file in _specs_in(path) or [path]))


def _specs_in(path: str) -> list[str]:
    from tsgen.spec.load import SUFFIXES

    try:
        names = sorted(os.listdir(path))
    except (OSError, ValueError):  # no folder, or one that cannot be read
        return []
    files = [os.path.join(path, n) for n in names if n.endswith(SUFFIXES) and not n.startswith(".")]
    return [f for f in files if os.path.isfile(f)]


def specs_argument(function: F) -> F:
    """SPEC…, files or folders of them."""
    return click.argument("specs", metavar="SPEC...", nargs=-1, required=True, type=SPEC_PATH, callback=_spec_files)(
        function
    )


def shapes_option(function: F) -> F:
    """`--shape M=…,N=…`, repeatable; the shapes of `reference` without it."""
    return click.option(
        "--shape", "shapes", metavar="DIM=SIZE,...", multiple=True, help="The dims of one run; may be repeated."
    )(function)


def seed_option(function: F) -> F:
    """`--seed N` of the random inputs."""
    return click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True)(function)


def _not_empty(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    if path is not None and not path.name:
        raise click.BadParameter(f"{str(path)!r} is no file", context, option)
    return path


def aot_option(function: F) -> F:
    """`--aot FILE`: a library that was built before."""
    return click.option(
        "--aot",
        metavar="FILE",
        type=click.Path(path_type=Path),
        callback=_not_empty,
        help="An AOT library (.so) to use instead of building.",
    )(function)
