"""One document -> one kernel: calls the parts in the order in which names become known."""

from __future__ import annotations

from collections.abc import Mapping

from tsgen.diagnostics import Diagnostic, Span
from tsgen.model.kernel import Kernel, Resource, Tensor, Work
from tsgen.model.shares import misuses
from tsgen.spec import rules_file, rules_parts
from tsgen.spec.errors import SpecError
from tsgen.spec.node import ListNode, MapNode
from tsgen.spec.parse import MAX_DEPTH
from tsgen.spec.resolve.calls import Calls
from tsgen.spec.resolve.context import Chain, Context, string, strings
from tsgen.spec.resolve.launch import resolve_assume, resolve_launch
from tsgen.spec.resolve.params import resolve_params
from tsgen.spec.resolve.resources import resolve_resource, resource_heads, spans_of
from tsgen.spec.resolve.rest import resolve_graph, resolve_groups, resolve_memory, resolve_reference
from tsgen.spec.resolve.tasks import resolve_tasks
from tsgen.spec.resolve.tensors import resolve_tensor, tensor_heads
from tsgen.spec.resolve.works import Owner, resolve_works


def targets_of(root: MapNode) -> tuple[str, ...]:
    """The targets that a document names."""
    node = root.get("target")
    if isinstance(node, ListNode):
        return tuple(name for name, _ in strings(node))
    return (string(node),)


def resolve_kernel(
    root: MapNode,
    *,
    lines: tuple[str, ...],
    variant: str | None,
    sets: Mapping[str, str],
    target: str | None,
    chain: Chain,
) -> tuple[Kernel | None, list[Diagnostic]]:
    """The kernel of a document that satisfies the schema, or None, and the findings.

    `chain` has what the kernels before it have, which `reference` may use.
    """
    targets = targets_of(root)
    ctx = Context(root, target if target is not None else targets[0], lines)
    try:
        if ctx.target not in targets:
            raise SpecError(rules_parts.unknown_target(ctx.target, targets, _span(root, "target")))
        kernel = _kernel(ctx, targets, variant, sets, chain)
    except SpecError as e:
        ctx.add(e.diagnostic)
        kernel = None
    except RecursionError:  # `let` values that nest in each other past any use
        ctx.add(rules_file.too_large("levels", MAX_DEPTH, root.span))
        kernel = None
    if any(d.severity == "error" for d in ctx.diagnostics):
        kernel = None
    return kernel, ctx.diagnostics


def _span(root: MapNode, key: str) -> Span:
    return root.entries[key].node.span


def _kernel(
    ctx: Context,
    targets: tuple[str, ...],
    variant: str | None,
    sets: Mapping[str, str],
    chain: Chain,
) -> Kernel:
    root = ctx.root
    variants = resolve_params(ctx, variant, sets)
    ctx.stop_on_errors()
    dims = tensor_heads(ctx)
    resource_heads(ctx)
    ctx.stop_on_errors()
    groups = resolve_groups(ctx)
    launch = resolve_launch(ctx)
    ctx.lets = launch.lets
    launch = resolve_assume(ctx, launch)
    owners: tuple[Owner, ...] = (*(t for t in ctx.tensors.values() if t.present), *ctx.resources.values())
    works = {owner.name: resolve_works(ctx, owner) for owner in owners}
    tensors: dict[str, Tensor] = {}
    for tensor in ctx.tensors.values():
        with ctx.catching():
            tensors[tensor.name] = resolve_tensor(ctx, tensor, works.get(tensor.name, {}))
    resources: dict[str, Resource] = {}
    for head in ctx.resources.values():
        with ctx.catching():
            resources[head.name] = resolve_resource(ctx, head, works[head.name])
    _check_shares(ctx, works, resources)
    calls = Calls(ctx, {(o, n): w for o, ws in works.items() for n, w in ws.items()}, groups)
    tasks, schedules = resolve_tasks(ctx, calls, launch)
    graph, roots = resolve_graph(ctx)
    memory = resolve_memory(ctx)
    reference = resolve_reference(ctx, tuple(dict.fromkeys((*chain.dims, *dims))), tensors, chain)
    return Kernel(
        string(root.get("kernel")),
        ctx.target,
        targets,
        string(root.get("doc")).strip(),
        variant,
        ctx.params,
        variants,
        tensors,
        dims,
        launch,
        resources,
        groups,
        graph,
        schedules,
        tasks,
        memory,
        reference,
        {n: s for n, s in ctx.symbols.items() if n not in ctx.absent},
        root.key_span("kernel"),
        spans_of(root),
        roots,
    )


def _check_shares(ctx: Context, works: Mapping[str, Mapping[str, Work]], resources: Mapping[str, Resource]) -> None:
    registers = (r for r in resources.values() if r.kind == "rmem")
    shapes = {(r.name, f.name): f.shape for r in registers for f in r.fields.values()}
    complete = [w for ws in works.values() for w in ws.values() if w.op != "map" or "set" in w.args]
    for m in misuses(complete, shapes):
        ctx.add(rules_parts.share(m.written, m.reason, m.span))
