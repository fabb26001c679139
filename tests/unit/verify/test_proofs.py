"""The examples are proven, by closure; and the proof agrees with plain runs for many trip counts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.kernels import NAMES, kernel
from tsgen.derive import derive
from tsgen.derive.uses import uses
from tsgen.model.kernel import Kernel
from tsgen.verify import verify
from tsgen.verify.build import Builder
from tsgen.verify.code import Coder
from tsgen.verify.explore import explore, finish, first_need
from tsgen.verify.machine import System
from tsgen.verify.run import Runner
from tsgen.verify.state import State


def system_of(k: Kernel) -> System:
    facts = uses(k)
    builder = Builder(k, derive(k, facts), facts)
    Coder(builder).run()
    return builder.system


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_proven_for_everything(tmp_path: Path, name: str) -> None:
    k = kernel(tmp_path, name)
    report = verify(k, derive(k))
    assert report.diagnostics == ()
    assert report.proof.complete and report.proof.method == "closure"
    assert report.proof.statement.startswith("no deadlock, race, phase or credit error in any interleaving")


@pytest.mark.parametrize("name", NAMES)
def test_merging_states_is_not_needed_for_the_verdict(tmp_path: Path, name: str) -> None:
    system = system_of(kernel(tmp_path, name))
    agents = list(range(len(system.agents)))
    merged = explore(system, agents, {})
    assert merged.problem is None and merged.closed
    if merged.states < 60:
        apart = explore(system, agents, {}, limit=1500, widen=False)
        assert apart.problem is None


def run_through(system: System, agents: list[int], trips: int, tiles: int, dice: random.Random) -> State:
    """One run with given numbers, decisions by dice."""
    fixed = {i: u.low + trips if u.low else trips for i, u in enumerate(system.symbols.unknowns)}
    fixed.update(dict.fromkeys(system.tile_unknowns.values(), tiles))
    runner = Runner(system, agents, fixed)
    st = State(system)
    while True:
        problem, needs = runner.run(st)
        assert problem is None, problem
        if not needs:
            assert finish(system, agents, st) is None
            return st
        decision = first_need(needs)
        st.decided[decision] = decision.tile % 2 == 0


@pytest.mark.parametrize("name", ["gemm", "gemm_pingpong", "attention", "sm100_attention", "copy_cond", "copy_every"])
def test_the_proof_agrees_with_plain_runs(tmp_path: Path, name: str) -> None:
    """The closure covers all numbers; here some are run one by one, each the same in all tiles."""
    system = system_of(kernel(tmp_path, name))
    agents = list(range(len(system.agents)))
    for trips in range(9):
        for tiles in (0, 1, 3):
            run_through(system, agents, trips, max(tiles, 1) if name.startswith("sm100") else tiles, random.Random(0))


@pytest.mark.parametrize("name", ["gemm", "attention", "sm100_gemm_persistent", "group_merge"])
def test_the_order_of_service_does_not_matter(tmp_path: Path, name: str) -> None:
    """Confluence: all maximal runs reach the same positions, phases and counts."""
    system = system_of(kernel(tmp_path, name))
    agents = list(range(len(system.agents)))
    dice = random.Random(1)
    ends = set()
    for _ in range(6):
        st = run_through(system, agents, 5, 2, dice)
        ends.add((tuple(st.position), tuple(st.done), tuple(st.count), tuple(st.pc)))
        dice.shuffle(agents)
    assert len(ends) == 1


def test_unrelated_tasks_are_explored_apart(tmp_path: Path) -> None:
    from tsgen.verify.parts import parts

    system = system_of(kernel(tmp_path, "gemm"))
    assert len(parts(system)) == 1
    assert len(parts(system_of(kernel(tmp_path, "copy_tma")))) == 1
