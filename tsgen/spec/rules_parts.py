"""Rules about tensors, launch, resources and pipelines (codes TS160 to TS199)."""

from __future__ import annotations

from tsgen.diagnostics import Finding, Related, Span, error
from tsgen.spec.rules_names import listed


def _near(near: str | None) -> str | None:
    return f"did you mean `{near}`?" if near else None


@error("TS160", "unknown-dtype")
def unknown_dtype(name: str, near: str | None, known: tuple[str, ...], span: Span) -> Finding:
    """A `dtype` is not an element type of the language.

    It is one of the listed words, or a param whose value is one.
    """
    return Finding(f"`{name}` is not a dtype", span, help=_near(near) or f"known: {', '.join(known)}")


@error("TS161", "unsolvable-dim")
def unsolvable_dim(name: str, written: str, span: Span) -> Finding:
    """A dim cannot be found from the extents of the caller's tensors.

    A name in a tensor's shape that nothing else defines is a dim. Its value must follow from one extent: the dim alone,
    plus or minus a constant, or times a param (`S`, `S + 1`, `4*P`).
    """
    return Finding(
        f"dim `{name}` does not follow from any extent; `{written}` alone does not determine it",
        span,
        help=f"use `{name}`, `{name} + 1` or a multiple by a param as an extent of some tensor, or correct the name",
    )


@error("TS162", "extent-value")
def extent_value(written: str, value: str, span: Span) -> Finding:
    """The extent of a tensor is negative or not an integer for these params.

    Extents count elements.
    """
    return Finding(f"the extent `{written}` is {value}, expected an integer of at least 0", span)


@error("TS163", "tensor-option")
def tensor_option(key: str, tensor: str, allowed: str, span: Span) -> Finding:
    """A key of a tensor does not go with its rank.

    `default` is for scalars passed by value, `output` for tensors that the kernel writes.
    """
    return Finding(f"`{key}` of `{tensor}` is for {allowed} only", span)


@error("TS164", "power-of-two")
def power_of_two(key: str, value: int, span: Span) -> Finding:
    """An alignment is not a power of two.

    Alignments are bytes: 16, 128, 1024.
    """
    return Finding(f"`{key}` is {value}, expected a power of two", span)


@error("TS165", "major-range")
def major_range(major: int, rank: int, span: Span) -> Finding:
    """`major` names a dimension that does not exist.

    It is the index of the contiguous dimension, counted from 0; left out, the last one is contiguous.
    """
    return Finding(
        f"`major` is {major}, expected 0 to {rank - 1}" if rank else "`major` of a scalar has no meaning", span
    )


@error("TS166", "cluster-axis")
def cluster_axis(name: str, near: str | None, span: Span) -> Finding:
    """`launch.cluster` names something that is not a tile axis.

    A cluster groups CTAs along axes of `launch.tiles`.
    """
    return Finding(f"`{name}` is not an axis of `launch.tiles`", span, help=_near(near))


@error("TS167", "extent-cycle")
def extent_cycle(name: str, span: Span) -> Finding:
    """The extent of an axis depends on the extent of an axis.

    `extent(axis)` is what `launch.tiles` defines, so the definitions there cannot use it, not even through `let`.
    """
    return Finding(f"the extent of axis `{name}` uses `extent()`", span)


@error("TS168", "optional-dim")
def optional_dim(name: str, span: Span) -> Finding:
    """`launch.optional` names something other than a leading dim.

    Optional dims may be left out by the caller and are 1 then; each must be the first dim of every tensor that has it.
    """
    return Finding(f"`{name}` is not the leading dim of the tensors that have it", span)


@error("TS169", "false-assumption")
def false_assumption(written: str, params: str, span: Span) -> Finding:
    """An assumption of `launch.assume` does not hold for these params.

    It is over params alone, so it is decided before any launch: choose other values.
    """
    return Finding(f"`{written}` does not hold for {params or 'any params'}", span)


@error("TS170", "needs-target")
def needs_target(what: str, targets: tuple[str, ...], target: str, span: Span) -> Finding:
    """Something is used that the target's hardware does not have.

    Tensor memory, tcgen05 and tile queries to the hardware came with sm_100; WGMMA is in sm_90 only.
    """
    return Finding(f"{what} needs {listed(targets)}, the target is `{target}`", span)


