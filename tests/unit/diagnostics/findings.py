"""Hand-made findings that every output format is shown with."""

from __future__ import annotations

from tsgen.diagnostics import Diagnostic, Finding, Related, Rule, Span
from tsgen.diagnostics.report import FileReport, ProofSummary
from tsgen.diagnostics.rules import RULES

SOURCE = """\
tsgen: 1
kernel: copy
ring:
\tpipeline: {num_bytes: 8192}
\tload: [x]
\u540d\u524d: {x: \x1b[31mred}
schedules:
  load:
    - ring.acquire()
    - ring.commit()
"""

_BYTES = Rule("TS990", "made-up-bytes", "error", "Bytes do not add up.\n\nMade up for the tests of the output formats.")
_STYLE = Rule("TS991", "made-up-style", "warning", "A matter of taste.\n\nMade up for the tests of the output formats.")


def reports() -> list[FileReport]:
    """A file with findings of every shape, a clean one, and one that cannot be read."""
    for rule in (_BYTES, _STYLE):
        RULES[rule.code] = rule
    found = (
        _BYTES.diagnose(
            Finding(
                "16384 bytes arrive, but num_bytes says 8192: 2 x 8192 = 16384",
                Span(4, 24, 4, 28),
                help="write num_bytes: 16384, or leave it out",
                related=(Related("copied here", Span(5, 2, 5, 6)), Related("committed here", Span(10, 7, 10, 20))),
                notes=("the last steps:\n  load | mma\n  fill | wait",),
            )
        ),
        _STYLE.diagnose(Finding("100% of this, and that: a name\nof two lines", Span(6, 1, 6, 3))),
        _STYLE.diagnose(Finding("a block of lines", Span(7, 1, 9, 9))),
    )
    proof = ProofSummary(True, 812, 0.0123, "every trip count, tiles 0 to 3")
    return [
        FileReport("specs/my copy.yaml", SOURCE, found),
        FileReport("specs/gemm.yaml", "tsgen: 1\n", (), proof),
        FileReport("specs/gone.yaml", "", (_missing(),), readable=False),
    ]


def _missing() -> Diagnostic:
    return _BYTES.diagnose(Finding("specs/gone.yaml: no such file", Span.start()))
