"""Works, bodies, tasks and steps beyond what the sketches show: what must be accepted, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tsgen.diagnostics import Diagnostic
from tsgen.model.expr import text
from tsgen.model.kernel import Kernel
from tsgen.model.ops import accesses
from tsgen.model.steps import CallStep, StaticIf, walk
from tsgen.runtime.functions import ACTIVATIONS as RUNTIME_ACTIVATIONS
from tsgen.spec import load_program
from tsgen.spec.parse import ACTIVATIONS

LANGUAGE = Path(__file__).parents[2] / "language"


def changed(folder: Path, name: str, *edits: tuple[str, str]) -> tuple[Kernel | None, tuple[Diagnostic, ...]]:
    source = (LANGUAGE / f"{name}.yaml").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new, 1)
    path = folder / "spec.yaml"
    path.write_text(source, encoding="utf-8")
    result = load_program(path)
    return (result.program.kernels[0] if result.program else None), result.diagnostics


def accepted(folder: Path, name: str, *edits: tuple[str, str]) -> Kernel:
    kernel, found = changed(folder, name, *edits)
    assert kernel is not None, [d.message for d in found]
    return kernel


def refused(folder: Path, name: str, *edits: tuple[str, str]) -> Diagnostic:
    kernel, found = changed(folder, name, *edits)
    assert kernel is None and len(found) == 1, [f"{d.code} {d.message}" for d in found]
    return found[0]


LOAD = 'load: {op: tma_load, takes: [j], copies: [{to: t, from: "x[m*tile_m:+tile_m, j*tile_n:+tile_n]"}]}'
READ = "read: {op: load, from: t, returns: [v]}"


def test_a_work_may_be_only_a_role_while_a_schedule_is_designed(tmp_path: Path) -> None:
    k = accepted(
        tmp_path,
        "copy_tma",
        (LOAD, "load: {role: producer, takes: [j]}"),
        (READ, "read: {role: consumer, returns: [v]}"),
    )
    load, read = k.resources["ring"].works["load"], k.resources["ring"].works["read"]
    assert (load.op, load.body, load.call) == (None, None, None)
    assert [(a.mode, a.ref.resource, a.ref.name) for a in accesses(load)] == [("write", "ring", "t")]
    assert [(a.mode, a.ref.resource, a.ref.name) for a in accesses(read)] == [("read", "ring", "t")]


def test_a_call_has_facts_of_its_own(tmp_path: Path) -> None:
    call = "load: {call: my.works:load, role: producer, takes: [j], reads: {src: x}, async: tx, bytes: 64*64*2}"
    work = accepted(tmp_path, "copy_tma", (LOAD, call)).resources["ring"].works["load"]
    assert (work.call, work.engine) == ("my.works:load", "tx")
    assert work.nbytes is not None and text(work.nbytes.expr) == "64*64*2"
    assert {(a.mode, a.engine, a.ref.resource, a.ref.name) for a in accesses(work)} == {
        ("write", "tx", "ring", "t"),
        ("read", "tx", None, "x"),
    }


def test_a_work_without_op_needs_its_role(tmp_path: Path) -> None:
    found = refused(tmp_path, "copy_tma", (LOAD, "load: {body: pass, takes: [j]}"))
    assert (found.code, found.message) == ("TS121", "a body needs the key `role`")


BITS = "keep = (mode[i] & 1) != 0"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cute.arch.mbarrier_wait(stage, 0)", "TS215"),
        ("cute.arch.barrier(barrier_id=1)", "TS215"),
        ("cute.arch.sync_warp()", "TS215"),
        ("cute.arch.griddepcontrol_wait()", "TS215"),
        ("cute.arch.cp_async_wait_group(0)", "TS215"),
        ("cute.nvgpu.warpgroup.wait_group(0)", "TS215"),
        ("cute.arch.cluster_wait()", "TS215"),
        ("cutlass.pipeline.sync()", "TS215"),
        ("ptx = 'bar.sync 1, 128;'", "TS215"),
        ("ptx = 'mbarrier.arrive.shared.b64 _, [%0];'", "TS215"),
        ("getattr(cute.arch, 'sync_' + 'threads')()", "TS215"),
        ("cute.__dict__['arch'].sync_thread()", "TS215"),
        ("ptx = 'bar' + '.sync 1'", "TS215"),
        ("ptx = f'bar.sync {stage}'", "TS215"),
        ("mode[i] = 0", "TS249"),
        ("mode[i] |= 1", "TS249"),
        ("m = mode; m[i] = 0", "TS249"),
        ("cute.autovec_copy(keep, cute.local_tile(mode, (1,), (0,)))", "TS249"),
        ("part = cute.local_tile(mode, (1,), (0,)); part.fill(0)", "TS249"),
        ("cute.basic_copy(src=keep, dst=mode)", "TS249"),
        ("return 3", "TS217"),
        ("import os", "TS216"),
        ("q = ring", "TS216"),
        ("q = )", "TS214"),
    ],
)
def test_what_a_body_may_not_do(line: str, code: str, tmp_path: Path) -> None:
    found = refused(tmp_path, "copy_cond", (BITS, f"{BITS}\n          {line}"))
    assert found.code == code
    source = (tmp_path / "spec.yaml").read_text(encoding="utf-8").split("\n")
    assert line in source[found.span.line - 1] and found.span.column > 10


@pytest.mark.parametrize(
    "line",
    [
        "cute.arch.cp_async_commit_group()",
        "q = [abs(z) for z in range(rows)]",
        "q = thread + threads + warp + lane + stage + T + c",
        "q = max(i, M) if True else math.inf",
        "q = cute.arch.shuffle_sync_bfly(i, 1)",
        "q = 'no barrier here'",
        "q = mode[i]; q = q + 1; q += 1",
        "q = cute.make_fragment_like(mode); q.fill(0); cute.autovec_copy(mode, q)",
        "q = cute.local_tile(mode, (1,), (0,)).load()",
    ],
)
def test_what_a_body_may_do(line: str, tmp_path: Path) -> None:
    accepted(tmp_path, "copy_cond", (BITS, f"{BITS}\n          {line}"))


def test_places_in_a_body_are_those_of_the_file(tmp_path: Path) -> None:
    found = refused(tmp_path, "copy_cond", (BITS, "keep = (mode[ii] & 1) != 0"))
    assert (found.span.line, found.span.column, found.span.end_column) == (20, 24, 26)


def test_two_tasks_may_run_one_schedule(tmp_path: Path) -> None:
    k = accepted(
        tmp_path,
        "copy_tma",
        (
            "  store: {warp_idx: 0, num_warps: 4",
            "  a: {schedule: store, warp_idx: 0, num_warps: 2}\n  b: {schedule: store, warp_idx: 2, num_warps: 2",
        ),
    )
    assert [(t.name, t.schedule.name) for t in k.tasks] == [("a", "store"), ("b", "store"), ("load", "load")]


def test_a_schedule_sees_the_instance_variable_of_every_task_that_runs_it(tmp_path: Path) -> None:
    found = refused(
        tmp_path,
        "interleave_domain",
        ("  load: {warp_idx: 8", "  more: {schedule: store, warp_idx: 12, num_warps: 4}\n  load: {warp_idx: 8"),
    )
    assert (found.code, found.message) == ("TS130", "unknown name `w`")


def test_an_absent_task_takes_its_schedule_with_it(tmp_path: Path) -> None:
    k = accepted(tmp_path, "copy_tma", ("  load: {warp_idx: 4,", "  load: {if: stages < 4, warp_idx: 4,"))
    assert [t.name for t in k.tasks] == ["store"] and list(k.schedules) == ["store"]


def test_a_choice_over_params_is_taken_and_one_over_instances_stays(tmp_path: Path) -> None:
    k = accepted(
        tmp_path,
        "copy_tma",
        (
            "        - ring.commit()",
            "        - if: stages > 3\n          steps: [ring.commit()]\n          else: [nothing.at_all()]",
        ),
    )
    calls = [s.method for s in walk(k.schedules["load"].steps) if isinstance(s, CallStep)]
    assert calls == ["try_acquire", "acquire", "load", "commit"]
    source = (LANGUAGE / "gemm_pingpong.yaml").read_text(encoding="utf-8")
    assert "if: w == 1" in source
    steps = accepted(tmp_path, "gemm_pingpong").schedules["mma"].steps
    assert isinstance(steps[0], StaticIf)


def test_a_token_of_both_branches_is_known_after_them(tmp_path: Path) -> None:
    both = "- if: w == 0\n          steps: [v = ring.read()]\n          else: [v = ring.read()]"
    accepted(tmp_path, "interleave_domain", ("- v = ring.read()", both))
    one = "- if: w == 0\n          steps: [v = ring.read()]"
    found = refused(tmp_path, "interleave_domain", ("- v = ring.read()", one))
    assert found.code == "TS238"


def test_a_skip_must_be_known_at_launch(tmp_path: Path) -> None:
    found = refused(tmp_path, "gemm_pingpong", ("ab.skip(k_tiles)                 #", "ab.skip(m)                 #"))
    assert (found.code, found.message) == (
        "TS139",
        "`m` is known for each tile only; the count of `skip` must be known at launch",
    )


def test_groups_of_each_mode_take_their_own_steps(tmp_path: Path) -> None:
    found = refused(tmp_path, "group_fork", ("- a_fork.commit()", "- a_fork.release()"))
    assert found.message == "`release` of the fork group `a_fork` stands on its members"
    waits = ("        - ring_p.wait()\n        - ring_q.wait()\n", "        - pq.wait()\n        - ring_q.try_wait()\n")
    found = refused(tmp_path, "group_merge", ("mode: merge", "mode: fused_merge"), waits)
    assert found.message == "`try_wait` of `ring_q` belongs to the fused_merge group `pq`"


def test_guards_may_stand_beside_each_other_and_around_compile_time_blocks(tmp_path: Path) -> None:
    accepted(
        tmp_path,
        "ping_pong",
        ("            - buf.fill()", "            - for: {q: 2}\n              steps: [buf.fill()]"),
        (
            "        - buf.double()",
            "        - last_iter: {}\n          steps: [buf.double()]\n        - when_false: {cond: i > 3}\n"
            "          steps: [buf.double()]",
        ),
    )


def test_the_activations_of_the_language_are_those_of_the_reference() -> None:
    assert set(ACTIVATIONS) == set(RUNTIME_ACTIVATIONS)


def test_a_shape_with_an_unknown_extent_is_not_judged(tmp_path: Path) -> None:
    accepted(
        tmp_path,
        "copy_every",
        ("cursor.page, (i % per_page)*rows:+rows, :]", "cursor.page, (i % per_page)*rows:+rows, 0:+cols]"),
    )
    found = refused(tmp_path, "copy_every", ("(i % per_page)*rows:+rows, :]", "(i % per_page)*rows:+T, :]"))
    assert (found.code, found.message) == ("TS114", "`T` must be known at compile time, but `T` is not")


def test_one_broken_work_gives_no_findings_at_its_calls(tmp_path: Path) -> None:
    found = refused(tmp_path, "copy_tma", (READ, "read: {op: load, from: tt, returns: [v]}"))
    assert (found.code, found.message) == ("TS130", "unknown name `tt`")


def test_a_scheduler_may_be_an_expression_over_params(tmp_path: Path) -> None:
    """The ring of answers is there where the hardware answers; a word that is no scheduler has no value."""
    accepted(
        tmp_path, "copy_skip_tiles", ("scheduler: static_persistent", 'scheduler: "static_persistent if 1 else x"')
    )
    found = refused(tmp_path, "copy_skip_tiles", ("scheduler: static_persistent", "scheduler: 1 + 1"))
    assert found.code == "TS113" and "`static_persistent` or `clc_dynamic` is wanted" in found.message


def test_integers_may_be_written_as_whole_floats_but_not_as_halves(tmp_path: Path) -> None:
    accepted(tmp_path, "copy_tma", ("stages: 4}", "stages: 16 / 4}"))
    found = refused(tmp_path, "copy_tma", ("stages: 4}", "stages: 9 / 2}"))
    assert found.message == "`stages` has no value: it is 4.5, an integer is wanted"
