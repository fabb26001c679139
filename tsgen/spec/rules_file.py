"""Rules about files and their YAML or TOML (codes TS100 to TS109 and TS150 to TS159)."""

from __future__ import annotations

from tsgen.diagnostics import Finding, Related, Span, error


@error("TS100", "file-missing")
def file_missing(path: str) -> Finding:
    """The spec file does not exist.

    Paths are taken relative to the directory in which `tsgen` runs.
    """
    return Finding(f"{path}: no such file", Span.start(), help="check the path; specs end in .yaml, .yml or .toml")


@error("TS101", "file-is-directory")
def file_is_directory(path: str) -> Finding:
    """A directory was given where a spec file is wanted, or one without specs.

    `check` and `build` take a directory for the specs in it (not in its subdirectories); the other verbs take a file.
    """
    return Finding(f"{path} is a directory", Span.start(), help=f"name the files: {path.rstrip('/')}/*.yaml")


@error("TS102", "file-unreadable")
def file_unreadable(path: str, reason: str) -> Finding:
    """The operating system refuses to read the spec file.

    Mostly its permissions, or a path component that is no directory.
    """
    return Finding(f"{path} cannot be read: {reason}", Span.start())


@error("TS103", "file-not-utf8")
def file_not_utf8(path: str, offset: int, span: Span) -> Finding:
    """The spec file is not UTF-8 text.

    Specs are text files in UTF-8, with or without a byte order mark. Save the file in that encoding.
    """
    return Finding(f"{path} is not UTF-8: byte {offset} does not belong to any character", span)


@error("TS104", "file-empty")
def file_empty(path: str) -> Finding:
    """The spec file holds nothing but blanks and comments.

    A spec starts with `tsgen: 1`; `tsgen new NAME --from SPEC` writes one to begin with.
    """
    return Finding(f"{path} is empty", Span.start(), help="a spec starts with `tsgen: 1` and `kernel: name`")


@error("TS105", "yaml-syntax")
def yaml_syntax(problem: str, context: str | None, span: Span, context_span: Span | None) -> Finding:
    """The file is not valid YAML.

    The message is the YAML reader's, the place where it gave up; the fault is often on the line before.
    """
    related = (Related(context, context_span),) if context and context_span else ()
    return Finding(f"not valid YAML: {problem}", span, related=related)


@error("TS106", "toml-syntax")
def toml_syntax(problem: str, span: Span) -> Finding:
    """The file is not valid TOML.

    The message is the TOML reader's. Inline tables stand on one line.
    """
    return Finding(f"not valid TOML: {problem}", span)


@error("TS107", "duplicate-key")
def duplicate_key(key: str, span: Span, first: Span) -> Finding:
    """A mapping has the same key twice.

    YAML readers keep one of the two silently, so one half of the spec would be lost; TOML readers stop there. Remove or
    rename one.
    """
    return Finding(
        f"key `{key}` is given twice", span, help="remove one of the two", related=(Related("first given here", first),)
    )


@error("TS108", "too-large")
def too_large(what: str, limit: int, span: Span) -> Finding:
    """The document is larger or deeper than any spec can sensibly be.

    Aliases (`*name`) copy what they name; a few nested ones can make billions of entries out of a short file.
    """
    aliases = "" if what == "bytes" else ", its aliases expanded"
    return Finding(f"the document has more than {limit} {what}{aliases}", span)


@error("TS109", "not-a-mapping")
def not_a_mapping(found: str, document: int, span: Span) -> Finding:
    """A document of the spec is not a mapping of keys to values.

    Each document describes one kernel with the keys `tsgen`, `kernel`, `target` and so on. An empty document is often
    a superfluous `---` line.
    """
    return Finding(f"document {document} is {found}, expected a mapping with the keys of a kernel", span)


