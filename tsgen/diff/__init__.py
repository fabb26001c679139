"""What changed in meaning between two specs. FORMATS lists how that is printed."""

from __future__ import annotations

from tsgen.diff.compare import Comparison, Side, compare

__all__ = ["FORMATS", "Comparison", "Side", "compare", "render"]

FORMATS = ("text", "markdown", "json")


def render(comparison: Comparison, format: str, *, color: bool = False) -> str:
    """The comparison in one of FORMATS."""
    from tsgen.diff import report

    if format == "json":
        return report.to_json(comparison)
    return report.to_markdown(comparison) if format == "markdown" else report.to_text(comparison, color)
