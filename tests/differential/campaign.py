"""`python -m tests.differential.campaign N [--seed S]`: N random schedules before tsgen, NVIDIA and the reference.

Every fourth schedule is good by construction, the others have one injected fault. Prints a table of agreement, and
each kind of disagreement with one example. Exits 1 if tsgen disagrees with the reference, or if it disagrees with
NVIDIA's checker for a reason that is not known.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pool
from typing import Any

from tests.differential.verdicts import Opinions, blind_spot, opinions
from tests.support.draws import Dice
from tests.support.faults import faulty
from tests.support.schedules import good

UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Outcome:
    seed: int
    fault: str
    case: dict[str, Any]
    found: Opinions

    @property
    def truth(self) -> str:
        """The reference's answer; where it gave up, that of the construction."""
        if self.found.reference.answer == "none" and self.fault == "good":
            return "accept"
        return self.found.reference.answer

    @property
    def disagreement(self) -> str | None:
        """What kind of disagreement this is, None if there is none."""
        ours, theirs = self.found.ours, self.found.theirs
        if self.truth != "none" and ours.answer != self.truth:
            why = ours.why[0] if ours.why else "+".join(self.found.reference.why)
            return f"tsgen {ours.answer}s ({why}), the reference {self.truth}s"
        if theirs is None or theirs.answer == "none" or ours.answer == theirs.answer:
            return None
        check = f" ({theirs.why[0]})" if theirs.why else ""
        if self.truth == "none" and not (self.found.reference.sample and ours.answer == "accept"):
            return f"{UNEXPLAINED}: tsgen {ours.answer}s, NVIDIA {theirs.answer}s{check}, the reference gave up"
        return f"NVIDIA {theirs.answer}s{check}: {blind_spot(self.case, self.found) or UNEXPLAINED}"


def schedule(seed: int) -> tuple[str, dict[str, Any]]:
    """The schedule of a number: the fault ("good" for none) and the case."""
    dice = Dice(seed)
    fault, case = ("good", good(dice)) if seed % 4 == 0 else faulty(dice)
    return ("good" if fault == "none" else fault), {**case, "name": f"schedule_{seed}"}


def outcome(seed: int, oracle: bool, most_states: int) -> Outcome:
    fault, case = schedule(seed)
    return Outcome(seed, fault, case, opinions(case, oracle=oracle, most_states=most_states))


def run(count: int, seed: int, *, oracle: bool = True, most_states: int = 20_000, jobs: int = 2) -> Iterator[Outcome]:
    one = partial(outcome, oracle=oracle, most_states=most_states)
    if jobs == 1:
        yield from map(one, range(seed, seed + count))
        return
    with Pool(jobs) as pool:
        yield from pool.imap(one, range(seed, seed + count), chunksize=10)


def table(outcomes: list[Outcome]) -> str:
    """How often each combination of answers came up."""
    counts = Counter((o.truth, o.found.ours.answer, o.found.theirs.answer if o.found.theirs else "-") for o in outcomes)
    lines = [f"{'truth':10}{'tsgen':10}{'NVIDIA':10}{'schedules':>10}"]
    lines += [f"{t:10}{o:10}{n:10}{c:>10}" for (t, o, n), c in sorted(counts.items())]
    faults = Counter(o.fault for o in outcomes)
    lines.append("faults: " + ", ".join(f"{n} {f}" for f, n in faults.most_common()))
    ours = sum(o.found.ours.seconds for o in outcomes)
    theirs = sum(o.found.theirs.seconds for o in outcomes if o.found.theirs)
    states = sum(o.found.ours.states for o in outcomes), sum(o.found.theirs.states for o in outcomes if o.found.theirs)
    lines.append(f"proofs: tsgen {ours:.1f} s, {states[0]} states; NVIDIA {theirs:.1f} s, {states[1]} states")
    return "\n".join(lines)


def classes(outcomes: list[Outcome]) -> dict[str, list[Outcome]]:
    """Disagreements by kind, the frequent ones first."""
    found: dict[str, list[Outcome]] = {}
    for o in outcomes:
        if o.disagreement is not None:
            found.setdefault(o.disagreement, []).append(o)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def describe(o: Outcome) -> str:
    """One disagreement in a few lines."""
    theirs = o.found.theirs
    lines = [f"    seed {o.seed}, fault {o.fault}; reference: {', '.join(o.found.reference.why) or 'good'}"]
    lines += [f"    tsgen:  {o.found.ours.text[:300]}"] if o.found.ours.text else []
    lines += [f"    NVIDIA: {' '.join(theirs.text.split())[:300]}"] if theirs is not None and theirs.text else []
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most-states", type=int, default=20_000, help="of NVIDIA's checker for one schedule")
    parser.add_argument("--without-oracle", action="store_true", help="do not ask NVIDIA's package")
    parser.add_argument("--show", type=int, metavar="SEED", help="print one schedule and what is said of it")
    args = parser.parse_args()
    if args.show is not None:
        one = outcome(args.show, not args.without_oracle, args.most_states)
        print(json.dumps(one.case), one.found.reference, describe(one), sep="\n")
        return 0
    oracle = not args.without_oracle
    outcomes = list(run(args.count, args.seed, oracle=oracle, most_states=args.most_states, jobs=args.jobs))
    print(table(outcomes))
    found = classes(outcomes)
    for kind, those in found.items():
        print(f"{len(those):6}  {kind}")
        print(describe(min(those, key=lambda o: len(json.dumps(o.case)))))
    wrong = sum(len(those) for kind, those in found.items() if kind.startswith("tsgen") or UNEXPLAINED in kind)
    print(f"{args.count} schedules, {sum(map(len, found.values()))} disagreements, {wrong} of them not explained")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
