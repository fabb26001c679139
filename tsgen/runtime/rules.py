"""The findings of compiling: TS8xx."""

from __future__ import annotations

from tsgen.diagnostics import Finding, Span, error


@error("TS810", "generated-code-rejected")
def generated_code_rejected(module: str, line: int | None, summary: str, log: tuple[str, ...], span: Span) -> Finding:
    """The DSL or ptxas rejects the generated module.

    The schedule was proven and the module written, but compiling it failed. The place is the construct of the spec
    whose code was being compiled; the last lines of the compiler follow. The usual causes: a `body:` or `call:` with
    code that the DSL does not take, a tile shape that no instruction has, more shared memory or registers than the
    target allows. If the spec has none of these, the emitter is at fault: please report it with the spec.
    """
    at = module if line is None else f"{module}:{line}"
    return Finding(f"the DSL rejects the generated code at {at}: {summary}", span, notes=log)
