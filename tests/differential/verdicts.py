"""The same schedule before three judges: tsgen, NVIDIA's TaskManager, and the exhaustive reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tests.support.checking import check_text
from tests.support.exhaustive import judge
from tests.support.oracle_case import Case as Read
from tests.support.ts_json import convert, walk

Case = Mapping[str, Any]
MORE_STATES = 2_000_000
Answer = Literal["accept", "reject", "none"]  # none: the judge gives no answer


@dataclass(frozen=True)
class Opinion:
    answer: Answer
    why: tuple[str, ...]  # codes of tsgen, the check of NVIDIA's, the faults of the reference
    text: str = ""
    states: int = 0
    seconds: float = 0.0
    sample: bool = False  # of the reference: no answer, since only some environments were searched, without a finding


@dataclass(frozen=True)
class Opinions:
    """What each says. `theirs` is None where NVIDIA's package was not asked."""

    ours: Opinion
    theirs: Opinion | None
    reference: Opinion


def ours(case: Case) -> Opinion:
    report = check_text(convert(case))
    errors = [d for d in report.diagnostics if d.severity == "error"]
    text = "; ".join(f"{d.code} {d.span.line}: {d.message}" for d in errors)
    answer: Answer = "reject" if errors else "accept" if report.proof.complete else "none"
    codes = tuple(dict.fromkeys(d.code for d in errors))
    return Opinion(answer, codes, text, report.proof.states, report.proof.seconds)


def theirs(case: Case, most_states: int | None) -> Opinion:
    """NVIDIA's verdict. At its cap it accepts with a warning: that is no answer."""
    from tests.oracle import ts_oracle

    found = ts_oracle.judge(dict(case), most_states)
    if found["verdict"] == "reject":
        return Opinion("reject", (str(found["check"]),), str(found["message"]), found["states"], found["seconds"])
    capped = any(v["hit_limit"] for v in found["variants"])
    return Opinion("none" if capped else "accept", (), "", found["states"], found["seconds"])


def reference(case: Case, most_states: int = 60_000) -> Opinion:
    found = judge(case, most_states)
    answer: Answer = "none" if found.good is None else "accept" if found.good else "reject"
    sample = found.sample and answer == "none"
    return Opinion(answer, tuple(sorted(found.faults)), str(found.environment or ""), found.states, sample=sample)


def opinions(case: Case, *, oracle: bool = True, most_states: int = 20_000) -> Opinions:
    found = Opinions(ours(case), theirs(case, most_states) if oracle else None, reference(case))
    if found.theirs is None or found.reference.answer != "none" or found.theirs.answer in ("none", found.ours.answer):
        return found
    return Opinions(found.ours, found.theirs, reference(case, MORE_STATES))  # somebody is wrong: who?


# ---- why NVIDIA's checker is wrong -----------------------------------------------------------------------------


def _blocks(case: Case, *names: str) -> bool:
    return any(isinstance(n, dict) and any(k in n for k in names) for t in case["tasks"] for n in walk(t["body"]))


def _unknown(case: Case) -> bool:
    return any("runtime" in n.get("loop", ()) for t in case["tasks"] for n in walk(t["body"]) if isinstance(n, dict))


def _shared(case: Case) -> bool:
    """Whether several tasks share a side of a ring."""
    rings = [r["name"] for r in case["resources"] if r.get("pipeline")]
    return any(sum(r in t.get(side, ()) for t in case["tasks"]) > 1 for r in rings for side in ("src", "dst"))


def _without_wait(case: Case) -> bool:
    """Whether some ring is released and never waited for: its consumers know through another that it is full."""
    parsed = Read(case)
    return any(not any(parsed.has(t, r, "wait") for t in case["tasks"]) for r in parsed.rings)


def _one_fills_fused(case: Case) -> bool:
    fused = [set(g["members"]) for g in case.get("groups", []) if g["mode"] == "fused_merge"]
    return any(members <= set(t.get("dst", ())) for members in fused for t in case["tasks"])


def blind_spot(case: Case, found: Opinions) -> str | None:
    """Which known limit of NVIDIA's checker (ts-semantics 8.1 and 8.2) explains that it errs; None if none does."""
    assert found.theirs is not None
    faults = set(found.reference.why)
    check = found.theirs.why[0] if found.theirs.why else ""
    if found.theirs.answer == "accept":
        if _unknown(case):
            return "F8: an unknown trip count is simulated as one"
        if "count" in faults and case.get("groups"):
            return "F9: counts of the side that a group shares are not checked"
        if "leak" in faults and _blocks(case, "when_true", "when_false"):
            return "F6: leftovers are counted for true conditions only"
        if "leak" in faults and _blocks(case, "skippable"):
            return "F7: leftovers are counted for tiles that are not skipped"
        if "bracket" in faults:
            return "F10: brackets are matched in the text, not per iteration and not one to one"
        if _shared(case):
            return "F5: tasks on one side of a ring share credits"
        if "phase" in faults:
            return "parity: barriers are counters, not one bit"
        if faults == {"try"}:
            return "F1: the answer of a try stays valid for ever"
        if faults == {"order"}:
            return "C156: only releases before works on what TMA or the tensor core fills are looked at"
        if "race" in faults:
            return "F2: memory without a pipeline is compared with other resources only"
        return None
    if check == "_exhaustive_aliasing_races":
        return "F-P5: accesses to memory without a pipeline stay open, reads are taken for writes"
    if _unknown(case):
        return "F-P6: an unknown trip count is simulated as one"
    if check == "_verify_work_group_bracketing":
        return "F10: brackets are matched in the text, steps that never run included"
    if check == "_print_task_schedules" and _one_fills_fused(case):
        return "F-P7: one task fills both members of a fused merge, and its commits count double"
    if check == "_print_task_schedules" and "not consumed" in found.theirs.text and _without_wait(case):
        return "proxies: a ring that nobody waits for counts as never consumed"
    if check == "_print_task_schedules" and "not " in found.theirs.text and _shared(case):
        return "F-P2: tasks on one side of a ring share credits"
    return None
