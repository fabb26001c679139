"""Rules about works: ops and their operands, roles, bodies (codes TS200 to TS219)."""

from __future__ import annotations

from tsgen.diagnostics import Finding, Related, Span, error
from tsgen.spec.rules_names import listed


@error("TS200", "op-target")
def op_target(op: str, targets: tuple[str, ...], target: str, span: Span) -> Finding:
    """An op is used that the target does not have.

    `wgmma` is Hopper's (sm_90a), `tcgen05_*` and `tmem_*` are Blackwell's (sm_100a, sm_103a).
    """
    return Finding(f"`{op}` exists on {listed(targets)}, the target is `{target}`", span)


@error("TS201", "op-owner")
def op_owner(op: str, owners: tuple[str, ...], kind: str, span: Span) -> Finding:
    """An op stands with a kind of resource that cannot own it.

    A work belongs to the memory it fills or empties: `tma_load` to the smem ring, `wgmma` to the rmem accumulator.
    """
    return Finding(f"`{op}` is a work of {listed(owners)}, not of a {kind}", span)


@error("TS202", "operand-place")
def operand_place(written: str, place: str, key: str, op: str, places: tuple[str, ...], span: Span) -> Finding:
    """An operand of an op lies in memory that the op cannot reach.

    The tables of ops say for each parameter where it may point: an own field, smem, rmem, tmem or a tensor.
    """
    found = {"tensor": "a tensor"}.get(place, f"in {place}")
    words = [{"own": "an own field", "tensor": "a tensor"}.get(p, f"a field in {p}") for p in places]
    return Finding(f"`{key}` of `{op}` is {found}: `{written}`; expected {' or '.join(words)}", span)


@error("TS203", "untouched-owner")
def untouched_owner(work: str, owner: str, span: Span) -> Finding:
    """A work neither reads nor writes the resource it belongs to.

    Its role follows from what it does to its owner, so it has none. Move it to the resource that it works on, or write
    `role:`.
    """
    return Finding(f"`{owner}.{work}` neither reads nor writes `{owner}`", span, help="move it, or write `role:`")


@error("TS204", "wrong-role")
def wrong_role(work: str, owner: str, span: Span) -> Finding:
    """A work is said to produce its resource, but only reads it.

    A producer writes its owner. A consumer reads it, and may also write it in place.
    """
    return Finding(f"`{owner}.{work}` only reads `{owner}`, so it is a consumer", span, help="remove `role:`")


@error("TS205", "load-result")
def load_result(work: str, span: Span) -> Finding:
    """A `load` has neither a field to fill nor one result.

    `to: field` fills registers of an rmem resource; without it the work returns the value: `returns: [v]`.
    """
    return Finding(f"`{work}` loads into nothing", span, help="write `to: field` or `returns: [v]`")


@error("TS206", "op-returns")
def op_returns(op: str, span: Span) -> Finding:
    """A built-in work that gives no result has `returns`.

    Only `load` without `to` returns a value; others write memory.
    """
    return Finding(f"`{op}` returns nothing", span, help="remove `returns`")


@error("TS207", "argument-twice")
def argument_twice(name: str, work: str, span: Span, first: Span) -> Finding:
    """A work has two arguments of one name.

    `takes` and `static` together are the arguments of the call.
    """
    return Finding(f"`{work}` has the argument `{name}` twice", span, related=(Related("first here", first),))


@error("TS247", "result-twice")
def result_twice(name: str, work: str, span: Span) -> Finding:
    """A work has two results of one name.

    A call assigns the results to tokens in order; the body could give a name one value only.
    """
    return Finding(f"`{work}` returns `{name}` twice", span)


@error("TS208", "argument-is-field")
def argument_is_field(name: str, owner: str, span: Span) -> Finding:
    """An argument of a work has the name of a field of its owner.

    Both are plain names in the work's expressions. Rename one.
    """
    return Finding(f"the argument `{name}` has the name of a field of `{owner}`", span)


@error("TS209", "assigned-argument")
def assigned_argument(name: str, span: Span) -> Finding:
    """A `map` assigns to an argument of the work.

    The left side of a statement is an own field or a new temporary.
    """
    return Finding(f"`{name}` is an argument and cannot be assigned", span, help="use another name")


