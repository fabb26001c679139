"""Both emissions of a spec synchronise alike: in each warp the same barrier counts, bytes, arrivals, waits, registers.

The TS form compiles only if NVIDIA's TaskManager accepts its schedule: a second opinion on ours. What differs in the
PTX all the same is in REASONS. A difference without one of these fails, and so does a reason that explains nothing.
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pytest

from tests.gpu.builds import BUILDS, ROOT, Build
from tests.support.ptx import Profile, Row, profiles
from tests.support.ptx.compiler import compile_ptx
from tsgen.derive import derive
from tsgen.derive.arrivals import ACQUIRE
from tsgen.derive.unfold import calls as unfolded
from tsgen.derive.unfold import unfold
from tsgen.derive.uses import cluster_size
from tsgen.emit import Form, emit
from tsgen.lower import Unsupported
from tsgen.model.kernel import Kernel, Program
from tsgen.model.steps import CallStep, Guard, When, calls, walk
from tsgen.spec import load_program

pytestmark = [
    pytest.mark.dsl,
    pytest.mark.skipif(importlib.util.find_spec("cutlass") is None, reason="needs nvidia-cutlass-dsl"),
]

REASONS = {
    "leaders": "a task of several CTAs of a cluster, but not of all, is one for each in TS: its steps are there twice",
    "drain": "TS waits at a producer's end for all stages of its rings; needed is that where a peer or an MMA releases",
    "threads": "TS releases what an MMA or a tile query has filled with every thread, CuTe with one lane of each warp",
    "last": "TS runs the last iteration of a loop with `last_iter` behind the loop: its steps are there twice",
    "once": "a loop whose condition holds in its first iteration alone has that before it in CuTe",
    "parts": "a loop whose condition holds in its first iterations is two loops in CuTe: its steps are there twice",
}
SAID = {  # builds of tests/gpu/builds.py, and what tells their two forms apart
    "copy": "",
    "copy_tma": "drain",
    "copy_cond": "drain",
    "copy_every": "drain last",
    "copy_skip_tiles": "",
    "copy_varlen": "",
    "pdl_chain": "",
    "pdl_chain_serial": "",
    "ping_pong": "drain last",
    "split_consumer": "drain",
    "interleave_warp_lanes": "drain",
    "leader_routed_single": "drain",
    "leader_routed_cluster": "",
    "async_load": "drain",
    "group_merge": "drain",
    "group_fork": "drain",
    "group_fused_merge": "drain",
    "gemm_residual": "drain",
    "alias_epilogue": "drain last",
    "both_sides": "drain",
    "once": "drain last",
    "ramp": "",
    "select": "",
    "softmax": "",
    "mirror": "drain",
    "gemm_f16": "",
    "gemm_bf16_bias_gelu": "",
    "gemm_narrow": "drain",
    "attention_causal": "drain parts",
    "attention_varlen": "drain parts",
    "interleave_domain": "drain",
    "rmsnorm": "drain",
    "rmsnorm_rows": "drain",
    "rmsnorm_n65536": "drain",
    "sm100_gemm": "drain threads",
    "sm100_gemm_persistent": "threads",
    "sm100_gemm_static": "threads",
    "sm100_gemm_plain": "threads",
    "sm100_gemm_quad": "threads leaders",
    "sm100_gemm_nvfp4": "threads",
    "sm100_gemm_fp8": "drain threads",
    "sm100_gemm_split_k": "drain threads",
    "sm100_gemm_split_k_4": "drain threads",
    "sm100_group_merge": "drain threads",
    "sm100_group_fork": "drain threads",
    "sm100_attention": "drain threads once",
    "umma_umma": "drain threads",
    "copy_sm100a": "",
    "copy_tma_sm100a": "drain",
    "copy_skip_tiles_sm100a": "",
    "copy_varlen_sm100a": "",
    "async_load_sm100a": "drain",
}
GEMM = "specs/sm100_gemm_persistent.yaml"
BLACKWELL = {
    b.name: b
    for b in (
        Build("sm100_gemm", "specs/sm100_gemm.yaml"),
        Build("sm100_gemm_persistent", GEMM),
        Build("sm100_gemm_static", GEMM, "static"),
        Build("sm100_gemm_plain", GEMM, "plain"),
        Build("sm100_gemm_quad", GEMM, "quad"),
        Build("sm100_gemm_nvfp4", "specs/sm100_gemm_nvfp4.yaml"),
        Build("sm100_gemm_fp8", "specs/sm100_gemm_fp8.yaml"),
        Build("sm100_gemm_split_k", "specs/sm100_gemm_split_k.yaml"),
        Build("sm100_gemm_split_k_4", "specs/sm100_gemm_split_k.yaml", None, {"split": "4"}),
        Build("sm100_group_merge", "specs/sm100_group_merge.yaml"),
        Build("sm100_group_fork", "specs/sm100_group_fork.yaml"),
        Build("sm100_attention", "specs/sm100_attention.yaml"),
        Build("umma_umma", "tests/kernels/umma_umma.yaml"),
        *(
            Build(f"{n}_sm100a", f"specs/{n}.yaml", target="sm_100a")
            for n in ("copy", "copy_tma", "copy_skip_tiles", "copy_varlen", "async_load")
        ),
    )
}
ALL = BUILDS | BLACKWELL
REFUSED = {  # what is said of them, and what stands in the line that is pointed at
    "gemm_pingpong": ("work_tile_loop with first or stride", "work_tile_loop: {queue: tiles, first: w, stride: 2}"),
    "interleave_warp_dense": ("lanes of `ring` for the warps of `store`", "interleave_stride"),
    "ring_registers": ("for the next iteration", "ring.try_acquire()"),
}
FORMS: tuple[Form, ...] = ("cute", "ts")
UNBALANCED = (("        - ring.release()\n", ""),)


@dataclass(frozen=True)
class Case:
    name: str
    program: Program
    reasons: frozenset[str]

    @property
    def target(self) -> str:
        return self.program.kernels[0].target


def edited(folder: Path, spec: str, edits: tuple[tuple[str, str], ...]) -> Program:
    text = (ROOT / spec).read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    path = folder / Path(spec).name
    path.write_text(text)
    result = load_program(path)
    assert result.program is not None, result.diagnostics
    return result.program


def text_of(program: Program, form: Form) -> str:
    return emit(program, [derive(k) for k in program.kernels], form)


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    return {n: Case(n, ALL[n].program(), frozenset(SAID[n].split())) for n in SAID}


@pytest.fixture(scope="module")
def compiled(cases: dict[str, Case], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The PTX of every case in both forms, and what TS says of a schedule that does not balance."""
    folder = tmp_path_factory.mktemp("modules")
    broken = edited(folder, "specs/copy_tma.yaml", UNBALANCED)
    texts = {"unbalanced.ts": text_of(broken, "ts")}
    for c in cases.values():
        for form in FORMS:
            texts[f"{c.name}.{form}"] = text_of(c.program, form)
    found: dict[str, str] = {}
    targets = {name: cases[name.split(".")[0]].target if name.split(".")[0] in cases else "sm_90a" for name in texts}
    for target in sorted(set(targets.values())):
        paths = {folder / target / f"{n.replace('.', '_')}.py": n for n, t in targets.items() if t == target}
        (folder / target).mkdir()
        for path, name in paths.items():
            path.write_text(texts[name], encoding="utf-8")
        found |= {paths[path]: ptx for path, ptx in compile_ptx(list(paths), target).items()}
    return found


