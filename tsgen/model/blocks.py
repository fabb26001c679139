"""The registry of block steps with options (docs/language.md section 7); `for` and `if` are compile-time, and apart."""

from __future__ import annotations

from typing import Literal

from tsgen.frozen import frozen


@frozen
class Option:
    name: str
    kind: Literal["int", "expr", "cond", "name", "text"]
    doc: str
    required: bool = False


@frozen
class BlockKind:
    name: str
    doc: str
    options: tuple[Option, ...] = ()


_CONDITIONAL = (
    Option("cond", "cond", "A token or an expression.", True),
    Option("key", "text", "Same key, same outcome in all tasks; derived from the condition."),
)

BLOCKS: dict[str, BlockKind] = {
    b.name: b
    for b in (
        BlockKind(
            "domain_loop",
            "Runs for each value of the variable; at most one in a schedule.",
            (
                Option("var", "name", "The loop variable.", True),
                Option("start", "expr", "First value (default 0)."),
                Option("end", "expr", "End, exclusive.", True),
                Option("step", "expr", "Increment (default 1)."),
                Option("unroll", "int", "Unroll factor, a hint."),
            ),
        ),
        BlockKind(
            "work_tile_loop",
            "Runs for each tile that the queue hands out.",
            (
                Option("queue", "name", "A resource of kind `work_queue`.", True),
                Option("skip_if", "cond", "Tiles for which it holds leave out `skippable` blocks."),
                Option("first", "expr", "First tile of this task (default 0)."),
                Option("stride", "expr", "Takes every so many-th tile (default 1)."),
            ),
        ),
        BlockKind("skippable", "Runs unless `skip_if` of the tile loop holds."),
        BlockKind("first_iter", "Runs in the first iteration of the domain loop."),
        BlockKind("last_iter", "Runs in the last iteration of the domain loop."),
        BlockKind(
            "every",
            "Runs in iterations start, start + period, ...",
            (
                Option("period", "int", "Iterations from one run to the next.", True),
                Option("start", "int", "First iteration (default 0)."),
            ),
        ),
        BlockKind("when_true", "Runs if the condition holds.", _CONDITIONAL),
        BlockKind("when_false", "Runs if the condition does not hold.", _CONDITIONAL),
    )
}
