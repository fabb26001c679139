"""`python -m tests.simulation.verdicts [--write] [WORD...]`: the verifier's verdict on each wrong variant beside the
simulator's; --write keeps the runs that go wrong in seen.json, which the tests repeat.

A variant that the verifier rejects because of its order (TS3xx to TS5xx, TS70x) must hang, race or give wrong numbers
in the simulator under some seed; where it does not, `EXPLAINED` says why. Exits 1 if a row is unexplained.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing import Pool
from pathlib import Path

from tests.simulation.wrong import Wrong, wrong_variants
from tsgen.cli.analysis import Case, analyse
from tsgen.cli.options import Selection, one
from tsgen.model.chain import whole
from tsgen.runtime.errors import CannotRun
from tsgen.simulate.run import simulate
from tsgen.simulate.scheduler import POLICIES
from tsgen.simulate.shapes import small_shapes

SEEDS = 20
SEEN = Path(__file__).with_name("seen.json")
SHAPES: dict[str, Sequence[Mapping[str, int]]] = {  # by kernel: enough trips to go round each ring, some edges
    "gemm": [{"L": 1, "M": 200, "N": 328, "K": 72}, {"L": 1, "M": 200, "N": 264, "K": 520}],
    "gemm_pingpong": [{"L": 1, "M": 264, "N": 264, "K": k} for k in (136, 392, 8)],
    "gemm_residual": [{"M": 200, "N": 264, "K": 456}, {"M": 8, "N": 8, "K": 0}],
    "alias_epilogue": [{"M": 200, "N": 520, "K": 328}],
    "attention": [{"B": 3, "Sq": 300, "Sk": 400, "Hq": 2, "Hk": 1}],
    "split_consumer": [{"M": 64, "N": 128, "K": 72}, {"M": 64, "N": 128, "K": 648}],
    "group_fork": [{"M": 64, "N": 128, "K": 648}],
    "group_fused_merge": [{"M": 64, "N": 128, "K": 648}],
    "group_merge": [{"M": 64, "N": 300}],
    "interleave_warp": [{"B": 2, "N": 5000}],
    "interleave_domain": [{"M": 64, "N": 64}, {"M": 300, "N": 64}],
    "leader_routed": [{"C": 2, "M": 128, "N": 520}],
    "async_load": [{"V": 50, "T": 20, "N": 5000}],
    "copy_tma": [{"M": 64, "N": 64}, {"M": 64, "N": 520}],
    "sm100_gemm_fp8": [{"L": 1, "M": 136, "N": 264, "K": 656}],
    "copy_cond": [{"T": 9, "N": 64}],
    "copy_every": [{"P": 5, "B": 1, "T": 3}],
    "copy_skip_tiles": [{"M": 3, "N": 600}],
    "copy_varlen": [{"S": 9, "T": 90, "W": 32}],
    "copy": [{"N": 5000}],
    "ping_pong": [{"B": 1}],
    "rmsnorm": [{"R": 30}],
    "spec": [{"N": 5000}],
    "sm100_gemm": [{"L": 1, "M": 136, "N": 264, "K": 328}, {"L": 1, "M": 8, "N": 8, "K": 0}],
    "sm100_gemm_persistent": [{"L": 1, "M": 264, "N": 264, "K": 456}],
    "sm100_gemm_nvfp4": [{"L": 1, "M": 256, "N": 256, "K": 1536}],
    "sm100_gemm_split_k": [{"M": 136, "N": 72, "K": 1304}],
    "sm100_group_fork": [{"M": 136, "N": 136, "K": 456}],
    "sm100_group_merge": [{"M": 136, "N": 136, "K": 456}],
    "sm100_attention": [{"B": 1, "Sq": 200, "Sk": 400, "Hq": 1, "Hk": 1}],
}
NUMBERS = "wrong numbers"
ORDER = ("TS3", "TS4", "TS5", "TS70")

USELESS = "useless, but no hazard of order"
COMPARED = "the number is only compared with others; what arms the barrier is right"
NO_CODE = "its works are roles without code: there is nothing to run"
LAUNCH = "the next grid waits for this one, which waits for the one before: only what it touches earlier is in danger"
EXPLAINED: dict[str, str] = {
    "cases: barrier_without_wait": USELESS,
    "cases: unused_barrier": USELESS,
    "cases: unused_try": USELESS,
    "cases: answer_of_some_waits": USELESS,
    "cases: tiles_overlap": "the tiles write equal values",
    "cases: bytes_per_warp": COMPARED,
    "leader_routed cluster: bytes of a warp that are those of all": COMPARED,
    "cases: fork_bytes": NO_CODE,
    "cases: group_pipeline": NO_CODE,
    "cases: launch_before_wait": LAUNCH,
    "pdl_chain: launched before it has waited": LAUNCH,
    "cases: group_mode": "each member's barriers do what its type says: what is missing is an emission for it",
    "cases: signaling": "a mode that this type of pipeline does not have changes nothing",
    "cases: too_many_barriers": "barrier ids are limited on the device only",
}


@dataclass(frozen=True)
class Seen:
    """A run that goes wrong: what happens, and how to see it again."""

    what: str
    variant: str
    shape: Mapping[str, int]
    seed: int

    def __str__(self) -> str:
        dims = ", ".join(f"{k}={v}" for k, v in self.shape.items())
        return f"{self.what} ({dims}, seed {self.seed}{f', {self.variant}' if self.variant else ''})"


@dataclass(frozen=True)
class Row:
    """Both verdicts on one variant."""

    name: str
    codes: tuple[str, ...]
    simulator: Seen | str

    @property
    def seen(self) -> bool:
        return isinstance(self.simulator, Seen)

    @property
    def explained(self) -> str:
        return EXPLAINED.get(self.name, "")


def judge(wrong: Wrong) -> Row | None:
    """Both verdicts; None for a variant that is no schedule, or whose fault is not one of order. One that is explained
    runs once under each policy, to see that it is right."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"spec{wrong.suffix}"
        path.write_text(wrong.text, encoding="utf-8")
        selection = Selection({}) if wrong.variant is None else one({}, wrong.variant, None)
        checked = analyse(str(path), selection)
        codes = tuple(dict.fromkeys(d.code for d in checked.report.diagnostics if d.severity == "error"))
        if not checked.cases or not any(c.startswith(ORDER) for c in codes):
            return None
        if wrong.name in EXPLAINED:
            return Row(wrong.name, codes, verdict(checked.cases[:1], len(POLICIES)))
        return Row(wrong.name, codes, verdict(checked.cases))


