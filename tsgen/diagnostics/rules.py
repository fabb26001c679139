"""The registry of rules. One rule is one small function; its docstring is what `tsgen explain` prints.

The docstring of a rule has a first line that names the fault, then why it matters and how to mend it.
Codes: TS1xx file, schema and expressions; TS2xx structure and roles; TS3xx pipelines, counts and bytes;
TS4xx deadlock and phases; TS5xx races and aliasing; TS6xx memory and registers; TS7xx clusters and PDL.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import ParamSpec

from tsgen.diagnostics.model import Diagnostic, Finding, Severity
from tsgen.frozen import frozen

P = ParamSpec("P")


@frozen
class Rule:
    """A rule: stable code, short name (kebab-case), severity and explanation."""

    code: str
    name: str
    severity: Severity
    doc: str

    @property
    def summary(self) -> str:
        """The first line of the explanation."""
        return self.doc.split("\n", 1)[0]

    def diagnose(self, f: Finding) -> Diagnostic:
        return Diagnostic(self.code, self.severity, f.message, f.span, f.help, f.related, f.notes)


RULES: dict[str, Rule] = {}


def _register(code: str, name: str, severity: Severity, function: Callable[P, object]) -> Rule:
    if code in RULES:
        raise ValueError(f"rule {code} is registered twice: {RULES[code].name}, {name}")
    rule = RULES[code] = Rule(code, name, severity, inspect.cleandoc(function.__doc__ or ""))
    return rule


def error(
    code: str, name: str, severity: Severity = "error"
) -> Callable[[Callable[P, Finding]], Callable[P, Diagnostic]]:
    """Registers a function that words one fault: its arguments are the facts, it returns the finding."""

    def decorate(function: Callable[P, Finding]) -> Callable[P, Diagnostic]:
        rule = _register(code, name, severity, function)

        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> Diagnostic:
            return rule.diagnose(function(*args, **kwargs))

        return wrapped

    return decorate


def check(
    code: str, name: str, severity: Severity = "error"
) -> Callable[[Callable[P, Iterable[Finding]]], Callable[P, list[Diagnostic]]]:
    """Registers a function that looks for one kind of fault and yields a finding for each place."""

    def decorate(function: Callable[P, Iterable[Finding]]) -> Callable[P, list[Diagnostic]]:
        rule = _register(code, name, severity, function)

        @wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> list[Diagnostic]:
            return [rule.diagnose(f) for f in function(*args, **kwargs)]

        return wrapped

    return decorate
