"""`python -m tests.simulation.mutants [I/N] [SPEC...]`: mutants of the bundled specs (the I-th of N parts of them)
through the verifier and the simulator.

Prints the mutants on which the two disagree: accepted and seen to go wrong, or rejected and right in every run without
a reason that stands here. Exits 1 if there are any.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants
from tests.simulation.verdicts import LAUNCH, Seen, verdict
from tsgen.cli.analysis import analyse
from tsgen.cli.options import Selection
from tsgen.model.kernel import Kernel
from tsgen.model.pipelines import PIPELINES
from tsgen.model.steps import DomainLoop, calls, walk
from tsgen.simulate.scheduler import POLICIES

ROOT = Path(__file__).parents[2]
SEEDS = len(POLICIES)
MISSED, UNSEEN = "MISSED BY CHECK", "NOT SEEN"


SAME_ORDER = "another step orders the same, for this task and these trips"
REASONS = {  # of what the rules reject although no run goes wrong
    "ping_pong.yaml: swap buf.acquire() / first_iter: {} #1": "nobody else has the stage before the first turn",
    "ping_pong.yaml: swap last_iter: {} / buf.release() #1": "nobody takes the stage after the last turn",
    "interleave_warp.yaml: remove done.acquire() #1": SAME_ORDER,
    "alias_epilogue.yaml: remove turn.wait() #1": SAME_ORDER,
}


def reason(mutant: Mutant, codes: Sequence[str], kernels: Sequence[Kernel]) -> str | None:
    """Why a mutant that is rejected is right in every run."""
    if mutant.name in REASONS:
        return REASONS[mutant.name]
    if set(codes) <= {"TS301", "TS406"}:
        return "a try is a hint"
    if codes == ["TS261"] and not any(_clc(k) for k in kernels):
        return "the steps of a static queue stand for a counter"
    if codes == ["TS700"]:
        return LAUNCH
    for name in re.findall(r"(\w+)(?:\[\w+\])?\.", mutant.what):
        for kernel in kernels:
            group = next((g for g in kernel.groups.values() if name == g.name or name in g.members), None)
            ring = kernel.resources.get(group.members[0] if group is not None and name == group.name else name)
            pipeline = ring.pipeline if ring is not None else None
            if "commit()" in mutant.what and pipeline is not None and PIPELINES[pipeline.type].counts_bytes:
                return "no instruction commits what TMA or another CTA fills: its bytes do"
            members = group.members if group is not None and name == group.name else (name,)
            if all(_once(kernel, m) for m in members):
                return "one tile for each CTA, which takes a stage once: nobody asks for it again"
            if mutant.kind in ("arrivals", "bytes") and group is not None and group.members[0] != name:
                return "the barriers are those of the group's first member"
    return None


def _once(kernel: Kernel, ring: str) -> bool:
    """Whether a CTA fills a ring only once: outside any loop."""
    if ring not in kernel.resources or any(r.queue is not None for r in kernel.resources.values()):
        return False
    steps = [s for task in kernel.tasks for s in walk(task.schedule.steps)]
    looped = {c.target for s in steps if isinstance(s, DomainLoop) for c in calls(s.body) if c.method == "acquire"}
    return ring not in looped and kernel.resources[ring].pipeline is not None


def _clc(kernel: Kernel) -> bool:
    return any(r.queue is not None and r.queue.scheduler == "clc_dynamic" for r in kernel.resources.values())


def judge(mutant: Mutant) -> tuple[str, str]:
    """Agreement or its lack in one word, and both verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{Path(mutant.spec).stem}.yaml"
        path.write_text(mutant.text, encoding="utf-8")
        checked = analyse(str(path), Selection({}))
        codes = sorted({d.code for d in checked.report.diagnostics if d.severity == "error"})
        if not checked.cases:
            return "refused", " ".join(codes)
        found = verdict(checked.cases[:1], SEEDS)
        if codes and not isinstance(found, Seen):
            found = verdict(checked.cases[1:], SEEDS)
        kernels = [k for c in checked.cases for k in c.program.kernels]
    wrong = isinstance(found, Seen)
    said = f"{' '.join(codes) or 'accepted'} / {found or 'right in every run'}"
    if bool(codes) == wrong:
        return "both wrong" if wrong else "both right", said
    if wrong:
        return MISSED, said
    why = reason(mutant, codes, kernels)
    return (UNSEEN, said) if why is None else ("rejected for a rule, and harmless", why)


def main(arguments: Sequence[str]) -> int:
    part = re.fullmatch(r"(\d+)/(\d+)", arguments[0]) if arguments else None
    paths = [Path(a) for a in arguments[part is not None :]] or sorted(ROOT.glob("specs/*.yaml"))
    chosen = [m for path in paths for m in mutants(path)]
    if part is not None:
        chosen = chosen[int(part[1]) - 1 :: int(part[2])]
    count: Counter[str] = Counter()
    with Pool(2) as pool:
        for mutant, (word, said) in zip(chosen, pool.imap(judge, chosen), strict=True):
            count[word] += 1
            if word in (MISSED, UNSEEN):
                print(f"{word}: {mutant.name}: {said}", flush=True)
    print(", ".join(f"{n} {word}" for word, n in count.most_common()))
    return 1 if count[MISSED] or count[UNSEEN] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
