"""Inline bodies: Python syntax, names, results, and no hidden synchronisation."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator

from tsgen.diagnostics import Span
from tsgen.model.kernel import SAME, Work
from tsgen.spec import rules_works as rules
from tsgen.spec.node import ScalarNode
from tsgen.spec.resolve.context import BUILTINS, MODULES, Context, Head, TensorHead
from tsgen.spec.resolve.refs import Scope

_BARRIER = "declare a `barrier` resource and schedule its sync()"
SYNCHRONISES: tuple[tuple[str, str], ...] = (  # names of the DSL, instructions in inline PTX -> what to do instead
    (r"mbar(rier)?(_\w+)?|mbarrier\.\S+", "pipelines own the mbarriers: use acquire, commit, wait and release"),
    (r"barrier(_arrive)?|NamedBarrier|agent_sync|SyncObject", _BARRIER),
    (r"bar\.(sync|arrive|red)\S*|barrier\.(cta|sync|arrive|red)\S*", _BARRIER),
    (r"sync_?threads|__syncthreads", _BARRIER),
    (r"sync_?warp|__syncwarp|bar\.warp\.sync", "warp syncs are derived"),
    (r"griddepcontrol\w*|griddepcontrol\.\w+", "schedule wait_griddep() or launch_griddep() of a `pdl` resource"),
    (
        r"cp_async_(bulk_)?wait_group|cp\.async\.(bulk\.)?wait_\S+",
        "schedule `cp_async.wait_group` or `bulk.wait_group`",
    ),
    (r"cp_async_mbarrier_\w+|cp\.async\.mbarrier\S*", "`commit` of the pipeline makes the arrival"),
    (r"(warpgroup\.)?wait_group|wgmma\.wait_group\S*", "schedule `wgmma.wait_group(n)`"),
    (r"tcgen05\.(commit|wait)\S*", "use commit or release of the pipeline, wait_ld() or wait_st()"),
    (r"fence_view_async_tmem_\w+", "schedule `tcgen05.wait_ld()` or `tcgen05.wait_st()`"),
    (r"cluster_(arrive|wait)\w*|barrier\.cluster\.\S+", "clusters are synchronised by pipelines"),
    (r"setmaxregister_\w+|warpgroup_reg_\w+|setmaxnreg\S*", "write `num_registers` in the task"),
    (r"(cutlass\.)?pipeline\.\w+", "declare a `pipeline` and schedule its steps"),
)
_FORBIDDEN = [(re.compile(p), instead) for p, instead in SYNCHRONISES]
_KNOWN = frozenset(dir(builtins))
_LOOKS_UP = frozenset(
    ("getattr", "setattr", "delattr", "eval", "exec", "compile", "globals", "locals", "vars", "__import__")
)
_VIEWS = re.compile(  # functions of the DSL that give a view of their first argument
    r"partition_\w+|retile|local_(tile|partition)|\w+_divide|make_tensor|recast_\w+|domain_offset|group_modes|"
    r"coalesce|composition|slice_"
)
_COPIES = frozenset(("copy", "autovec_copy", "basic_copy", "basic_copy_if", "copy_atom_call"))


def check_body(ctx: Context, owner: Head | TensorHead, work: Work, node: ScalarNode, scope: Scope) -> None:
    """Collects the findings about a work's body."""
    tree = _parse(ctx, work.body or "", node)
    if tree is None:
        return
    place = _Places(node)
    parts: set[ast.AST] = set()  # of strings that are looked at as one
    for found in ast.walk(tree):
        if found not in parts:
            _synchronisation(ctx, found, place)
        if isinstance(found, ast.BinOp | ast.JoinedStr):
            parts.update(n for n in ast.walk(found) if _text(n) is not None)
        if isinstance(found, ast.Return):
            help = "assign the names in `returns` instead"
            ctx.add(rules.body_returns("a body has no `return`", place(found), help))
        if isinstance(found, ast.Import | ast.ImportFrom):
            ctx.add(rules.body_name("import", None, place(found)))
    _names(ctx, owner, work, tree, place)
    _writes(ctx, work, tree, place)
    assigned = _assigned(tree)
    for name in work.returns:
        if name not in assigned:
            reason = f"the body does not assign `{name}`, which `returns` declares"
            ctx.add(rules.body_returns(reason, work.spans["returns"], f"assign `{name}` in the body"))


class _Places:
    """Places of nodes of the body's tree in the spec."""

    def __init__(self, node: ScalarNode) -> None:
        self.node = node

    def __call__(self, n: ast.AST) -> Span:
        line, column = getattr(n, "lineno", 1), getattr(n, "col_offset", 0)
        end = getattr(n, "end_col_offset", column + 1) if getattr(n, "end_lineno", line) == line else column + 1
        return self.at(line, column, end)

    def at(self, line: int, column: int, end: int) -> Span:
        """Line from 1 and columns from 0 within the body."""
        if not self.node.first_line:
            start = self.node.span
            shift = start.column if line == 1 else 1
            return Span(start.line + line - 1, shift + column, start.line + line - 1, shift + max(end, column + 1))
        line, indent = self.node.first_line + line - 1, self.node.indent + 1
        return Span(line, indent + column, line, indent + max(end, column + 1))


