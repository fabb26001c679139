"""`tsgen bench`: a kernel beside others, in one process, interleaved (see tsgen.runtime.timing)."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tsgen.model import kernel as model
from tsgen.runtime.arrays import TorchArrays
from tsgen.runtime.buffers import Buffers, make_buffers
from tsgen.runtime.compare import compare
from tsgen.runtime.cost import Rate, rate
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.launch import Kernel
from tsgen.runtime.peers import Peer, copy_peer, torch_peer
from tsgen.runtime.problem import Problem, make_problem
from tsgen.runtime.run import expected, reference_of
from tsgen.runtime.timing import Launch, interleaved, watchdog

# candidates that are no kernels of ours: PyTorch's call for the same work; a device copy that moves as many bytes
PEERS: Mapping[str, Callable[[Problem, Buffers], Peer]] = {"torch": torch_peer, "copy": copy_peer}


@dataclass(frozen=True, slots=True)
class Row:
    """One shape: median milliseconds of each candidate, the kernel first. `wrong` are those whose output is wrong,
    `peers` says what the names in PEERS stand for."""

    problem: Problem
    rate: Rate
    milliseconds: Mapping[str, float]
    wrong: tuple[str, ...]
    peers: Mapping[str, str]

    def ratio(self, name: str) -> float:
        """How many times faster the first candidate is than this one."""
        return self.milliseconds[name] / next(iter(self.milliseconds.values()))


def bench(
    kernel: model.Kernel,
    candidates: Mapping[str, Kernel | None],
    shapes: Iterable[Mapping[str, int]] | None = None,
    *,
    seed: int = 0,
    rounds: int = 9,
    report: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Times the candidates on each shape: kernels of one signature, or None for a name in PEERS.

    Every output is checked first; a wrong one is reported in the row. Raises CannotRun for a shape that cannot run.
    """
    reference = reference_of(kernel)
    problems = [make_problem(kernel, s) for s in (reference.shapes if shapes is None else shapes)]
    rows = []
    for problem in problems:
        xp = TorchArrays(seed)
        buffers = make_buffers(problem, xp, seed)
        with watchdog(180.0, f"{kernel.name} {problem.label}"):
            wrong = _check(problem, candidates, buffers, xp)
            peers = {name: PEERS[name](problem, buffers) for name, c in candidates.items() if c is None}
            calls = {name: peers[name].call if c is None else _call(c, buffers) for name, c in candidates.items()}
            times = interleaved(calls, rounds, seed)
        rows.append(Row(problem, rate(problem), times, wrong, {name: p.name for name, p in peers.items()}))
        report(rows[-1])
    return rows


def _call(candidate: Kernel, buffers: Buffers) -> Launch:
    return lambda: candidate(buffers.arguments)


def _check(
    problem: Problem, candidates: Mapping[str, Kernel | None], buffers: Buffers, xp: TorchArrays
) -> tuple[str, ...]:
    """The names of the kernels whose outputs are wrong. Outputs are poisoned again for each."""
    reference = reference_of(problem.kernel)
    wanted = expected(problem, buffers.inputs, xp)
    wrong = []
    for name, candidate in candidates.items():
        if candidate is None:
            continue
        for output in buffers.outputs.values():
            xp.fill(output.raw, output.poison)
        try:
            candidate(buffers.arguments)
            xp.synchronize()
        except (ValueError, TypeError, RuntimeError) as e:
            raise CannotRun(f"{name} on {problem.label}: {str(e).strip()}") from None
        for tensor, want in wanted.items():
            out = buffers.outputs[tensor]
            if not compare(xp, out.tensor, want, out.shape.dtype, reference.rtol, reference.atol).ok:
                wrong.append(name)
    return tuple(wrong)


class Table:
    """The rows as text: rate of each candidate, and how much faster the first is than each other."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self.width = [max(len(n), 12) for n in self.names]

    def head(self, unit: str) -> str:
        return f"{unit:34s}" + "".join(f"  {n:>{w}s}" for n, w in zip(self.names, self.width, strict=True))

    def row(self, row: Row) -> str:
        cells = []
        for name, width in zip(self.names, self.width, strict=True):
            figure = f"{row.rate.of(row.milliseconds[name]):.4g}"
            ratio = "" if name == self.names[0] else f" {row.ratio(name):.3f}"
            cells.append(f"{figure + ratio + ('!' if name in row.wrong else ''):>{width}s}")
        return f"{row.problem.label:34s}" + "".join(f"  {c}" for c in cells)

    def mean(self, rows: list[Row]) -> str:
        means = [statistics.geometric_mean(r.ratio(n) for r in rows) for n in self.names]
        cells = [f"{m:.3f}" if i else "" for i, m in enumerate(means)]
        return f"{'geomean of ratios':34s}" + "".join(f"  {c:>{w}s}" for c, w in zip(cells, self.width, strict=True))
