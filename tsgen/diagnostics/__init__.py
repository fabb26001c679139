"""Findings with a place: the model, the registry of rules, and the formats they are printed in."""

from tsgen.diagnostics.model import Diagnostic, Finding, Related, Severity, Span
from tsgen.diagnostics.rules import RULES, Rule, check, error

__all__ = ["RULES", "Diagnostic", "Finding", "Related", "Rule", "Severity", "Span", "check", "error"]
