"""The host side: what the launcher and the module's function know about tensors, dims and preconditions."""

from __future__ import annotations

from tsgen.lower.context import DSL_TYPES, Builder
from tsgen.lower.errors import refuse
from tsgen.lower.interface import DTypeChoice, Host, HostDim, HostTensor
from tsgen.lower.pyexpr import Scope, py, py_factor
from tsgen.model.algebra import canonical, evaluate, is_constant, substitute
from tsgen.model.dtypes import DTYPES, TORCH_TYPES
from tsgen.model.expr import Binary, Call, Const, Expr, Name, names, text, walk
from tsgen.model.kernel import Kernel, Let, Tensor
from tsgen.model.targets import TARGETS


def scalar_lets(b: Builder) -> dict[str, Let]:
    """Floats computed from scalar arguments alone: the launcher computes them once and passes them to the kernel."""
    kernel = b.kernel
    scalars = {t.name for t in kernel.tensors.values() if not t.shape}
    found: dict[str, Let] = {}
    for let in kernel.launch.lets:
        free = names(let.value) - set(b.constants)
        if let.time == "launch" and free and free <= scalars and any(_is_float(kernel, e) for e in walk(let.value)):
            found[let.name] = let
    return found


def _is_float(kernel: Kernel, e: Expr) -> bool:
    """Whether a part of an expression makes it a float."""
    if isinstance(e, Name) and e.id in kernel.tensors:
        return DTYPES[str(evaluate(kernel.tensors[e.id].dtype, kernel.env))].kind == "float"
    return (isinstance(e, Const) and isinstance(e.value, float)) or (isinstance(e, Binary) and e.op == "/")


def dtype_choices(kernel: Kernel) -> tuple[DTypeChoice, ...]:
    """The dtype params that the caller's tensors decide."""
    out = []
    for p in kernel.params.values():
        if not p.decided_by_caller:
            continue
        decider = next(
            (t.name for t in kernel.tensors.values() if t.present and not t.output and t.dtype == Name(p.name)),
            next((t.name for t in kernel.tensors.values() if t.present and t.dtype == Name(p.name)), ""),
        )
        choices = tuple((TORCH_TYPES[str(c)], _qualified(str(c))) for c in p.choices)
        out.append(DTypeChoice(p.name, p.name.upper(), choices, TORCH_TYPES[str(p.value)], decider))
    return tuple(out)


def _qualified(word: str) -> str:
    return DSL_TYPES[word] if DSL_TYPES[word].startswith("cutlass.") else f"cutlass.{DSL_TYPES[word]}"


def interface(b: Builder, empty: str | None, intermediates: frozenset[str] = frozenset()) -> Host:
    """The function of a kernel; of a chain's, `compile` and its cached form bear its name."""
    suffix = f"_{b.kernel.name}" if b.prefix else ""
    return Host(
        name=b.kernel.name,
        title=b.kernel.name,
        target=b.kernel.target,
        capability=TARGETS[b.kernel.target].capability,
        summary=b.kernel.doc.strip().split("\n")[0],
        compile=f"compile{suffix}",
        compiled=f"compiled{suffix}",
        dtype_choices=dtype_choices(b.kernel),
        tensors=host_tensors(b, intermediates),
        dims=host_dims(b),
        optional_dims=b.kernel.launch.optional,
        checks=checks(b),
        empty=empty,
    )