@error("TS171", "pipeline-kind")
def pipeline_kind(name: str, kind: str, kinds: tuple[str, ...], span: Span) -> Finding:
    """A pipeline type does not go with its kind of resource.

    TMA fills shared memory only; `clc_fetch_async` belongs to work queues.
    """
    return Finding(f"a `{name}` pipeline is for {listed(kinds)}, not for `{kind}`", span)


@error("TS172", "no-interleaving")
def no_interleaving(name: str, span: Span) -> Finding:
    """`interleave_stride` is given to a pipeline type whose stages cannot be split into lanes.

    Lanes exist for tma_async, tma_umma, async_async, async_umma and umma_async.
    """
    return Finding(f"`{name}` pipelines have no lanes, so `interleave_stride` must be 1", span)


@error("TS173", "stride-count")
def stride_count(count: int, span: Span) -> Finding:
    """`interleave_stride` is a list of the wrong length.

    It is one number, or four: for acquire, commit, wait and release.
    """
    return Finding(f"`interleave_stride` has {count} numbers, expected 1 or 4", span)


@error("TS174", "stride-divides")
def stride_divides(role: str, stride: int, stages: int, span: Span) -> Finding:
    """The number of stages is not a multiple of an interleave stride.

    A stride of n splits the stages into n lanes of equal length.
    """
    return Finding(
        f"{stages} stages do not split into {stride} lanes ({role}): {stages} % {stride} = {stages % stride}",
        span,
        help=f"use a multiple of {stride} stages",
    )


@error("TS175", "queue-pipeline")
def queue_pipeline(scheduler: str, span: Span) -> Finding:
    """A work queue with the wrong kind of scheduler for its `pipeline`.

    With `clc_dynamic` the hardware's answers arrive in a ring of `num_stages` slots, which must be given; with
    `static_persistent` every task computes its tiles itself and there is no ring.
    """
    if scheduler == "clc_dynamic":
        return Finding(
            "`clc_dynamic` needs a `pipeline` for the answers", span, help="write `pipeline: {num_stages: 2}`"
        )
    return Finding(
        "`static_persistent` has no `pipeline`: tiles are computed, not fetched", span, help="remove `pipeline`"
    )


@error("TS176", "raster-axis")
def raster_axis(written: str, near: str | None, span: Span) -> Finding:
    """`raster` names something that is not a tile axis.

    It lists axes of `launch.tiles`, fastest first; `-m` runs backwards.
    """
    return Finding(f"`{written}` is not an axis of `launch.tiles`", span, help=_near(near))


@error("TS177", "raster-twice")
def raster_twice(axis: str, span: Span) -> Finding:
    """`raster` names an axis twice.

    Each axis stands once; axes left out follow as declared.
    """
    return Finding(f"axis `{axis}` stands twice in `raster`", span)


@error("TS178", "view-source")
def view_source(written: str, reason: str, span: Span, related: tuple[Related, ...] = ()) -> Finding:
    """A `view` does not show a whole stored field of another resource of the same kind.

    `{view: ring.a}` gives the bytes of `ring.a` a second pipeline of as many stages. Views of views and windows are not
    possible.
    """
    return Finding(f"`{written}` cannot be viewed: {reason}", span, related=related)


@error("TS179", "swizzle-value")
def swizzle_value(value: int, span: Span) -> Finding:
    """A `swizzle` that the hardware does not have.

    Shared memory swizzles are 32, 64 or 128 bytes wide; 0 is none.
    """
    return Finding(f"`swizzle` is {value} bytes, expected 0, 32, 64 or 128", span)


@error("TS180", "field-option")
def field_option(key: str, kind: str, span: Span) -> Finding:
    """A key of a storage field does not go with its kind of resource.

    `swizzle` is for shared memory, `columns` for tensor memory, `rowwise` for registers.
    """
    home = {"swizzle": "smem", "columns": "tmem", "rowwise": "rmem"}[key]
    return Finding(f"`{key}` is for fields of {home}, this is {kind}", span)


@error("TS181", "target-not-listed")
def unknown_target(name: str, known: tuple[str, ...], span: Span) -> Finding:
    """The kernel is asked for on a target that its spec does not list.

    `target` lists the architectures that a spec is written for.
    """
    return Finding(f"`{name}` is not a target of this kernel: {listed(known)}", span)


@error("TS182", "unknown-member")
def unknown_entry(name: str, what: str, near: str | None, span: Span) -> Finding:
    """A list names something that does not exist.

    `graph`, `groups`, `memory.alias`, `src_resources` and `dst_resources` name tensors and resources of the kernel.
    """
    return Finding(f"there is no {what} `{name}`", span, help=_near(near))