@error("TS210", "multicast-axis")
def multicast_axis(axis: str, written: str, span: Span, axis_span: Span) -> Finding:
    """A multicast copy has another window in each of the CTAs that share it.

    With `multicast: m` the CTAs along m load one part of the window each, for all of them. So neither what is read nor
    where it goes may depend on m, directly or through `let`.
    """
    return Finding(
        f"`{written}` depends on `{axis}`, so it cannot be multicast along it",
        span,
        related=(Related("multicast along this axis", axis_span),),
    )


@error("TS211", "axis-wanted")
def axis_wanted(name: str, near: str | None, span: Span) -> Finding:
    """`multicast` or `peers` names something that is not a tile axis.

    CTAs are multicast to along axes of `launch.tiles` that have a cluster.
    """
    return Finding(f"`{name}` is not an axis of `launch.tiles`", span, help=f"did you mean `{near}`?" if near else None)


@error("TS212", "cta-group")
def cta_group(value: int, span: Span) -> Finding:
    """`cta_group` is neither 1 nor 2.

    tcgen05 works on one CTA or on a pair.
    """
    return Finding(f"`cta_group` is {value}, expected 1 or 2", span)


@error("TS213", "reserved-work")
def reserved_work(name: str, span: Span) -> Finding:
    """A work has the name of a step of pipelines or queues.

    `acquire`, `commit`, `wait`, `release`, their `try_` forms, `skip` and the queue's steps are not available as names.
    """
    return Finding(
        f"`{name}` is a step of pipelines or queues and cannot name a work", span, help="choose another name"
    )


@error("TS214", "body-syntax")
def body_syntax(reason: str, span: Span, what: str = "the body") -> Finding:
    """The body of a work, or its NumPy twin, is not valid Python.

    A body is inserted into the generated kernel as it stands; `tsgen simulate` runs the twin.
    """
    return Finding(f"{what} is not valid Python: {reason}", span)


@error("TS215", "body-synchronises")
def body_synchronises(name: str, instead: str, span: Span, what: str = "synchronises") -> Finding:
    """A body synchronises behind the schedule's back.

    The proof covers what the schedule says. Barriers, waits for asynchronous copies and grid dependencies inside a body
    are invisible to it, so they are refused; schedule them as steps. What looks names up while it runs (`getattr`,
    `eval`) could hide one, and is refused, too.
    """
    return Finding(f"the body {what}: `{name}`", span, help=instead)


@error("TS216", "body-name")
def body_name(name: str, near: str | None, span: Span) -> Finding:
    """A body uses a name that nothing binds.

    Bound are the work's arguments, own fields, `reads` and `writes`, tensors, axes, `let` values, dims, params,
    `stage`, `thread`, `threads`, `warp`, `lane`, the modules `cute`, `cutlass` and `math`, and Python's built-ins.
    """
    return Finding(f"unknown name `{name}` in the body", span, help=f"did you mean `{near}`?" if near else None)


@error("TS217", "body-returns")
def body_returns(reason: str, span: Span, help: str) -> Finding:
    """A body does not give the results that the work declares.

    Names in `returns` are assigned in the body; there is no `return` statement.
    """
    return Finding(reason, span, help=help)


@error("TS249", "body-writes")
def body_writes(name: str, work: str, role: str, span: Span, role_span: Span) -> Finding:
    """A body writes a field that it is taken to read.

    The own fields of a consumer, and what `reads` names, count as read: other tasks may read them at the same time.
    Name in `writes` what a body writes, or make the work a producer.
    """
    return Finding(
        f"the body writes `{name}`, which `{work}` only reads",
        span,
        help=f"bind it by `writes: {{{name}: ...}}`, or write into a copy",
        related=(Related(f"`{work}` is a {role}", role_span),),
    )


@error("TS218", "box-shape")
def box_shape(source: str, box: str, to: str, shape: str, span: Span, to_span: Span) -> Finding:
    """The two sides of a copy have different shapes.

    A window's shape is what it takes along each dimension, without those where one index is picked. It must be the
    shape of the destination, except for leading 1s.
    """
    return Finding(f"`{source}` is {box}, but `{to}` is {shape}", span, related=(Related(f"{to} is {shape}", to_span),))


@error("TS219", "mma-shape")
def mma_shape(op: str, reason: str, span: Span) -> Finding:
    """The operands of a matrix multiply do not fit together.

    c [M, N] takes a [M, K] times the transpose of b [N, K]: K is the last dimension of both operands. `.T` swaps the
    dimensions of an operand that is stored the other way round. With `cta_group: 2` each CTA holds N / 2 rows of b.
    """
    return Finding(f"the operands of `{op}` do not fit: {reason}", span)
