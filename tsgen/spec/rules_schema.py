"""Rules about keys and the kinds of their values (codes TS120 to TS129)."""

from __future__ import annotations

from tsgen.diagnostics import Finding, Span, error
from tsgen.spec.rules_names import listed


@error("TS120", "unknown-key")
def unknown_key(key: str, what: str, near: str | None, known: tuple[str, ...], span: Span) -> Finding:
    """A mapping has a key that the language does not know at this place.

    Misspelt keys would otherwise be ignored silently. `tsgen schema` prints all keys, for editors too.
    """
    if near:
        help: str | None = f"did you mean `{near}`?"
    else:
        help = f"known keys: {', '.join(known)}" if known else None
    return Finding(f"unknown key `{key}` in {what}", span, help=help)


@error("TS121", "missing-key")
def missing_key(key: str, what: str, doc: str | None, span: Span) -> Finding:
    """A required key is missing.

    The message names the key; its meaning is below.
    """
    return Finding(f"{what} needs the key `{key}`", span, help=f"`{key}`: {doc}" if doc else None)


@error("TS122", "wrong-type")
def wrong_type(key: str | None, expected: str, found: str, span: Span, help: str | None = None) -> Finding:
    """A value is of another kind than its key wants.

    A list where a mapping belongs, a number where a name belongs, and so on.
    """
    subject = f"`{key}` is {found}" if key is not None else f"this is {found}"
    return Finding(f"{subject}, expected {expected}", span, help=help)


@error("TS123", "unknown-word")
def unknown_word(key: str | None, word: str, known: tuple[str, ...], near: str | None, span: Span) -> Finding:
    """A word is not one of those that its key takes.

    Words come from fixed sets: kinds of resources, pipeline types, ops, targets.
    """
    subject = f"`{key}` is `{word}`" if key is not None else f"this is `{word}`"
    return Finding(f"{subject}, expected {listed(known)}", span, help=f"did you mean `{near}`?" if near else None)


@error("TS124", "language-version")
def language_version(found: str, span: Span) -> Finding:
    """The spec is written in another version of the language.

    This version of tsgen reads `tsgen: 1`.
    """
    return Finding(f"`tsgen` is {found}, this program reads version 1", span, help="write `tsgen: 1`")


@error("TS125", "bad-name")
def bad_name(name: str, span: Span) -> Finding:
    """A name is not an identifier.

    Names are letters, digits and `_`, and do not start with a digit. They become names in the generated code, so
    Python's keywords (`in`, `from`, `is`, ...) cannot be used either.
    """
    if name.isidentifier() and name.isascii():
        return Finding(f"`{name}` is a word of the expression language and cannot be a name", span)
    return Finding(f"`{name}` is not a name", span, help="use letters, digits and _, and no digit first")


@error("TS126", "count")
def wrong_count(what: str, expected: str, found: int, span: Span) -> Finding:
    """A list or mapping has too few or too many entries.

    `each` and `for` have one variable; `steps`-like lists of copies and members have at least one entry.
    """
    return Finding(f"{what} has {found} entries, expected {expected}", span)


@error("TS127", "block-first")
def block_first(block: str, first: str, span: Span) -> Finding:
    """A block step does not begin with its name.

    The block's name is the first key, its options are that key's value, and the body stands under `steps`.
    """
    return Finding(f"a `{block}` block begins with `{block}`, not with `{first}`", span)


@error("TS128", "several-ways")
def several_ways(first: str, second: str, span: Span) -> Finding:
    """A work says what it does in two ways.

    A work is a built-in `op`, a `body` or a `call`, or only a role; not two of them.
    """
    return Finding(f"a work has `{first}` or `{second}`, not both", span, help="remove one")


@error("TS129", "below-minimum")
def below_minimum(key: str | None, value: object, least: int, span: Span) -> Finding:
    """A number is below the least that its key takes.

    Tolerances are not negative.
    """
    return Finding(f"`{key}` is {value}, expected at least {least}", span)
