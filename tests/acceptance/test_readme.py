"""README's example is real: every command in it prints what README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.golden import timeless
from tests.support.process import ROOT
from tests.support.readme import README, blocks, printed


@pytest.mark.parametrize(("command", "output"), blocks(), ids=[c for c, _ in blocks()])
def test_a_command_prints_what_readme_says(command: str, output: str, tmp_path: Path) -> None:
    """`python -m tests.support.regenerate` writes the outputs anew."""
    assert timeless(printed(command, tmp_path)) == timeless(output)


def test_the_test_command_is_that_of_ci() -> None:
    command = next(line for line in README.read_text().splitlines() if "-m pytest" in line)
    assert command in (ROOT / ".ci/run").read_text()


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)]+)\)", README.read_text())
    assert links and [link for link in links if not (ROOT / link).exists()] == []
