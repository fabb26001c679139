"""Rules about expressions, references and call steps as text (codes TS110 to TS119)."""

from __future__ import annotations

from tsgen.diagnostics import Finding, Span, error


@error("TS110", "expression-syntax")
def expression_syntax(text: str, reason: str, span: Span) -> Finding:
    """An expression, reference or step cannot be parsed.

    Expressions are written in Python syntax: arithmetic, comparison, `and`, `or`, `not`, `x if c else y`, names,
    numbers, calls of the listed functions, windows in brackets. A text with brackets or commas inside `{}` or `[]` of
    YAML must be quoted, otherwise YAML cuts it before it gets here.
    """
    return Finding(f"cannot parse {_quote(text)}: {reason}", span, help="docs/language.md, section 2, has the grammar")


@error("TS111", "expression-node")
def expression_node(text: str, what: str, span: Span, help: str | None = None) -> Finding:
    """An expression uses Python syntax that the language does not have.

    Nothing in a spec is evaluated as Python. Lambdas, comprehensions, strings with operators, attribute access,
    starred or nested calls and the like are refused, so that every expression can be folded, compared and printed.
    """
    return Finding(f"{what} not allowed in {_quote(text)}", span, help=help)


@error("TS112", "unknown-function")
def unknown_function(name: str, near: str | None, span: Span) -> Finding:
    """An expression calls a function that the language does not have.

    The functions are listed in docs/language.md, section 2; those for `map`, `value` and `where` only are known there
    only, those of `reference` only in `reference`.
    """
    return Finding(f"unknown function `{name}`", span, help=f"did you mean `{near}`?" if near else None)


@error("TS113", "expression-value")
def expression_value(text: str, reason: str, span: Span) -> Finding:
    """A compile-time expression has no value: a division by zero, a number out of range, words where numbers belong.

    Compile-time expressions use params, `each` and `for` indices. Integer division and remainder round down, as in
    Python; results must stay within 64 bits.
    """
    return Finding(f"{_quote(text)} has no value: {reason}", span)


@error("TS114", "not-compile-time")
def not_compile_time(text: str, name: str, span: Span) -> Finding:
    """A value that the compiler must know depends on something known only later.

    Stage counts, shapes, warp ranges and other structure come from params; dims are known at launch, tile coordinates
    and `let` values that use them for each tile, loop variables and tokens at each step.
    """
    return Finding(
        f"{_quote(text)} must be known at compile time, but `{name}` is not",
        span,
        help="use params, `each` or `for` indices here",
    )


def _quote(text: str) -> str:
    short = text if len(text) <= 80 else text[:77] + "..."
    return f"`{short}`"
