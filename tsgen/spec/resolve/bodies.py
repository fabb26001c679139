"""Inline bodies: Python syntax, names, results, and no hidden synchronisation."""

from __future__ import annotations

import ast
import builtins
import re

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


def check_body(ctx: Context, owner: Head | TensorHead, work: Work, node: ScalarNode, scope: Scope) -> None:
    """Collects the findings about a work's body."""
    tree = _parse(ctx, work.body or "", node)
    if tree is None:
        return
    place = _Places(node)
    for found in ast.walk(tree):
        _synchronisation(ctx, found, place)
        if isinstance(found, ast.Return):
            help = "assign the names in `returns` instead"
            ctx.add(rules.body_returns("a body has no `return`", place(found), help))
        if isinstance(found, ast.Import | ast.ImportFrom):
            ctx.add(rules.body_name("import", None, place(found)))
    _names(ctx, owner, work, tree, place)
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
        for pattern, instead in _FORBIDDEN:
            if pattern.fullmatch(full) or pattern.fullmatch(last):
                ctx.add(rules.body_synchronises(full, instead, place(n)))
                return
    elif isinstance(n, ast.Constant) and isinstance(n.value, str):
        for pattern, instead in _FORBIDDEN:
            match = pattern.search(n.value)
            if match and "." in match.group():
                ctx.add(rules.body_synchronises(match.group(), instead, place(n)))
                return


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
