"""Rules about params, names, references and times (codes TS130 to TS149)."""

from __future__ import annotations

from collections.abc import Iterable

from tsgen.diagnostics import Finding, Related, Span, error
from tsgen.model.expr import Scalar


def _near(near: str | None) -> str | None:
    return f"did you mean `{near}`?" if near else None


def listed(words: Iterable[object]) -> str:
    """`a`, `b` or `c`."""
    parts = [f"`{str(w).lower() if isinstance(w, bool) else w}`" for w in words]
    if len(parts) <= 1:
        return "".join(parts) or "nothing"
    return ", ".join(parts[:-1]) + " or " + parts[-1]


@error("TS130", "unknown-name")
def unknown_name(name: str, near: str | None, span: Span, hint: str | None = None) -> Finding:
    """An expression uses a name that nothing defines.

    Known are params, dims (names in tensors' shapes), tile axes, `let` values, and where they are in scope `takes`,
    `static`, `each` and `for` variables, loop variables and tokens.
    """
    return Finding(f"unknown name `{name}`", span, help=hint or _near(near))


@error("TS131", "name-clash")
def name_clash(name: str, kind: str, other: str, span: Span, first: Span) -> Finding:
    """Two things of the kernel have the same name.

    Params, dims, axes, `let` values, tensors, resources and groups share one namespace, so that a name means one thing
    wherever it stands. Rename one of the two.
    """
    return Finding(
        f"the {kind} `{name}` has the name of a {other}", span, related=(Related(f"the {other} `{name}`", first),)
    )


@error("TS132", "hidden-name")
def hidden_name(name: str, what: str, other: str, span: Span, first: Span) -> Finding:
    """A loop variable, token, argument or field hides a name of the kernel.

    Such a name could be meant either way by whoever reads the spec. Only a field may have the name of a tensor or a
    resource, because it is reached through its owner.
    """
    return Finding(
        f"`{name}` as {what} hides the {other} of that name",
        span,
        help="choose another name",
        related=(Related(f"the {other} `{name}`", first),),
    )


@error("TS133", "reserved-name")
def reserved_name(name: str, what: str, span: Span) -> Finding:
    """A name is taken by the language.

    `sms`, `thread`, `threads`, `warp` and `lane` are values known everywhere; `stage`, `cute`, `cutlass` and `math` are
    known in bodies; `wgmma`, `bulk`, `cp_async` and `tcgen05` are the targets of completion steps; `.T` transposes.
    """
    return Finding(f"`{name}` is a name of the language and cannot be {what}", span, help="choose another name")


@error("TS134", "unknown-param")
def unknown_param(name: str, where: str, near: str | None, span: Span) -> Finding:
    """A variant or `--set` names a param that the kernel does not have.

    Only entries of `params` can be set.
    """
    return Finding(f"{where} sets `{name}`, which is not a param", span, help=_near(near))


@error("TS135", "unknown-variant")
def unknown_variant(name: str, known: tuple[str, ...], near: str | None, span: Span) -> Finding:
    """The variant that was asked for does not exist.

    `variants` lists the named settings of a kernel.
    """
    return Finding(f"there is no variant `{name}`; known: {listed(known)}", span, help=_near(near))


@error("TS136", "not-a-choice")
def not_a_choice(name: str, value: Scalar, choices: tuple[Scalar, ...], span: Span) -> Finding:
    """A param's value is not among its `choices`.

    `choices` lists the legal values; the default, variants, `tune` and `--set` must keep to it.
    """
    shown = str(value).lower() if isinstance(value, bool) else value
    return Finding(f"param `{name}` is {shown}, expected {listed(choices)}", span)


@error("TS137", "param-kind")
def param_kind(name: str, expected: str, value: Scalar, span: Span) -> Finding:
    """A variant or `--set` gives a param a value of another kind than its own.

    An integer stays an integer, a boolean a boolean, a word a word.
    """
    shown = str(value).lower() if isinstance(value, bool) else value
    return Finding(f"param `{name}` is {expected}, `{shown}` is not", span)


@error("TS138", "out-of-range")
def out_of_range(written: str, value: int, low: int | None, high: int | None, span: Span) -> Finding:
    """A number is smaller or larger than makes sense at its place.

    Counts of stages, instances and warps are at least 1, positions at least 0; none of them is in the thousands.
    """
    shown = f"`{written}` is {value}" if written != str(value) else f"{value} is out of range"
    if low is None or high is None:
        return Finding(f"{shown}, expected {f'at least {low}' if high is None else f'at most {high}'}", span)
    return Finding(f"{shown}, expected {low} to {high}", span)


