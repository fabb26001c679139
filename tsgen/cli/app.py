"""The `tsgen` command. Its verbs are imported when they are used, so that `check` starts fast."""

from __future__ import annotations

from importlib import import_module

import click

from tsgen import __version__

VERBS = ("build", "check", "show", "diff", "explain", "rules", "schema", "new", "run", "bench", "simulate")


class LazyGroup(click.Group):
    """A group whose verb `x` is the object `command` of the module tsgen.cli.x."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = import_module(f"tsgen.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, 1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="tsgen %(version)s")
def tsgen() -> None:
    """Warp-specialised GPU kernels as data: checked, proven, and emitted as readable CuTe Python.

    Exit status: 0 clean, 1 findings (or drift, or a failed comparison), 2 usage or unreadable input.
    """
