"""Fixtures of the GPU tests.

TSGEN_AOT is the folder that tests.gpu.builds filled (without it the DSL builds here), TSGEN_BUILD the builds to test.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.gpu.builds import BUILDS, Build
from tests.gpu.hosted import hosted
from tsgen.runtime.errors import CannotRun
from tsgen.runtime.launch import import_module

AOT = os.environ.get("TSGEN_AOT")
ONLY = os.environ.get("TSGEN_BUILD", ",".join(BUILDS)).split(",")
lines: list[str] = []  # what tests report, printed at the end


def reason_to_skip() -> str | None:
    """Why nothing can be run on a GPU here, if so."""
    from tsgen.runtime.device import find_device

    try:
        find_device("sm_90a")
    except CannotRun as e:
        return e.message
    if AOT is None and importlib.util.find_spec("cutlass") is None:
        return "neither the DSL nor built artefacts (TSGEN_AOT)"
    return None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "builds(spec or prefix...): builds of a spec, or whose names begin so")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ours = [i for i in items if i.path.parent == Path(__file__).parent]
    reason = reason_to_skip() if ours else None
    for item in ours:
        item.add_marker(pytest.mark.gpu)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "built" in metafunc.fixturenames:
        kinds = metafunc.definition.get_closest_marker("builds")
        prefix = kinds.args if kinds is not None else ("",)
        names = [n for n in BUILDS if n in ONLY and any(n.startswith(p) or BUILDS[n].spec == p for p in prefix)]
        metafunc.parametrize("built", names, indirect=True)


@dataclass(frozen=True)
class Built:
    """A kernel that can be called: `host` is the generated module's own function."""

    build: Build
    module: Path
    host: Callable[..., object]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(AOT).resolve() if AOT is not None else tmp_path_factory.mktemp("builds")


@pytest.fixture(scope="module")
def built(request: pytest.FixtureRequest, folder: Path) -> Built:
    build = BUILDS[request.param]
    path = build.module(folder) if AOT is not None else build.emit(folder)
    module = hosted(path) if AOT is not None else import_module(path)
    return Built(build, path, getattr(module, build.kernel().name))


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Prints a line at the end of the session."""
    return lambda text: lines.append(text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in lines:
        terminalreporter.write_line(line)
