"""`python -m tests.support.regenerate`: writes golden files anew: of the output formats, of tests/cases, of README.md.

The expected findings (expected.json) are written by hand, as they are the statement of what a rule must find; only how
they are printed is generated. Review the difference before committing it.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.cases import CASES, case_folders, full_text
from tests.support.readme import README, printed, rewritten
from tests.unit.diagnostics.findings import reports
from tests.unit.diagnostics.test_formats import SNAPSHOTS
from tsgen.diagnostics.formats import FORMATS, render


def main() -> None:
    SNAPSHOTS.mkdir(exist_ok=True)
    for name in FORMATS:
        (SNAPSHOTS / f"{name}.txt").write_text(render(name, reports()), encoding="utf-8")
    for case in case_folders():
        (CASES / case / "full.txt").write_text(full_text(case), encoding="utf-8")
    with TemporaryDirectory() as folder:
        text = rewritten(lambda command: printed(command, Path(folder)))
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