def check_twin(ctx: Context, work: Work, node: ScalarNode) -> None:
    """Collects the findings about a work's NumPy twin: its syntax."""
    if work.numpy is not None and work.numpy != SAME:
        _parse(ctx, work.numpy, node, "the NumPy twin")


def _parse(ctx: Context, body: str, node: ScalarNode, what: str = "the body") -> ast.Module | None:
    try:
        return ast.parse(body)
    except SyntaxError as e:
        column = max((e.offset or 1) - 1, 0)
        ctx.add(rules.body_syntax(e.msg, _Places(node).at(e.lineno or 1, column, column + 1), what))
    except (RecursionError, MemoryError, ValueError) as e:
        ctx.add(rules.body_syntax(str(e) or "it is nested too deeply", node.span, what))
    return None


def _synchronisation(ctx: Context, n: ast.AST, place: _Places) -> None:
    if isinstance(n, ast.Attribute | ast.Name):
        full = ast.unparse(n)
        last = full.rsplit(".", 1)[-1]
        if full in _LOOKS_UP or (last.startswith("__") and last.endswith("__")):
            ctx.add(rules.body_synchronises(full, "write out what it stands for", place(n), "may synchronise unseen"))
            return
        for pattern, instead in _FORBIDDEN:
            if pattern.fullmatch(full) or pattern.fullmatch(last):
                ctx.add(rules.body_synchronises(full, instead, place(n)))
                return
    elif (text := _text(n)) is not None:
        for pattern, instead in _FORBIDDEN:
            match = pattern.search(text)
            if match and "." in match.group():
                ctx.add(rules.body_synchronises(match.group(), instead, place(n)))
                return


def _text(n: ast.AST) -> str | None:
    """The literal parts of a string that is put together, in a row."""
    if isinstance(n, ast.Constant) and isinstance(n.value, str):
        return n.value
    if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Add):
        left, right = _text(n.left), _text(n.right)
        return None if left is None and right is None else (left or "") + (right or "")
    if isinstance(n, ast.JoinedStr):
        return "".join(_text(v) or "" for v in n.values)
    return None


def _writes(ctx: Context, work: Work, tree: ast.Module, place: _Places) -> None:
    """Nothing is written that the proof takes for read."""
    read = {n for n in work.reads if n not in work.writes and n not in work.takes}
    views = {n: n for n in read}  # a name -> the field that it is a view of
    for n in ast.walk(tree):
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name):
            source = _viewed(n.value, views)
            if source is not None:
                views.setdefault(n.targets[0].id, source)
    for target in _written(tree):
        if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
            field = target.id if target.id in read else None  # another name is only bound
        else:
            field = _viewed(target, views)
        if field is not None:
            ctx.add(rules.body_writes(field, work.name, work.role, place(target), work.spans.get("role", work.span)))


def _viewed(e: ast.expr, views: dict[str, str]) -> str | None:
    """The field that an expression is a view of."""
    if isinstance(e, ast.Name):
        return views.get(e.id)
    if isinstance(e, ast.Subscript | ast.Attribute):
        return _viewed(e.value, views)
    if isinstance(e, ast.Call) and e.args and _VIEWS.fullmatch(ast.unparse(e.func).rsplit(".", 1)[-1]):
        return _viewed(e.args[0], views)
    return None


def _written(tree: ast.Module) -> Iterator[ast.expr]:
    """What a body assigns, stores into or copies to."""
    for n in ast.walk(tree):
        if isinstance(n, ast.Name | ast.Subscript) and isinstance(n.ctx, ast.Store):
            yield n
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
            if n.func.attr in ("store", "fill"):
                yield n.func.value
            elif n.func.attr in _COPIES:
                yield from (k.value for k in n.keywords if k.arg == "dst")
                yield from n.args[1:][-1:]
            elif n.func.attr == "gemm":
                yield from n.args[1:2]


def _assigned(tree: ast.Module) -> set[str]:
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    found |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    return found | {a.arg for n in ast.walk(tree) if isinstance(n, ast.arguments) for a in (*n.args, *n.kwonlyargs)}


def _names(ctx: Context, owner: Head | TensorHead, work: Work, tree: ast.Module, place: _Places) -> None:
    known = {*ctx.symbols, *BUILTINS, *MODULES, *work.takes, *work.static, *work.reads, *work.writes, *_assigned(tree)}
    if isinstance(owner, Head):
        known |= {*owner.fields, *({owner.each.var} if owner.each else ())}
    known -= {n for n, s in ctx.symbols.items() if s.kind in ("resource", "group") and n not in work.reads}
    seen: set[str] = set()
    for n in ast.walk(tree):
        if isinstance(n, ast.Name) and n.id not in known and n.id not in _KNOWN and n.id not in seen:
            seen.add(n.id)
            ctx.add(rules.body_name(n.id, ctx.near(n.id, known), place(n)))
