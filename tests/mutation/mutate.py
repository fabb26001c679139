"""`python -m tests.mutation.mutate [SPEC...]`: mutants of the bundled specs through `check`; prints the score.

Every mutant that is wrong must be rejected, by a finding at the lines that were changed or with them as a related
place. Mutants that are accepted must stand in equivalent.toml with the reason. Exits 1 if a mutant is neither.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from multiprocessing import Pool
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
KINDS = ("remove", "repeat", "swap", "stages", "arrivals", "bytes", "threads")


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    verdict: str  # killed, elsewhere, equivalent, alive
    why: str  # the codes and places of the findings, or the reason


@dataclass(frozen=True)
class Reason:
    pattern: str
    reason: str


def reasons() -> list[Reason]:
    table = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return [Reason(entry["mutant"], entry["reason"]) for entry in table]


def reason_of(mutant: Mutant) -> str | None:
    """Why a mutant is equivalent, if it is said to be."""
    name = mutant.name.replace("[", "(").replace("]", ")")  # brackets mean something in patterns
    return next((r.reason for r in reasons() if fnmatchcase(name, r.pattern)), None)


def judge(mutant: Mutant) -> Result:
    """Checks one mutant."""
    from tests.support.checking import check_text

    report = check_text(mutant.text)
    errors = [d for d in report.diagnostics if d.severity == "error"]
    if not errors:
        reason = reason_of(mutant)
        return Result(mutant, "alive" if reason is None else "equivalent", reason or "")
    places = [s for d in errors for s in (d.span, *(r.span for r in d.related))]
    at = any(set(range(s.line, s.end_line + 1)) & mutant.lines for s in places)
    found = "; ".join(f"{d.code} {d.span.line}: {d.message[:90]}" for d in errors[:3])
    return Result(mutant, "killed" if at else "elsewhere", found)


def results(paths: Iterable[Path], jobs: int = 2) -> Iterator[Result]:
    """The verdict on every mutant of some specs."""
    found = [m for path in paths for m in mutants(path)]
    if jobs == 1:
        yield from map(judge, found)
        return
    with Pool(jobs) as pool:
        yield from pool.imap(judge, found, chunksize=4)


def table(found: list[Result]) -> str:
    """Mutants by spec and kind: how many, how many killed."""
    specs = list(dict.fromkeys(r.mutant.spec for r in found))
    lines = [f"{'spec':28} " + " ".join(f"{k:>9}" for k in KINDS) + "   killed elsewhere equivalent alive"]
    for spec in [*specs, "all"]:
        mine = [r for r in found if spec in (r.mutant.spec, "all")]
        by_kind = Counter(r.mutant.kind for r in mine)
        killed = Counter(r.mutant.kind for r in mine if r.verdict == "killed")
        cells = " ".join(f"{f'{killed[k]}/{by_kind[k]}' if by_kind[k] else '':>9}" for k in KINDS)
        verdicts = Counter(r.verdict for r in mine)
        tail = f"{verdicts['killed']:8} {verdicts['elsewhere']:9} {verdicts['equivalent']:10} {verdicts['alive']:5}"
        lines.append(f"{spec:28} {cells} {tail}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("specs", nargs="*", type=Path, default=sorted((ROOT / "specs").glob("*.yaml")))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--equivalent", action="store_true", help="list equivalent mutants with their reasons")
    args = parser.parse_args()
    found = list(results(args.specs, args.jobs))
    for verdict in ("alive", "elsewhere", *(("equivalent",) if args.equivalent else ())):
        for r in found:
            if r.verdict == verdict:
                print(f"{verdict:10} {r.mutant.name}" + (f"\n{'':11}{r.why}" if r.why else ""))
    print(table(found))
    return 1 if any(r.verdict in ("alive", "elsewhere") for r in found) else 0


if __name__ == "__main__":
    sys.exit(main())