@error("TS139", "known-too-late")
def too_late(name: str, time: str, allowed: str, where: str, span: Span) -> Finding:
    """A value is used where it is not known yet.

    Values have a time: compile (params), launch (dims, rank-0 tensors, `sms`), tile (axes and `let` values that use
    them), step (loop variables, tokens, `thread`). Each place takes values up to a certain time.
    """
    known = {"launch": "at launch", "tile": "for each tile", "step": "at each step"}[time]
    most = {"compile": "at compile time", "launch": "at launch", "tile": "for each tile"}[allowed]
    return Finding(f"`{name}` is known {known} only; {where} must be known {most}", span)


@error("TS140", "not-a-value")
def not_a_value(name: str, kind: str, span: Span, help: str | None = None) -> Finding:
    """A name stands where a value is wanted, but it names no value.

    A tensor wants an index (`table[i]`), a resource a field (`ring.t`); groups, queues and barriers hold no values.
    """
    return Finding(f"`{name}` is a {kind}, not a value", span, help=help)


@error("TS141", "element-function")
def element_function(name: str, span: Span) -> Finding:
    """A function that works on tiles is used outside `map`, `value` and `where`.

    Bounds, windows, arguments and conditions are scalars: they know min, max, ceil_div, log2, sqrt and extent.
    """
    return Finding(f"`{name}` works on tiles and is known in `map`, `value` and `where` only", span)


@error("TS142", "absent-name")
def absent_name(name: str, kind: str, span: Span) -> Finding:
    """Something is used that is absent for these params.

    Its `if:` does not hold, so it does not exist in this variant. Put the same condition around the use.
    """
    return Finding(
        f"the {kind} `{name}` is absent for these params",
        span,
        help="write `x if condition else y`, or `if:` around the use",
    )


@error("TS143", "unknown-field")
def unknown_field(owner: str, name: str, near: str | None, span: Span) -> Finding:
    """A reference names a field that its resource does not have.

    `resource.field` names an entry of the resource's `storage`.
    """
    return Finding(f"`{owner}` has no field `{name}`", span, help=_near(near))


@error("TS144", "instance")
def instance_wanted(name: str, each: str | None, span: Span) -> Finding:
    """A resource with `each` is used without saying which instance, or one without `each` with an index.

    `each: {w: 2}` makes two resources; `name[0]`, `name[w]` pick one.
    """
    if each is None:
        return Finding(f"`{name}` has no `each`, so it takes no index", span, help=f"write `{name}`")
    return Finding(f"`{name}` has `each`, so one instance must be picked", span, help=f"write `{name}[{each}]`")


@error("TS145", "instance-range")
def instance_range(name: str, index: int, count: int, span: Span) -> Finding:
    """An index picks an instance that does not exist.

    `each: {w: n}` makes the instances 0 to n - 1.
    """
    return Finding(f"`{name}[{index}]` does not exist: `{name}` has the instances 0 to {count - 1}", span)


@error("TS146", "window-rank")
def window_rank(name: str, rank: int, given: int, span: Span) -> Finding:
    """A window does not have one entry for each dimension.

    `x` picks an index, `x:+n` takes n elements from x, `:` takes all. Of a field, entries left out at the end take all.
    """
    return Finding(f"`{name}` has {rank} dimension{'s' if rank != 1 else ''}, the window has {given}", span)


@error("TS147", "extent-axis")
def extent_axis(written: str, near: str | None, span: Span) -> Finding:
    """`extent` is given something that is not a tile axis.

    `extent(axis)` is the number of tiles along an axis of `launch.tiles`.
    """
    return Finding(f"`extent({written})`: `{written}` is not a tile axis", span, help=_near(near))


@error("TS148", "not-an-integer-tensor")
def not_integer_tensor(name: str, dtype: str, span: Span) -> Finding:
    """An element of a tensor of real numbers is used as a bound, index, argument or condition.

    Only integer tensors can steer the kernel; real ones are read by works.
    """
    return Finding(f"`{name}` holds {dtype}; only elements of integer tensors can be used here", span)


@error("TS149", "unknown-activation")
def unknown_activation(word: str, near: str | None, known: tuple[str, ...], span: Span) -> Finding:
    """`activation` is given a word that is no activation function.

    `activation(word, x)` applies the function that the word names, `none` applies none; the word is mostly a param.
    """
    return Finding(f"`{word}` is not an activation", span, help=_near(near) or f"known: {', '.join(known)}")