@cache
def profile_of(ptx: str, kernel: str) -> Profile:
    assert not ptx.startswith("error"), ptx[:3000]
    return next(p for name, p in profiles(ptx).items() if f"_{kernel}_kernel" in name)


def drained(kernel: Kernel) -> list[int]:
    """How many waits TS adds to each warp: one for each stage of the rings that its task fills."""
    derived = derive(kernel)
    extra = [0] * derived.block_warps
    later = {m for g in kernel.groups.values() if g.mode == "fork" for m in g.members[1:]}
    for task in kernel.tasks:
        steps = task.schedule.steps
        filled = {c.target for c in calls(steps) if c.method in ("acquire", "commit")}
        filled |= {m for g in kernel.groups.values() if g.name in filled for m in g.members}
        for name in filled - later - set(kernel.groups):
            p = kernel.resources[name].pipeline
            assert p is not None
            lanes = p.interleave_stride[ACQUIRE]
            n = p.num_stages if lanes == 1 else p.num_stages // lanes - 1
            n = 1 if p.type == "umma_async" else n  # the last stage alone: commits arrive in order
            by_itself = (
                derived.arrivals[name].empty_by == "umma" or name in derived.pairs or p.type == "clc_fetch_async"
            )
            n = 0 if derived.peers.get(name, 1) > 1 or by_itself else n
            each = kernel.resources[name].each
            n *= each.count if each is not None and task.each is None else 1
            for instance in task.instances:
                for w in instance.warps:
                    extra[w] += n
    return extra