def verdict(cases: Iterable[Case], seeds: int = SEEDS) -> Seen | str:
    """The first thing that goes wrong in the simulator; else why nothing was run, or an empty text."""
    refused = ""
    numbers: Seen | None = None
    for case in cases:
        try:
            shapes = _shapes(case)
        except CannotRun as e:
            return f"refused: {e.message}"
        for shape in shapes:
            for seed in range(seeds):
                try:
                    outcome = simulate(case.program, case.kernels, shape, seed)
                except CannotRun as e:
                    refused = f"refused: {e.message}"
                    break
                if outcome.ok:
                    continue
                found = Seen(
                    outcome.finding.kind if outcome.finding is not None else NUMBERS, case.suffix[1:], shape, seed
                )
                if found.what != NUMBERS:
                    return found
                numbers = numbers or found
                break  # a hang or a race says more: try another shape
    return numbers or refused


def _shapes(case: Case) -> Sequence[Mapping[str, int]]:
    """The shapes above, or, for a kernel with other dims, those of its reference."""
    kernel = whole(case.program)
    mine = [s for s in SHAPES.get(kernel.name.removeprefix("chain_"), ()) if set(s) == set(kernel.dims)]
    return mine or small_shapes(kernel)


def table(rows: Iterable[Row]) -> str:
    rows = list(rows)
    width = max(len(r.name) for r in rows)
    lines = [f"{'variant'.ljust(width)}  {'verifier':14}  simulator"]
    for r in rows:
        said = str(r.simulator) or "right in every run"
        lines.append(f"{r.name.ljust(width)}  {' '.join(r.codes):14}  {said}{': ' if r.explained else ''}{r.explained}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    words = [a for a in arguments if a != "--write"]
    chosen = [w for w in wrong_variants() if not words or any(word in w.name for word in words)]
    with Pool(2) as pool:
        rows = [r for r in pool.imap(judge, chosen) if r is not None]
    print(table(rows))
    open_rows = [r for r in rows if not r.seen and not r.explained]
    print(f"{len(rows)} variants: {sum(r.seen for r in rows)} seen to go wrong, {len(open_rows)} unexplained")
    if "--write" in arguments:
        known = json.loads(SEEN.read_text(encoding="utf-8")) if words else {}
        seen = {n: run for n, run in known.items() if all(r.name != n for r in rows)}
        seen |= {r.name: asdict(r.simulator) for r in rows if isinstance(r.simulator, Seen)}
        SEEN.write_text(json.dumps(seen, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if open_rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
