"""The JSON Schema (draft-07) of the spec language, built from the registries of ops, pipeline types and steps.

Editors read it; `tsgen.spec.validate` reads it too, so that both say the same. Two keywords are ours, ignored by others:
`x-discriminator` names the key whose value picks one branch of a `oneOf` (`$key`: the branch that requires a key which
is present), and every `title` says in the words of messages what is expected.
"""

from __future__ import annotations

from functools import cache

from tsgen.model.dtypes import DTYPES
from tsgen.model.ops import ALL, OPS, Op, OpParam
from tsgen.model.pipelines import PIPELINES, SIGNALING

Schema = dict[str, object]
NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"

ENGINES_OF_BODIES = ("tx", "bulk", "cp_async", "wgmma", "tcgen05", "tcgen05_ld", "tcgen05_st")


@cache
def schema() -> Schema:
    """The whole schema, as `tsgen schema` prints it."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "a kernel of tsgen",
        "description": "A warp-specialised GPU kernel as data: resources, pipelines, works, schedules and tasks.",
        **_object(_top_level(), required=("tsgen", "kernel", "target", "doc", "tensors", "launch", "graph", "schedules", "tasks")),
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
            "steps": _list({"$ref": "#/definitions/step"}, "a list of steps", "Steps in order, one on each line."),
            "step": _step(),
            "task": _task(),
            "memory": _memory(),
            "reference": _reference(),
        },
    }


# -- building blocks ---------------------------------------------------------------------------------------------


def _object(
    properties: dict[str, Schema], required: tuple[str, ...] = (), title: str = "a mapping", doc: str | None = None
) -> Schema:
    found: Schema = {"type": "object", "title": title}
    if doc:
        found["description"] = doc
    found |= {"properties": properties, "additionalProperties": False}
    return {**found, "required": list(required)} if required else found


def _map(value: Schema, doc: str, title: str, *, least: int = 0, most: int | None = None) -> Schema:
    """A mapping from names to values of one kind."""
    found: Schema = {"type": "object", "title": title, "description": doc, "additionalProperties": value}
    found["propertyNames"] = {"pattern": NAME}
    if least:
        found["minProperties"] = least
    return {**found, "maxProperties": most} if most else found


def _list(items: Schema, title: str, doc: str, *, least: int = 0) -> Schema:
    found: Schema = {"type": "array", "title": title, "description": doc, "items": items}
    return {**found, "minItems": least} if least else found


def _ref(name: str, doc: str) -> Schema:
    """A definition with a description of its own (in draft-07 `$ref` hides what stands beside it)."""
    return {"description": doc, "allOf": [{"$ref": f"#/definitions/{name}"}]}


def _value(doc: str) -> Schema:
    return {"type": ["string", "integer", "number", "boolean"], "title": "an expression", "description": doc}


def _integer(doc: str) -> Schema:
    return {"type": ["integer", "string"], "title": "an integer or an expression", "description": doc}


def _condition(doc: str) -> Schema:
    return {"type": ["boolean", "string"], "title": "a condition: true, false or an expression", "description": doc}


def _text(doc: str, title: str = "a text") -> Schema:
    return {"type": "string", "title": title, "description": doc}


def _name(doc: str) -> Schema:
    return {"type": "string", "pattern": NAME, "title": "a name", "description": doc}


def _names(doc: str, *, least: int = 0) -> Schema:
    return _list(_name("A name."), "a list of names", doc, least=least)


def _word(words: tuple[str, ...], doc: str) -> Schema:
    return {"type": "string", "enum": list(words), "title": "a word", "description": doc}


_IF = _condition("Over params: where it does not hold, the entry is absent.")
_DOC = _text("What it is for, in words.")
_EACH = _map(
    _integer("The number of instances."),
    "Makes that many instances, `{w: 2}`; `w` is known inside, elsewhere `name[expr]` picks one.",
    "a variable and a count, such as {w: 2}",
    least=1,
    most=1,
)


# -- the parts ---------------------------------------------------------------------------------------------------


def _top_level() -> dict[str, Schema]:
    words = _word(ALL, "An architecture.")
    return {
        "tsgen": {"const": 1, "title": "the version 1", "description": "Version of the language."},
        "kernel": _name("Name of the generated function."),
        "target": {
            "title": "a target or a list of targets",
            "description": f"Architectures the kernel is for: {', '.join(ALL)}.",
            "oneOf": [words, _list(words, "a list of targets", "Several architectures.", least=1)],
        },
        "doc": _text("What the kernel computes; becomes the docstring."),
        "params": _map({"$ref": "#/definitions/param"}, "Compile-time values, in order.", "a mapping of params"),
        "variants": _map(
            _map(_value("The value of the param in this variant."), "Params and their values.", "a mapping of params"),
            "Named settings of params; `build` writes a module for each.",
            "a mapping of variants",
        ),
        "tensors": _map(
            {"$ref": "#/definitions/tensor"}, "Arguments of the host function, in order.", "a mapping of tensors", least=1
        ),
        "launch": _ref("launch", "Tile space, cluster, derived values and assumptions."),
        "resources": _map(
            {"$ref": "#/definitions/resource"},
            "Shared memory, tensor memory, registers, queue and barriers.",
            "a mapping of resources",
        ),
        "groups": _map({"$ref": "#/definitions/group"}, "Pipelines that share barriers.", "a mapping of groups"),
        "graph": _map(_names("What flows into it."), "Flow of data: downstream to upstreams.", "a mapping of lists of names"),
        "schedules": _map({"$ref": "#/definitions/steps"}, "What tasks do, step by step.", "a mapping of lists of steps", least=1),
        "tasks": _map({"$ref": "#/definitions/task"}, "Warps and the schedules they run.", "a mapping of tasks", least=1),
        "memory": _ref("memory", "Memory that is used twice, and capacities."),
        "reference": _ref("reference", "What `run` and `simulate` compare with."),
    }


def _param() -> Schema:
    value = _value("The value: a number, a boolean, a word, or an expression over earlier params.")
    options = _object(
        {
            "value": value,
            "choices": _list(_value("A legal value."), "a list of values", "The legal values.", least=1),
            "tune": _list(_value("A value to try."), "a list of values", "The values that a search tries.", least=1),
            "doc": _DOC,
        },
        ("value",),
        "a value, or a mapping with `value`",
    )
    return {"title": "a value, or a mapping with `value`", "description": "A compile-time value.", "oneOf": [value, options]}


def _tensor() -> Schema:
    return _object(
        {
            "dtype": _text(f"Element type: {', '.join(DTYPES)}, or a param.", "a dtype"),
            "shape": _list(
                _integer("An extent. Names that nothing else defines are dims."),
                "a list of extents",
                "Extents; `[]` is a scalar passed by value.",
            ),
            "output": _condition("Whether the kernel writes it (default false)."),
            "default": _value("Of a scalar: its value where the caller gives none."),
            "align": _integer("Alignment of the base address in bytes (default 16)."),
            "major": _integer("Index of the contiguous dimension (default the last)."),
            "work": _works(),
            "if": _IF,
            "doc": _DOC,
        },
        ("dtype", "shape"),
        "a tensor",
        "An argument of the host function, and a resource in global memory.",
    )


def _launch() -> Schema:
    return _object(
        {
            "tiles": _map(_value("Number of tiles along the axis."), "The tile space: axis to extent, fastest first.", "a mapping of axes", least=1),
            "cluster": _map(_integer("CTAs along the axis."), "CTAs of a cluster along each axis (default 1).", "a mapping of axes"),
            "optional": _names("Leading dims that a caller may leave out."),
            "let": _map(_value("The value."), "Named values, in order.", "a mapping of expressions"),
            "assume": _list(_condition("A precondition."), "a list of conditions", "Preconditions of the kernel."),
            "pdl": _condition("Launch with programmatic stream serialisation (default false)."),
            "min_blocks": _integer("Least resident CTAs of a multiprocessor (default 1)."),
        },
        ("tiles",),
        "a mapping with `tiles`",
    )


def _resource() -> Schema:
    common: dict[str, Schema] = {"each": _EACH, "if": _IF, "doc": _DOC}
    storage = _map({"$ref": "#/definitions/field"}, "The fields of one stage.", "a mapping of fields")
    pipeline = _ref("pipeline", "A ring of stages, guarded by mbarriers.")
    memory: dict[str, Schema] = {"storage": storage, "pipeline": pipeline, "work": _works()}
    queue: dict[str, Schema] = {
        "scheduler": _word(("static_persistent", "clc_dynamic"), "Who hands out the tiles: arithmetic or hardware."),
        "raster": {
            "title": "a list of axes, or an expression that gives one",
            "description": "Axes, fastest first; `-m` runs backwards.",
            "oneOf": [_text("`[...] if condition else [...]`."), _list(_text("An axis."), "a list of axes", "Axes.")],
        },
        "swizzle": _integer("Tiles of the second axis in a band (default 1)."),
        "serpentine": _condition("Whether every other round runs backwards (default false)."),
        "pipeline": _ref("queue_pipeline", "The ring of answers of `clc_dynamic`."),
    }
    kinds: dict[str, tuple[str, dict[str, Schema], tuple[str, ...]]] = {
        "smem": ("Shared memory; without storage a pure signal.", memory, ()),
        "tmem": ("Tensor memory (sm_100 and later).", memory, ()),
        "rmem": ("Registers of the task that uses it.", {"storage": storage, "work": _works()}, ("storage",)),
        "work_queue": ("The order of the tiles of persistent tasks.", queue, ("scheduler",)),
        "barrier": ("A named barrier.", {"threads": _integer("Threads that take part (derived).")}, ()),
        "pdl": ("Programmatic dependent launch.", {}, ()),
    }
    branches = [
        _object({"kind": _const(k, doc), **keys, **common}, ("kind", *required), f"a resource of kind `{k}`", doc)
        for k, (doc, keys, required) in kinds.items()
    ]
    return {"title": "a resource", "description": "Memory, a queue or a barrier.", "x-discriminator": "kind", "oneOf": branches}


def _const(value: str, doc: str) -> Schema:
    return {"const": value, "title": f"`{value}`", "description": doc}


def _field() -> Schema:
    stored = _object(
        {
            "dtype": _text("Element type, or a param.", "a dtype"),
            "shape": _list(_integer("An extent."), "a list of extents", "Extents of one stage."),
            "swizzle": _integer("Bytes: 0, 32, 64 or 128 (derived)."),
            "major": _integer("Index of the contiguous dimension (default the last)."),
            "align": _integer("Alignment in bytes (derived)."),
            "columns": _integer("Of tensor memory: columns (derived)."),
            "rowwise": _condition("Of registers: held whole by each thread that owns part of the row."),
            "if": _IF,
        },
        ("dtype", "shape"),
        "a field",
        "Storage of one stage.",
    )
    view = _object(
        {"view": _text("`resource.field`.", "a field of another resource"), "if": _IF},
        ("view",),
        "a view",
        "The bytes of another resource's field, through another pipeline.",
    )
    return {"title": "a field or a view", "description": "A field.", "x-discriminator": "$key", "oneOf": [view, stored]}


def _pipeline(required: tuple[str, ...]) -> Schema:
    types = "; ".join(f"{p.name}: {p.doc}" for p in PIPELINES.values())
    signaling = _word(SIGNALING, "Who signals.")
    stride: Schema = _integer("A stride.")
    return _object(
        {
            "type": _word(tuple(PIPELINES), f"Who fills and who empties a stage. {types}"),
            "num_stages": _integer("Number of stages."),
            "num_bytes": _integer("Transaction bytes of a stage (derived)."),
            "num_bytes_per_warp_per_cta": _integer("Transaction bytes that each producer warp adds (derived)."),
            "producer_group": _integer("Arrivals that make a stage full (derived)."),
            "consumer_group": _integer("Arrivals that make a stage empty (derived)."),
            "producer_signaling": {**signaling, "description": "Which threads commit (derived)."},
            "consumer_signaling": {**signaling, "description": "Which threads release (derived)."},
            "consumer_wait_signaling": {**signaling, "description": "Which threads wait (derived)."},
            "advance_on_wait": _condition("Separate positions for wait and release (always so)."),
            "advance_on_acquire": _condition("Separate positions for acquire and commit (always so)."),
            "interleave_stride": {
                "title": "a stride, or the strides of acquire, commit, wait and release",
                "description": "Splits the stages into lanes: one stride, or four.",
                "oneOf": [stride, _list(stride, "four strides", "For acquire, commit, wait and release.")],
            },
        },
        required,
        "a pipeline",
        "A ring of stages.",
    )


# -- works -------------------------------------------------------------------------------------------------------


def _works() -> Schema:
    return _map({"$ref": "#/definitions/work"}, "Works of the resource: what its steps do.", "a mapping of works")


def _work() -> Schema:
    branches = [_op(op) for op in OPS.values()]
    role = _word(("producer", "consumer"), "Whether it fills or reads its owner.")
    views = _map(_text("A reference.", "a reference"), "Names and what they stand for.", "a mapping of references")
    facts: dict[str, Schema] = {
        "role": role,
        "reads": {**views, "description": "What else it reads: name to reference."},
        "writes": {**views, "description": "What else it writes: name to reference."},
        "async": _word(ENGINES_OF_BODIES, "The engine whose work it leaves in flight."),
        "bytes": _value("Transaction bytes that it leaves in flight."),
        "numpy": _text("Its twin for the simulator, or `same`."),
        **_common_work(),
    }
    body = _object({"body": _text("CuTe code, at most a screen."), **facts}, ("body", "role"), "a body")
    call_text: Schema = {
        "type": "string",
        "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
        "title": "`module:function`",
        "description": "A function that takes the same names as keywords.",
    }
    call = _object({"call": call_text, **facts}, ("call", "role"), "a call")
    planned = _object(facts, ("role",), "a work that is only a role yet")
    return {
        "title": "a work",
        "description": "A built-in op, a body, a call, or only a role.",
        "x-discriminator": "op",
        "oneOf": [*branches, body, call, planned],
    }


def _common_work() -> dict[str, Schema]:
    return {
        "takes": _names("Run-time arguments, given by keyword at the call."),
        "static": _names("Compile-time arguments."),
        "returns": _names("Results, in order."),
        "scope": _word(("task", "warp"), "The threads that perform it together (default task)."),
        "attrs": _list(_word(("auxiliary",), "No payload."), "a list of attributes", "`auxiliary`: ignored by ordering checks."),
        "if": _IF,
    }


def _op(op: Op) -> Schema:
    properties: dict[str, Schema] = {"op": _const(op.name, op.doc)}
    properties |= {key: _op_param(param) for key, param in op.params.items()}
    role = _word(("producer", "consumer"), "Derived from what it reads and writes.")
    required = ("op", *(key for key, p in op.params.items() if p.required))
    return _object({**properties, "role": role, **_common_work()}, required, f"the op `{op.name}`", op.doc)


def _op_param(p: OpParam) -> Schema:
    match p.kind:
        case "value":
            return _value(p.doc)
        case "condition":
            return _condition(p.doc)
        case "int":
            return _integer(p.doc)
        case "word":
            return _word(p.words, p.doc)
        case "axis":
            return _name(p.doc)
        case "assigns":
            statement = _text("`name = expression`.", "a statement `name = expression`")
            return _list(statement, "a list of statements", p.doc, least=1)
        case "copies":
            copy = _object(
                {
                    "to": _text("An own field or a window of it.", "a reference"),
                    "from": _text("A window of a tensor.", "a reference"),
                    "multicast": _name("Axis of the cluster whose CTAs all receive it."),
                },
                ("to", "from"),
                "a copy `{to, from}`",
                "One copy.",
            )
            return _list(copy, "a list of copies", p.doc, least=1)
        case _:
            return _text(p.doc, "a reference")


# -- schedules and the rest --------------------------------------------------------------------------------------


def _step() -> Schema:
    from tsgen.model.blocks import BLOCKS

    branches: list[Schema] = [_text("`[results =] target.method(arguments)`.", "a step")]
    kinds = {"int": _integer, "expr": _value, "cond": _condition, "name": _name, "text": _text}
    for block in BLOCKS.values():
        options = {o.name: kinds[o.kind](o.doc) for o in block.options}
        required = tuple(o.name for o in block.options if o.required)
        properties: dict[str, Schema] = {
            block.name: _object(options, required, f"the options of `{block.name}`", block.doc),
            "steps": _ref("steps", "The body."),
        }
        branches.append(_object(properties, (block.name, "steps"), f"a `{block.name}` block", block.doc))
    values: Schema = {
        "title": "a count or a list of integers",
        "description": "How often, or the values.",
        "oneOf": [_integer("A count."), _list(_integer("A value."), "a list of integers", "The values.")],
    }
    loop = _map(values, "A variable and its count or values.", "a variable and a count, such as {s: 4}", least=1, most=1)
    steps = _ref("steps", "The body.")
    static = _condition("Over params, `each` and `for` indices.")
    branches += [
        _object({"for": loop, "steps": steps}, ("for", "steps"), "a `for` block", "A compile-time loop, unrolled."),
        _object(
            {"if": static, "steps": steps, "else": _ref("steps", "What is done otherwise.")},
            ("if", "steps"),
            "an `if` block",
            "A compile-time choice.",
        ),
    ]
    return {"title": "a step or a block", "description": "A step.", "x-discriminator": "$key", "oneOf": branches}


def _group() -> Schema:
    return _object(
        {
            "mode": _word(("merge", "fork", "fused_merge"), "Which barriers the members share."),
            "members": _names("The pipelined resources.", least=1),
            "pipeline": _ref("pipeline", "What is derived for the group, written to be checked."),
        },
        ("mode", "members"),
        "a group",
        "Pipelines that share barriers.",
    )


def _task() -> Schema:
    return _object(
        {
            "warp_idx": _integer("First warp."),
            "num_warps": _integer("Number of warps."),
            "num_registers": _integer("Registers of a thread, set with setmaxnreg."),
            "schedule": _name("The schedule (default the one of the task's name, or the only one)."),
            "each": _EACH,
            "cta": {
                "type": ["string", "integer"],
                "title": "`leader` or a rank",
                "description": "Runs in the first CTA of each pair (`leader`), or in one rank of the cluster.",
            },
            "if": _IF,
            "doc": _DOC,
            "src_resources": _names("What it consumes (derived)."),
            "dst_resources": _names("What it produces (derived)."),
        },
        ("warp_idx", "num_warps"),
        "a task",
        "A range of warps and what they do.",
    )


def _memory() -> Schema:
    member = _text("`resource` or `resource.field`.", "`resource` or `resource.field`")
    phase = _list(member, "a list of resources", "What is in use together.", least=1)
    return _object(
        {
            "alias": _map(
                _list(phase, "a list of phases", "Phases that start at the same address.", least=1),
                "Memory that is used one after the other.",
                "a mapping of lists of phases",
            ),
            "smem_capacity": _integer("Bytes of shared memory that a block may have."),
            "tmem_capacity": _integer("Columns of tensor memory."),
        },
        title="a mapping",
        doc="Aliases and capacities.",
    )


def _reference() -> Schema:
    number: Schema = {"type": "number", "title": "a number", "description": "A bound.", "minimum": 0}
    shape = _map(_integer("An extent."), "Dims and their values.", "a mapping of dims")
    return _object(
        {
            "value": _map(_value("What it should be."), "Outputs and what they should be.", "a mapping of expressions", least=1),
            "inputs": _map(_value("What is put in."), "Inputs that are not random normal.", "a mapping of expressions"),
            "shapes": _list(shape, "a list of shapes", "Shapes to compare on.", least=1),
            "tolerance": _object(
                {"rtol": {**number, "description": "Relative bound."}, "atol": {**number, "description": "Absolute bound."}},
                title="a mapping with `rtol` and `atol`",
                doc="Bounds of the difference; without it results must be bit-equal.",
            ),
        },
        ("value", "shapes"),
        "a mapping with `value` and `shapes`",
        "A reference in NumPy terms.",
    )
