"""The examples of README and docs are real: commands print what is said there, and specs have what is quoted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.support.examples import DOCUMENTS, blocks, excerpts, printed
from tests.support.golden import timeless
from tests.support.process import ROOT

README = ROOT / "README.md"
EXAMPLES = [example for document in DOCUMENTS for example in blocks(document)]


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[c for c, _ in EXAMPLES])
def test_a_command_prints_what_the_document_says(command: str, output: str, tmp_path: Path) -> None:
    """`python -m tests.support.regenerate` writes the outputs anew."""
    assert timeless(printed(command, tmp_path)) == timeless(output)


def test_the_heart_of_a_spec_is_in_the_spec() -> None:
    """Only the layout of what README quotes may be another: a part of the spec, or it would show what is not there."""
    ((spec, text),) = excerpts("README.md")
    whole, heart = yaml.safe_load((ROOT / spec).read_text()), yaml.safe_load(text)
    assert heart and heart == {key: whole[key] for key in heart}


def test_the_test_command_is_that_of_ci() -> None:
    command = next(line for line in README.read_text().splitlines() if "-m pytest" in line)
    assert command in (ROOT / ".ci/run").read_text()


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)]+)\)", README.read_text())
    assert links and [link for link in links if not (ROOT / link).exists()] == []