def folded(kernel: Kernel, profile: Profile, blocks: type[Guard] | type[When], *, inside: bool = False) -> Profile:
    """The profile with the steps of tasks that have such blocks in their loops counted once, wherever they stand;
    `inside`: in as many loops."""
    warps = {
        w
        for t in kernel.tasks
        for x in walk(t.schedule.steps)
        if isinstance(x, blocks) and (not isinstance(x, Guard) or x.kind == "last_iter")
        for i in t.instances
        for w in i.warps
    }

    def once(p: Counter[Row]) -> Counter[Row]:
        inits = Counter({r: n for r, n in p.items() if r.key.startswith("mbarrier.init")})
        return inits + Counter({replace(r, loops=r.loops if inside else 0): 1 for r in p if r not in inits})

    return tuple(once(p) if w in warps else p for w, p in enumerate(profile))


def once_for_all(kernel: Kernel, ts: Profile) -> Profile:
    """The profile of TS with the steps of a task of several leaders counted once."""
    found = [Counter(p) for p in ts]
    pairs = cluster_size(kernel) // 2
    for task, instance in kernel.instances():
        for w in instance.warps if task.cta == "leader" else ():
            found[w] = Counter({r: n // pairs if n % pairs == 0 else n for r, n in found[w].items()})
    return tuple(found)


def by_threads(kernel: Kernel, cute: Profile, ts: Profile) -> Profile:
    """The profile of CuTe with the arrivals of all threads where TS has them: as often as the steps release such rings,
    at their barriers' counts times 32, and without the `sync_warp` before the one lane."""
    derived = derive(kernel)
    found = [Counter(p) for p in cute]
    rings: set[str] = set()
    for r in kernel.resources.values():
        if r.pipeline is not None and r.pipeline.type in BY_THREAD and derived.arrivals[r.name].empty_by == "warp":
            group = next((g for g in kernel.groups.values() if r.name in g.members and g.mode == "merge"), None)
            rings.add(r.name if group is None else group.name)
            count, stages = derived.arrivals[r.name].empty, r.pipeline.num_stages
            for _ in range(1 if r.each is None else r.each.count):
                few, many = (Row(f"mbarrier.init(count={n})", 0, True) for n in (count, 32 * count))
                moved(found[0], few, many, stages)
    for task, instance in kernel.instances():
        steps = [x.step for x in unfolded(unfold(kernel, task, instance))]
        n = sum(isinstance(c, CallStep) and c.method == "release" and c.target in rings for c in steps)
        split = any(isinstance(x, When) for x in walk(task.schedule.steps))  # then a step may be there twice
        for w in instance.warps:
            one_lane = [r for r in cute[w] if r.key.startswith("mbarrier.arrive(") and r.one_lane]
            no_others = sum(cute[w][r] for r in one_lane) in ((n, 2 * n) if split else (n,))
            for row in one_lane:
                every = replace(row, one_lane=False)
                moved(found[w], row, every, cute[w][row] if no_others else min(n, ts[w][every] - found[w][every]))
            for row in [r for r in cute[w] if r.key == "bar.warp.sync"]:
                moved(found[w], row, None, min(n, found[w][row] - ts[w][row]))
    return tuple(+p for p in found)


def moved(p: Counter[Row], row: Row, to: Row | None, n: int) -> None:
    """So many instructions of one kind are of another kind."""
    p[row] -= max(0, n)
    if to is not None:
        p[to] += max(0, n)


BY_THREAD = ("umma_async", "clc_fetch_async")
WAIT = Row("mbarrier.try_wait(until it is over)", 0, False)


def differences(case: Case, compiled: dict[str, str], reasons: frozenset[str]) -> Iterator[str]:
    """What differs in spite of these reasons, warp by warp."""
    for kernel in case.program.kernels:
        a, b = (profile_of(compiled[f"{case.name}.{form}"], kernel.name) for form in FORMS)
        if "leaders" in reasons:
            b = once_for_all(kernel, b)
        if "threads" in reasons:
            a = by_threads(kernel, a, b)
        if "drain" in reasons:
            b = tuple(p - Counter({WAIT: n}) for p, n in zip(b, drained(kernel), strict=True))
        for reason, blocks, inside in (("last", Guard, False), ("once", When, False), ("parts", When, True)):
            if reason in reasons:
                a, b = (folded(kernel, p, blocks, inside=inside) for p in (a, b))
        for warp, (p, q) in enumerate(zip(a, b, strict=True)):
            yield from (f"{kernel.name} warp {warp}: {r}: {p[r]} in CuTe, {q[r]} in TS" for r in p | q if p[r] != q[r])


@pytest.mark.parametrize("name", SAID)
def test_both_forms_synchronise_alike(name: str, cases: dict[str, Case], compiled: dict[str, str]) -> None:
    case = cases[name]
    assert not list(differences(case, compiled, case.reasons))


@pytest.mark.parametrize("name", [n for n, reasons in SAID.items() if reasons])
def test_every_reason_explains_something(name: str, cases: dict[str, Case], compiled: dict[str, str]) -> None:
    case = cases[name]
    for reason in case.reasons:
        assert reason in REASONS
        assert list(differences(case, compiled, case.reasons - {reason})), reason


def test_profiles_hold_something(cases: dict[str, Case], compiled: dict[str, str]) -> None:
    """What the comparison rests on: the GEMM's barriers, bytes, registers and PDL are all seen."""
    (profile,) = profiles(compiled["gemm_f16.ts"]).values()
    keys = {r.key for p in profile for r in p}
    assert {"mbarrier.init(count=16)", "mbarrier.init(count=1)", "mbarrier.arrive.expect_tx(bytes=49152)"} <= keys
    assert {"setmaxnreg.inc(n=232)", "setmaxnreg.dec(n=40)", "griddepcontrol.wait", "wgmma.wait_group(n=1)"} <= keys
    assert all(p[WAIT] == 0 or w == 8 for w, p in enumerate(profile))
    assert {r.key for r in profile[11]} == {"setmaxnreg.dec(n=40)", *(r.key for r in profile[10])}


def test_ts_rejects_what_does_not_balance(compiled: dict[str, str]) -> None:
    """The compiled modules did pass NVIDIA's TaskManager: it is asked, and it says no where it should."""
    assert compiled["unbalanced.ts"].startswith("error: ValueError")
    assert "not matched by ConsumerRelease" in compiled["unbalanced.ts"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_ts_cannot_say_is_named(name: str) -> None:
    what, there = REFUSED[name]
    with pytest.raises(Unsupported) as refused:
        text_of(ALL[name].program(), "ts")
    found = refused.value.diagnostic
    assert what in found.message and "in TS" in found.message and found.help
    assert there in (ROOT / ALL[name].spec).read_text().splitlines()[found.span.line - 1]


def test_every_spec_is_either_said_or_refused() -> None:
    known = {ALL[n].spec for n in (*SAID, *REFUSED)}
    assert {f"specs/{p.name}" for p in (ROOT / "specs").glob("*.yaml")} <= known