@error("TS150", "yaml-quotes")
def yaml_quotes(problem: str, span: Span, help: str) -> Finding:
    """YAML cuts a text because a character in it means something to YAML.

    Within `{}` and `[]` of YAML the characters `[ ] { } ,` end a value, so `{from: x[i]}` must be `{from: "x[i]"}`
    and `{end: max(a, b)}` must be `{end: "max(a, b)"}`. `: ` within a value, and a leading `*`, `@`, `%` or backtick
    want quotes everywhere.
    """
    return Finding(problem, span, help=help)


@error("TS151", "yaml-alias")
def yaml_alias(name: str, recursive: bool, span: Span) -> Finding:
    """`*name` refers to an anchor that does not exist, or that holds the alias itself.

    In YAML a leading `*` means: repeat what `&name` marked. An expression that starts with `*` is no expression.
    """
    if recursive:
        return Finding(f"`*{name}` stands within the value that it repeats", span)
    return Finding(
        f"`*{name}` repeats the anchor `&{name}`, which is not defined before",
        span,
        help="quote a text that starts with *",
    )


@error("TS152", "yaml-boolean")
def yaml_boolean(word: str, expected: str, span: Span) -> Finding:
    """`on`, `off`, `yes`, `no`, `true` and `false` are booleans in YAML 1.1, not names or words.

    Quote the word to keep it a text, or choose another name.
    """
    return Finding(f"`{word}` is a boolean in YAML, expected {expected}", span, help=f'write "{word}" in quotes')


@error("TS153", "yaml-number-text")
def yaml_number_text(source: str, better: str, span: Span) -> Finding:
    """A number in a form that YAML 1.1 reads as text, such as `1e-3`.

    YAML 1.1 wants a point and a signed exponent: `1.0e-3`.
    """
    return Finding(f"`{source}` is text in YAML, expected a number", span, help=f"write {better}")


@error("TS154", "number-range")
def number_range(source: str, span: Span) -> Finding:
    """A number is not finite, or an integer does not fit into 64 bits.

    Minus infinity in a `map` is written as the expression `-inf`, not as YAML's `-.inf` or TOML's `-inf`.
    """
    return Finding(
        f"the number `{source[:40]}` is out of range",
        span,
        help='finite 64-bit numbers, or the expressions "inf", "-inf"',
    )


@error("TS155", "key-not-text")
def key_not_text(found: str, span: Span) -> Finding:
    """A key of a mapping is not a text.

    Keys are names: quote one that looks like a number, and use no list or mapping as a key.
    """
    return Finding(f"a key is {found}, expected a name", span)


@error("TS156", "yaml-tag")
def yaml_tag(tag: str, span: Span) -> Finding:
    """A YAML tag (`!name`) is used.

    A spec is plain data; tags would make readers construct other things. Remove it.
    """
    return Finding(f"the tag `{tag}` has no meaning in a spec", span, help="remove it")


@error("TS157", "file-type")
def file_type(path: str) -> Finding:
    """The file's ending says neither YAML nor TOML.

    Specs end in `.yaml`, `.yml` or `.toml`; the ending decides how the file is read.
    """
    return Finding(f"{path} is neither .yaml, .yml nor .toml", Span.start(), help="rename the file")


@error("TS158", "number-form")
def number_form(source: str, value: str, span: Span) -> Finding:
    """A number in a form that readers of YAML understand differently.

    YAML 1.1 reads `012` as octal, `1:30` in base 60 and `1_000` as 1000; YAML 1.2 does not. Write decimal digits.
    """
    return Finding(
        f"`{source}` is the number {value} to some readers of YAML and text to others",
        span,
        help="use decimal digits, or quotes",
    )


@error("TS159", "toml-date")
def value_kind(found: str, span: Span) -> Finding:
    """A TOML date or time stands in the spec.

    No key of a spec takes one. Quote it if it is meant as text.
    """
    return Finding(f"{found} has no meaning in a spec", span, help="quote it if it is meant as text")