def host_tensors(b: Builder, intermediates: frozenset[str] = frozenset()) -> tuple[HostTensor, ...]:
    """Every argument of the signature, in the spec's order: those that must be given first, as Python wants it."""
    scope = Scope(b.kernel.env, b.kernel_names())
    decided = {p.name for p in b.kernel.params.values() if p.decided_by_caller}
    giving = {d.tensor for d in host_dims(b)}
    tma = {v.tensor for v in b.views}
    out = []
    for t in b.kernel.tensors.values():
        word = b.dtype_word(t.dtype)
        by_caller = isinstance(t.dtype, Name) and t.dtype.id in decided
        bits = DTYPES[word].bits
        packed = 8 // bits if bits < 8 else 1
        vector = b.vectors.get(t.name, 1)
        multiple = max(128 // bits if t.name in tma else packed, vector)
        deciding = t.dtype.id if by_caller and isinstance(t.dtype, Name) else None
        short = [text(e) for e in t.shape[1:]]
        out.append(
            HostTensor(
                name=t.name,
                dtype=deciding or b.dtype(t.dtype),
                torch_dtype=None if by_caller else TORCH_TYPES.get(word, word),
                packed=packed,
                shape=tuple(python(py(e, scope)) for e in t.shape),
                fake_shape=tuple(_fake(b, e, scope) for e in t.shape),
                label=f"[{', '.join(text(e) for e in t.shape)}]",
                short_label=f"[{', '.join(short)}]",
                output=t.output,
                intermediate=t.name in intermediates,
                present=t.present,
                default=None if t.default is None else _default(b, t),
                align=t.align,
                stride_elements=multiple,
                stride_bytes=multiple * bits // 8,
                required=t.name in giving or (not t.output and t.default is None),
                optional=bool(t.shape) and isinstance(t.shape[0], Name) and t.shape[0].id in b.kernel.launch.optional,
                table=deciding.upper() if deciding else None,
                doc=t.doc,
            )
        )
    return tuple(out)


def _fake(b: Builder, e: Expr, scope: Scope) -> str:
    """A shape entry of a tensor without memory: a dim's symbol, a number, or a symbol of its own."""
    if isinstance(e, Name) and e.id in b.kernel.dims:
        return b.globals[e.id]
    return py(e, scope) if is_constant(e, b.kernel.env) else "cute.sym_int()"


def _default(b: Builder, t: Tensor) -> str:
    assert t.default is not None
    value = evaluate(t.default.expr, b.kernel.env)
    return repr(float(value)) if DTYPES[b.dtype_word(t.dtype)].kind == "float" else repr(value)


def host_dims(b: Builder) -> tuple[HostDim, ...]:
    """How each dim follows from the shapes of tensors that the caller must give."""
    out = []
    for dim in b.kernel.dims:
        for t in sorted(b.kernel.tensors.values(), key=lambda t: t.output):
            if not t.present or not t.shape:
                continue
            texts = (solve(b.kernel, e, dim, f"{t.name}.shape[{i}]") for i, e in enumerate(t.shape))
            solved = next((x for x in texts if x is not None), None)
            if solved is not None:
                per_byte = 8 // DTYPES[b.dtype_word(t.dtype)].bits
                last = f"{t.name}.shape[{len(t.shape) - 1}]"
                given = solved.replace(last, f"{last} * {per_byte}") if per_byte > 1 else solved
                label = f"[{', '.join(text(e) for e in t.shape)}]"
                out.append(HostDim(b.globals[dim], t.name, solved, given, label, " - " in solved))
                break
        else:
            refuse(f"dim `{dim}`, which no tensor's shape gives", b.kernel.span)
    return tuple(out)


def solve(kernel: Kernel, e: Expr, dim: str, shape: str) -> str | None:
    """Python for the dim out of a shape entry, or None."""
    p = canonical(e, kernel.env)
    slope, offset = 0, 0
    for monomial, c in p.terms:
        if c.denominator != 1:
            return None
        if monomial == ():
            offset = int(c)
        elif len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0].head == dim and not monomial[0][0].args:
            slope = int(c)
        else:
            return None
    if slope <= 0:
        return None
    text = shape if offset == 0 else f"{shape} {'-' if offset > 0 else '+'} {abs(offset)}"
    return text if slope == 1 else f"({text}) // {slope}" if offset else f"{text} // {slope}"


def checks(b: Builder) -> tuple[tuple[str, str], ...]:
    """`launch.assume` as conditions over dims and scalars that the host can test, with their text."""
    known = {*b.kernel.dims, *(t.name for t in b.kernel.tensors.values() if not t.shape)}
    scope = Scope(b.kernel.env, b.kernel_names())
    out = []
    for p in b.kernel.launch.assume:
        free = names(p.expr) - set(b.constants)
        if free and free <= known:
            out.append((python(py(p.expr, scope)), text(p.expr)))
    return tuple(out)


def nothing_to_do(b: Builder) -> str | None:
    """The host's test for a problem without tiles or without results; None if there is always something to do."""
    lets = {x.name: x.value for x in b.kernel.launch.lets}
    tiles: list[Expr] = [a.extent for a in b.kernel.launch.axes]
    for _ in lets:
        tiles = [substitute(e, lets) for e in tiles]
    results = [_zeros(b, list(t.shape)) for t in b.kernel.tensors.values() if t.present and t.output and t.shape]
    without = " and ".join(dict.fromkeys(_is_zero(r) for r in results)) if all(results) else None
    none = _zeros(b, tiles)
    if not none or (without and all(set(none) <= set(r) for r in results)):
        return without
    if without is None or any(set(none) == set(r) for r in results):
        return _is_zero(none)
    return f"({without}) or {_is_zero(none)}"


def _is_zero(factors: dict[str, None]) -> str:
    return f"{' * '.join(factors)} == 0"


def _zeros(b: Builder, product: list[Expr]) -> dict[str, None]:
    """What a product is zero with: factors as Python of the host, without those that are never zero."""
    out: dict[str, None] = {}
    for e in product:
        match e:
            case Call(function="ceil_div") if is_constant(e.args[1], b.kernel.env):
                out.update(_zeros(b, [e.args[0]]))
            case Call(function="min"):
                out.update(_zeros(b, list(e.args)))
            case Binary(op="*"):
                out.update(_zeros(b, [e.left, e.right]))
            case Name(id="sms"):
                pass
            case _ if not is_constant(e, b.kernel.env):
                out[python(py_factor(e, Scope(b.kernel.env, b.kernel_names())))] = None
    return out


def python(code: str) -> str:
    """Kernel code over numbers of the host: min, max and ceil_div are plain Python there."""
    return code.replace("cutlass.m", "m").replace("cute.ceil_div", "ceil_div")
