"""What the emitter cannot do yet, said by name."""

from __future__ import annotations

from typing import NoReturn

from tsgen.diagnostics import Diagnostic, Finding, Span, error


@error("TS801", "not-emitted")
def not_emitted(what: str, span: Span, help: str | None = None) -> Finding:
    """The language has a construct for which no code is generated yet.

    `tsgen check` accepts such a spec, so that a schedule can be designed and proven; `tsgen build` names what is
    missing and writes nothing.
    """
    return Finding(f"no code can be generated for {what}", span, help)


@error("TS802", "work-without-code")
def work_without_code(name: str, span: Span) -> Finding:
    """A work says only its role: enough for a proof, not for a kernel.

    Give it an `op:`, a `body:` or a `call:` before building.
    """
    return Finding(f"work `{name}` has no code", span, help="give it an `op:`, a `body:` or a `call:`")


class Unsupported(Exception):
    """Lowering stopped at this finding."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def refuse(what: str, span: Span, help: str | None = None) -> NoReturn:
    """Stops lowering: no code can be generated for `what`."""
    raise Unsupported(not_emitted(what, span, help))
