"""`python -m tests.simulation.mutants [SPEC...]`: mutants of the bundled specs through the verifier and the simulator.

Prints the mutants on which the two disagree: accepted and seen to go wrong, or rejected and right in every run.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants
from tests.simulation.verdicts import Seen, verdict
from tsgen.cli.analysis import analyse
from tsgen.cli.options import Selection
from tsgen.simulate.scheduler import POLICIES

ROOT = Path(__file__).parents[2]
SEEDS = len(POLICIES)


def judge(mutant: Mutant) -> tuple[str, str]:
    """Agreement or its lack in one word, and both verdicts."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{Path(mutant.spec).stem}.yaml"
        path.write_text(mutant.text, encoding="utf-8")
        checked = analyse(str(path), Selection({}))
        codes = sorted({d.code for d in checked.report.diagnostics if d.severity == "error"})
        if not checked.cases:
            return "refused", " ".join(codes)
        found = verdict(checked.cases, SEEDS)
    wrong = isinstance(found, Seen)
    said = f"{' '.join(codes) or 'accepted'} / {found or 'right in every run'}"
    if bool(codes) == wrong:
        return "both wrong" if wrong else "both right", said
    return "MISSED BY CHECK" if wrong else "not seen", said


def main(arguments: Sequence[str]) -> int:
    paths = [Path(a) for a in arguments] or sorted([*ROOT.glob("specs/*.yaml")])
    chosen = [m for path in paths for m in mutants(path)]
    count: Counter[str] = Counter()
    with Pool(2) as pool:
        for mutant, (word, said) in zip(chosen, pool.imap(judge, chosen), strict=True):
            count[word] += 1
            if word in ("MISSED BY CHECK", "not seen"):
                print(f"{word}: {mutant.name}: {said}", flush=True)
    print(", ".join(f"{n} {word}" for word, n in count.most_common()))
    return 1 if count["MISSED BY CHECK"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
