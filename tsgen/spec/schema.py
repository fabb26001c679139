"""The JSON Schema (draft-07) of the spec language, built from the registries of ops, pipeline types and steps.

Editors read it; `tsgen.spec.validate` reads it too, so that both say the same. One keyword is ours, ignored by others:
`x-discriminator` names the key whose value picks one branch of a `oneOf` (`$key`: the branch that requires a key which
is present).
"""

from __future__ import annotations

from functools import cache

from tsgen.model.dtypes import DTYPES
from tsgen.model.ops import OPS, Op, OpParam
from tsgen.model.pipelines import PIPELINES, SIGNALING
from tsgen.model.targets import ALL
from tsgen.spec.schema_forms import (
    Schema,
    condition,
    defined,
    integer,
    list_of,
    map_of,
    mapping,
    name,
    names,
    text,
    value,
    word,
)

ENGINES_OF_BODIES = ("tx", "bulk", "cp_async", "wgmma", "tcgen05", "tcgen05_ld", "tcgen05_st")


@cache
def schema() -> Schema:
    """The whole schema, as `tsgen schema` prints it."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "description": "A warp-specialised GPU kernel as data: resources, pipelines, works, schedules and tasks.",
        **mapping(
            _top_level(),
            required=("tsgen", "kernel", "target", "doc", "tensors", "launch", "graph", "schedules", "tasks"),
            title="a kernel",
        ),
        "definitions": {
            "param": _param(),
            "tensor": _tensor(),
            "launch": _launch(),
            "resource": _resource(),
            "field": _field(),
            "pipeline": _pipeline(("type", "num_stages")),
            "queue_pipeline": _pipeline(("num_stages",)),
            "work": _work(),
            "group": _group(),
            "steps": list_of({"$ref": "#/definitions/step"}, "a list of steps", "Steps in order, one on each line."),
            "step": _step(),
            "task": _task(),
            "memory": _memory(),
            "reference": _reference(),
        },
    }


_IF = condition("Over params: where it does not hold, the entry is absent.")
_DOC = text("What it is for, in words.")
_EACH = map_of(
    integer("The number of instances."),
    "Makes that many instances, `{w: 2}`; `w` is known inside, elsewhere `name[expr]` picks one.",
    "a variable and a count, such as {w: 2}",
    least=1,
    most=1,
)


# -- the parts ---------------------------------------------------------------------------------------------------


def _top_level() -> dict[str, Schema]:
    words = word(ALL, "An architecture.")
    return {
        "tsgen": {"const": 1, "title": "the version 1", "description": "Version of the language."},
        "kernel": name("Name of the generated function."),
        "target": {
            "title": "a target or a list of targets",
            "description": f"Architectures the kernel is for: {', '.join(ALL)}.",
            "oneOf": [words, list_of(words, "a list of targets", "Several architectures.", least=1)],
        },
        "doc": text("What the kernel computes; becomes the docstring."),
        "params": map_of({"$ref": "#/definitions/param"}, "Compile-time values, in order.", "a mapping of params"),
        "variants": map_of(
            map_of(value("The value of the param in this variant."), "Params and their values.", "a mapping of params"),
            "Named settings of params; `build` writes a module for each.",
            "a mapping of variants",
        ),
        "tensors": map_of(
            {"$ref": "#/definitions/tensor"},
            "Arguments of the host function, in order.",
            "a mapping of tensors",
            least=1,
        ),
        "launch": defined("launch", "Tile space, cluster, derived values and assumptions."),
        "resources": map_of(
            {"$ref": "#/definitions/resource"},
            "Shared memory, tensor memory, registers, queue and barriers.",
            "a mapping of resources",
        ),
        "groups": map_of({"$ref": "#/definitions/group"}, "Pipelines that share barriers.", "a mapping of groups"),
        "graph": map_of(
            names("What flows into it."), "Flow of data: downstream to upstreams.", "a mapping of lists of names"
        ),
        "schedules": map_of(
            {"$ref": "#/definitions/steps"}, "What tasks do, step by step.", "a mapping of lists of steps", least=1
        ),
        "tasks": map_of(
            {"$ref": "#/definitions/task"}, "Warps and the schedules they run.", "a mapping of tasks", least=1
        ),
        "memory": defined("memory", "Memory that is used twice, and capacities."),
        "reference": defined("reference", "What `run` and `simulate` compare with."),
    }


def _param() -> Schema:
    own = value("The value: a number, a boolean, a word, or an expression over earlier params.")
    options = mapping(
        {
            "value": own,
            "choices": list_of(value("A legal value."), "a list of values", "The legal values.", least=1),
            "tune": list_of(value("A value to try."), "a list of values", "The values that a search tries.", least=1),
            "doc": _DOC,
        },
        ("value",),
        "a value, or a mapping with `value`",
    )
    return {
        "title": "a value, or a mapping with `value`",
        "description": "A compile-time value.",
        "oneOf": [own, options],
    }


def _tensor() -> Schema:
    return mapping(
        {
            "dtype": text(f"Element type: {', '.join(DTYPES)}, or a param.", "a dtype"),
            "shape": list_of(
                integer("An extent. Names that nothing else defines are dims."),
                "a list of extents",
                "Extents; `[]` is a scalar passed by value.",
            ),
            "output": condition("Whether the kernel writes it (default false)."),
            "default": value("Of a scalar: its value where the caller gives none."),
            "align": integer("Alignment of the base address in bytes (default 16)."),
            "major": integer("Index of the contiguous dimension (default the last)."),
            "work": _works(),
            "if": _IF,
            "doc": _DOC,
        },
        ("dtype", "shape"),
        "a tensor",
        "An argument of the host function, and a resource in global memory.",
    )


def _launch() -> Schema:
    return mapping(
        {
            "tiles": map_of(
                value("Number of tiles along the axis."),
                "The tile space: axis to extent, fastest first.",
                "a mapping of axes",
                least=1,
            ),
            "cluster": map_of(
                integer("CTAs along the axis."), "CTAs of a cluster along each axis (default 1).", "a mapping of axes"
            ),
            "optional": names("Leading dims that a caller may leave out."),
            "let": map_of(value("The value."), "Named values, in order.", "a mapping of expressions"),
            "assume": list_of(condition("A precondition."), "a list of conditions", "Preconditions of the kernel."),
            "pdl": condition("Launch with programmatic stream serialisation (default false)."),
            "min_blocks": integer("Least resident CTAs of a multiprocessor (default 1)."),
        },
        ("tiles",),
        "a mapping with `tiles`",
    )


def _resource() -> Schema:
    common: dict[str, Schema] = {"each": _EACH, "if": _IF, "doc": _DOC}
    storage = map_of({"$ref": "#/definitions/field"}, "The fields of one stage.", "a mapping of fields")
    pipeline = defined("pipeline", "A ring of stages, guarded by mbarriers.")
    memory: dict[str, Schema] = {"storage": storage, "pipeline": pipeline, "work": _works()}
    queue: dict[str, Schema] = {
        "scheduler": text(
            "Who hands out the tiles: arithmetic (`static_persistent`) or hardware (`clc_dynamic`).",
            "`static_persistent`, `clc_dynamic` or an expression that gives one",
        ),
        "raster": {
            "title": "a list of axes, or an expression that gives one",
            "description": "Axes, fastest first; `-m` runs backwards.",
            "oneOf": [text("`[...] if condition else [...]`."), list_of(text("An axis."), "a list of axes", "Axes.")],
        },
        "swizzle": integer("Tiles of the second axis in a band (default 1)."),
        "serpentine": condition("Whether every other round runs backwards (default false)."),
        "pipeline": defined("queue_pipeline", "The ring of answers of `clc_dynamic`."),
    }
    kinds: dict[str, tuple[str, dict[str, Schema], tuple[str, ...]]] = {
        "smem": ("Shared memory; without storage a pure signal.", memory, ()),
        "tmem": ("Tensor memory (sm_100 and later).", memory, ()),
        "rmem": ("Registers of the task that uses it.", {"storage": storage, "work": _works()}, ("storage",)),
        "work_queue": ("The order of the tiles of persistent tasks.", queue, ("scheduler",)),
        "barrier": ("A named barrier.", {"threads": integer("Threads that take part (derived).")}, ()),
        "pdl": ("Programmatic dependent launch.", {}, ()),
    }
    branches = [
        mapping({"kind": _const(k, doc), **keys, **common}, ("kind", *required), f"a resource of kind `{k}`", doc)
        for k, (doc, keys, required) in kinds.items()
    ]
    return {
        "title": "a resource",
        "description": "Memory, a queue or a barrier.",
        "x-discriminator": "kind",
        "oneOf": branches,
    }


def _const(value: str, doc: str) -> Schema:
    return {"const": value, "title": f"`{value}`", "description": doc}


def _field() -> Schema:
    stored = mapping(
        {
            "dtype": text("Element type, or a param.", "a dtype"),
            "shape": list_of(integer("An extent."), "a list of extents", "Extents of one stage."),
            "swizzle": integer("Bytes: 0, 32, 64 or 128 (derived)."),
            "major": integer("Index of the contiguous dimension (default the last)."),
            "align": integer("Alignment in bytes (derived)."),
            "columns": integer("Of tensor memory: columns (derived)."),
            "rowwise": condition("Of registers: held whole by each thread that owns part of the row."),
            "if": _IF,
        },
        ("dtype", "shape"),
        "a field",
        "Storage of one stage.",
    )
    view = mapping(
        {"view": text("`resource.field`.", "a field of another resource"), "if": _IF},
        ("view",),
        "a view",
        "The bytes of another resource's field, through another pipeline.",
    )
    return {"title": "a field or a view", "description": "A field.", "x-discriminator": "$key", "oneOf": [view, stored]}


def _pipeline(required: tuple[str, ...]) -> Schema:
    types = "; ".join(f"{p.name}: {p.doc}" for p in PIPELINES.values())
    signaling = word(SIGNALING, "Who signals.")
    stride: Schema = integer("A stride.")
    return mapping(
        {
            "type": word(tuple(PIPELINES), f"Who fills and who empties a stage. {types}"),
            "num_stages": integer("Number of stages."),
            "num_bytes": integer("Transaction bytes of a stage (derived)."),
            "num_bytes_per_warp_per_cta": integer("Transaction bytes that each producer warp adds (derived)."),
            "producer_group": integer("Arrivals that make a stage full (derived)."),
            "consumer_group": integer("Arrivals that make a stage empty (derived)."),
            "producer_signaling": {**signaling, "description": "Which threads commit (derived)."},
            "consumer_signaling": {**signaling, "description": "Which threads release (derived)."},
            "consumer_wait_signaling": {**signaling, "description": "Which threads wait (derived)."},
            "advance_on_wait": condition("Separate positions for wait and release (always so)."),
            "advance_on_acquire": condition("Separate positions for acquire and commit (always so)."),
            "interleave_stride": {
                "title": "a stride, or the strides of acquire, commit, wait and release",
                "description": "Splits the stages into lanes: one stride, or four.",
                "oneOf": [stride, list_of(stride, "four strides", "For acquire, commit, wait and release.")],
            },
        },
        required,
        "a pipeline",
        "A ring of stages.",
    )


# -- works -------------------------------------------------------------------------------------------------------


def _works() -> Schema:
    return map_of({"$ref": "#/definitions/work"}, "Works of the resource: what its steps do.", "a mapping of works")


def _work() -> Schema:
    branches = [_op(op) for op in OPS.values()]
    role = word(("producer", "consumer"), "Whether it fills or reads its owner.")
    views = map_of(text("A reference.", "a reference"), "Names and what they stand for.", "a mapping of references")
    facts: dict[str, Schema] = {
        "role": role,
        "reads": {**views, "description": "What else it reads: name to reference."},
        "writes": {**views, "description": "What else it writes: name to reference."},
        "async": word(ENGINES_OF_BODIES, "The engine whose work it leaves in flight."),
        "bytes": value("Transaction bytes that it leaves in flight."),
        "cta_group": integer("CTAs that its MMA spans: 1 or 2 (default 1)."),
        "numpy": text("Its twin for the simulator, or `same`."),
        **_common_work(),
    }
    body = mapping({"body": text("CuTe code, at most a screen."), **facts}, ("body", "role"), "a body")
    call_text: Schema = {
        "type": "string",
        "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        "title": "`module:function`",
        "description": "A function that takes the same names as keywords.",
    }
    call = mapping({"call": call_text, **facts}, ("call", "role"), "a call")
    planned = mapping(facts, ("role",), "a work that is only a role yet")
    return {
        "title": "a work",
        "description": "A built-in op, a body, a call, or only a role.",
        "x-discriminator": "op",
        "oneOf": [*branches, body, call, planned],
    }


def _common_work() -> dict[str, Schema]:
    return {
        "takes": names("Run-time arguments, given by keyword at the call."),
        "static": names("Compile-time arguments."),
        "returns": names("Results, in order."),
        "scope": word(("task", "warp"), "The threads that perform it together (default task)."),
        "attrs": list_of(
            word(("auxiliary",), "No payload."), "a list of attributes", "`auxiliary`: ignored by ordering checks."
        ),
        "if": _IF,
    }


def _op(op: Op) -> Schema:
    properties: dict[str, Schema] = {"op": _const(op.name, op.doc)}
    properties |= {key: _op_param(param) for key, param in op.params.items()}
    role = word(("producer", "consumer"), "Derived from what it reads and writes.")
    required = ("op", *(key for key, p in op.params.items() if p.required))
    return mapping({**properties, "role": role, **_common_work()}, required, f"the op `{op.name}`", op.doc)


def _op_param(p: OpParam) -> Schema:
    match p.kind:
        case "value" | "static":
            return value(p.doc)
        case "condition":
            return condition(p.doc)
        case "int":
            return integer(p.doc)
        case "word":
            return word(p.words, p.doc)
        case "axis":
            return name(p.doc)
        case "assigns":
            statement = text("`name = expression`.", "a statement `name = expression`")
            return list_of(statement, "a list of statements", p.doc, least=1)
        case "copies":
            copy = mapping(
                {
                    "to": text("An own field or a window of it.", "a reference"),
                    "from": text("A window of a tensor.", "a reference"),
                    "multicast": name("Axis of the cluster whose CTAs all receive it."),
                },
                ("to", "from"),
                "a copy `{to, from}`",
                "One copy.",
            )
            return list_of(copy, "a list of copies", p.doc, least=1)
        case _:
            return text(p.doc, "a reference")


# -- schedules and the rest --------------------------------------------------------------------------------------


def _step() -> Schema:
    from tsgen.model.blocks import BLOCKS

    branches: list[Schema] = [text("`[results =] target.method(arguments)`.", "a step")]
    kinds = {"int": integer, "expr": value, "cond": condition, "name": name, "text": text}
    for block in BLOCKS.values():
        options = {o.name: kinds[o.kind](o.doc) for o in block.options}
        required = tuple(o.name for o in block.options if o.required)
        properties: dict[str, Schema] = {
            block.name: mapping(options, required, f"the options of `{block.name}`", block.doc),
            "steps": defined("steps", "The body."),
        }
        branches.append(mapping(properties, (block.name, "steps"), f"a `{block.name}` block", block.doc))
    values: Schema = {
        "title": "a count or a list of integers",
        "description": "How often, or the values.",
        "oneOf": [integer("A count."), list_of(integer("A value."), "a list of integers", "The values.")],
    }
    loop = map_of(
        values, "A variable and its count or values.", "a variable and a count, such as {s: 4}", least=1, most=1
    )
    steps = defined("steps", "The body.")
    static = condition("Over params, `each` and `for` indices.")
    branches += [
        mapping({"for": loop, "steps": steps}, ("for", "steps"), "a `for` block", "A compile-time loop, unrolled."),
        mapping(
            {"if": static, "steps": steps, "else": defined("steps", "What is done otherwise.")},
            ("if", "steps"),
            "an `if` block",
            "A compile-time choice.",
        ),
    ]
    return {"title": "a step or a block", "description": "A step.", "x-discriminator": "$key", "oneOf": branches}


def _group() -> Schema:
    return mapping(
        {
            "mode": word(("merge", "fork", "fused_merge"), "Which barriers the members share."),
            "members": names("The pipelined resources.", least=1),
            "pipeline": defined("pipeline", "What is derived for the group, written to be checked."),
        },
        ("mode", "members"),
        "a group",
        "Pipelines that share barriers.",
    )


def _task() -> Schema:
    return mapping(
        {
            "warp_idx": integer("First warp."),
            "num_warps": integer("Number of warps."),
            "num_registers": integer("Registers of a thread, set with setmaxnreg."),
            "schedule": name("The schedule (default the one of the task's name, or the only one)."),
            "each": _EACH,
            "cta": {
                "type": ["string", "integer"],
                "title": "`leader` or a rank",
                "description": "Runs in the first CTA of each pair (`leader`), or in one rank of the cluster.",
            },
            "if": _IF,
            "doc": _DOC,
            "src_resources": names("What it consumes (derived)."),
            "dst_resources": names("What it produces (derived)."),
        },
        ("warp_idx", "num_warps"),
        "a task",
        "A range of warps and what they do.",
    )


def _memory() -> Schema:
    member = text("`resource` or `resource.field`.", "`resource` or `resource.field`")
    phase = list_of(member, "a list of resources", "What is in use together.", least=1)
    return mapping(
        {
            "alias": map_of(
                list_of(phase, "a list of phases", "Phases that start at the same address.", least=1),
                "Memory that is used one after the other.",
                "a mapping of lists of phases",
            ),
            "smem_capacity": integer("Bytes of shared memory that a block may have."),
            "tmem_capacity": integer("Columns of tensor memory."),
        },
        title="a mapping",
        doc="Aliases and capacities.",
    )


def _reference() -> Schema:
    number: Schema = {"type": "number", "title": "a number", "description": "A bound.", "minimum": 0}
    shape = map_of(integer("An extent."), "Dims and their values.", "a mapping of dims")
    return mapping(
        {
            "value": map_of(
                value("What it should be."), "Outputs and what they should be.", "a mapping of expressions", least=1
            ),
            "inputs": map_of(
                value("What is put in."), "Inputs that are not random normal.", "a mapping of expressions"
            ),
            "shapes": list_of(shape, "a list of shapes", "Shapes to compare on.", least=1),
            "tolerance": mapping(
                {
                    "rtol": {**number, "description": "Relative bound."},
                    "atol": {**number, "description": "Absolute bound."},
                },
                title="a mapping with `rtol` and `atol`",
                doc="Bounds of the difference; without it results must be bit-equal.",
            ),
        },
        ("value", "shapes"),
        "a mapping with `value` and `shapes`",
        "A reference in NumPy terms.",
    )
