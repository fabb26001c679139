"""`python -m tests.support.regenerate`: writes anew what is printed by the code and kept in files.

The snapshots of the output formats, `full.txt` of the cases, the outputs in README.md and docs/simulation.md,
docs/rules.md and the schema for editors. The expected findings of the cases (expected.json) are written by hand: they
state what a rule must find.
Review the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.cases import CASES, case_folders, full_text
from tests.support.examples import DOCUMENTS, printed, rewritten
from tests.support.golden import renew
from tests.support.process import ROOT, tsgen
from tests.unit.diagnostics.findings import reports
from tests.unit.diagnostics.test_formats import SNAPSHOTS
from tsgen.diagnostics.formats import FORMATS, render


def main() -> None:
    SNAPSHOTS.mkdir(exist_ok=True)
    for name in FORMATS:
        renew(SNAPSHOTS / f"{name}.txt", render(name, reports()))
    for case in case_folders():
        renew(CASES / case / "full.txt", full_text(case))
    with TemporaryDirectory() as folder:
        for document in DOCUMENTS:
            renew(ROOT / document, rewritten(document, lambda command: printed(command, Path(folder))))
    renew(ROOT / "docs/rules.md", tsgen("rules", "--format", "markdown").stdout)
    renew(ROOT / "tsgen/schema/kernel.schema.json", tsgen("schema").stdout)


if __name__ == "__main__":
    main()