@error("TS183", "not-in-graph")
def not_in_graph(name: str, kind: str, span: Span) -> Finding:
    """A queue, barrier or rmem resource stands in the graph.

    The graph shows the flow of data between memories; queues, barriers and private registers never appear.
    """
    return Finding(f"`{name}` is a {kind}; queues, barriers and rmem never stand in `graph`", span, help="remove it")


@error("TS184", "group-member")
def group_member(name: str, reason: str, span: Span, first: Span | None = None) -> Finding:
    """A resource cannot be a member of a group.

    Members have a pipeline other than `clc_fetch_async`, and each is in one group only.
    """
    related = (Related("the other group", first),) if first else ()
    return Finding(f"`{name}` cannot be a member: {reason}", span, related=related)


@error("TS185", "alias-member")
def alias_member(written: str, reason: str, span: Span) -> Finding:
    """An entry of `memory.alias` is not memory that can share addresses.

    Phases list smem or tmem resources, or fields of them; all of one alias are of one kind, and those with `each` have
    the same number of instances.
    """
    return Finding(f"`{written}` cannot be aliased: {reason}", span)


@error("TS186", "graph-edge-twice")
def edge_twice(upstream: str, downstream: str, span: Span, first: Span) -> Finding:
    """An edge stands twice in the graph.

    Each upstream resource is listed once.
    """
    return Finding(f"`{upstream}` is listed twice for `{downstream}`", span, related=(Related("first here", first),))


@error("TS187", "reference-name")
def reference_name(name: str, near: str | None, span: Span) -> Finding:
    """`reference` uses a name that the kernel, or chain of kernels, does not have.

    Known are tensors, params, dims and `None`.
    """
    return Finding(f"unknown name `{name}` in `reference`", span, help=_near(near))


@error("TS188", "reference-shape")
def reference_shape(name: str, known: bool, span: Span) -> Finding:
    """An entry of `reference.shapes` misses a dim, or gives a value to something that is not one.

    Each entry gives every dim of the tensors a number, except those in `launch.optional`.
    """
    if known:
        return Finding(f"this shape gives no value to dim `{name}`", span)
    return Finding(f"`{name}` is not a dim", span)


@error("TS189", "chain")
def chain(reason: str, span: Span, first: Span | None = None) -> Finding:
    """The documents of a chain do not fit together.

    Kernels of a chain have different names and the same targets; tensors of one name are one tensor, so they have one
    dtype and rank; `reference` stands in the last document.
    """
    related = (Related("the other one", first),) if first else ()
    return Finding(reason, span, related=related)


@error("TS190", "window-range")
def window_range(written: str, reason: str, span: Span, related: tuple[Related, ...] = ()) -> Finding:
    """A window takes elements that its field does not have, or none at all.

    Windows of tensors may pass the edge: loads give zeros there, stores nothing. Fields have no such border. A window
    is checked for each value that it has when the kernel is built: of arguments, of `for` and `each` indices, in each
    iteration of a literal loop, and in each thread.
    """
    return Finding(f"`{written}`: {reason}", span, related=related)


@error("TS191", "share")
def share(written: str, reason: str, span: Span) -> Finding:
    """A sum that is spread over the lanes of a row is used as if each lane knew it.

    `partial_rowsum` gives each lane the sum of its own columns, a share. Shares can be added, subtracted, and
    multiplied by a scalar or a whole row value; `rowsum(share)` makes the whole. Anything else would give each lane
    another result.
    """
    return Finding(
        f"`{written}`: {reason}",
        span,
        help="write `rowsum(...)` around the share, or `rowsum` instead of `partial_rowsum`",
    )


@error("TS192", "reference-tensor")
def reference_output(name: str, expected: str, near: str | None, span: Span) -> Finding:
    """`reference.value` names something other than an output, or `reference.inputs` something other than a tensor.

    `value` says what each output should be, `inputs` what is put into tensors instead of random numbers.
    """
    return Finding(f"`{name}` is not {expected} of the kernel", span, help=_near(near))


@error("TS193", "empty-resource")
def empty_resource(name: str, kind: str, span: Span) -> Finding:
    """A shared or tensor memory resource has neither storage nor a pipeline.

    With storage it is memory, with a pipeline alone a signal; with neither there is nothing to do with it.
    """
    return Finding(f"the {kind} resource `{name}` has neither `storage` nor `pipeline`", span)
