"""A comparison as text, as Markdown for a comment on a pull request, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

from tsgen.diagnostics.formats.full import counted
from tsgen.diagnostics.formats.style import Painter, Tint, printable
from tsgen.diagnostics.jsontext import Json, dumps
from tsgen.diff.compare import Change, Comparison, Side, TaskSteps
from tsgen.diff.steps import StepChange

_SIGNS: dict[str, tuple[str, Tint]] = {
    "added": ("+", "added"),
    "removed": ("-", "removed"),
    "changed": ("~", "warning"),
    "moved": (">", "note"),
}
SAME = "no change in meaning"


def to_text(c: Comparison, color: bool) -> str:
    """Sections with a sign before each change; the proof at the end."""
    paint = Painter(color)
    out = [paint("strong", f"{printable(c.old.report.path)} → {printable(c.new.report.path)}")]
    if c.same:
        out.append(SAME)
    for section, changes in _by_section(c):
        out.append(paint("strong", section))
        out += [f"  {_signed(x.kind, _change_text(x), paint)}" for x in changes]
    for task in c.steps:
        out.append(paint("strong", f"steps of {task.task}{_in(task.variants)}"))
        out += [f"  {_signed(x.kind, _step_text(x), paint)}" for x in task.changes]
    out += [paint("strong", "proof"), f"  before: {_proof(c.old)}", f"  after:  {_proof(c.new)}"]
    return "\n".join(out) + "\n"


def to_markdown(c: Comparison) -> str:
    """A heading, a table for each section, the steps as a diff, and the proof."""
    out = [f"### {_code(c.old.report.path)} → {_code(c.new.report.path)}", ""]
    if c.same:
        out += [f"{SAME.capitalize()}.", ""]
    for section, changes in _by_section(c):
        out += [f"**{section}**", "", "| what | before | after |", "|---|---|---|"]
        out += [_row(x) for x in changes]
        out.append("")
    for task in c.steps:
        out += [f"**steps of {_code(task.task)}{_in(task.variants)}**", "", "```diff"]
        out += [f"{'!' if x.kind == 'moved' else _SIGNS[x.kind][0]} {_step_text(x)}" for x in task.changes]
        out += ["```", ""]
    out += ["| proof | |", "|---|---|", f"| before | {_cell(_proof(c.old))} |", f"| after | {_cell(_proof(c.new))} |"]
    return "\n".join(out) + "\n"


def to_json(c: Comparison) -> str:
    """Everything, with lines; an absent value is null."""
    return dumps(
        {
            "same": c.same,
            "old": _side(c.old),
            "new": _side(c.new),
            "changes": [_change_json(x) for x in c.changes],
            "steps": [_steps_json(t) for t in c.steps],
        }
    )


def _by_section(c: Comparison) -> Iterator[tuple[str, list[Change]]]:
    for section in dict.fromkeys(x.section for x in c.changes):
        yield section, [x for x in c.changes if x.section == section]


def _signed(kind: str, text: str, paint: Painter) -> str:
    sign, tint = _SIGNS[kind]
    return paint(tint, f"{sign} {printable(text)}")


def _change_text(x: Change) -> str:
    value = f"{x.old} → {x.new}{_difference(x)}" if x.kind == "changed" else f"{x.new if x.old is None else x.old}"
    return f"{x.subject} {x.attribute}: {value}{_lines(x.old_line, x.new_line)}{_in(x.variants)}"


def _difference(x: Change) -> str:
    """` (+98304)` behind two whole numbers."""
    old, new = x.old or "", x.new or ""
    return f" ({int(new) - int(old):+d})" if old.isdecimal() and new.isdecimal() else ""


def _step_text(x: StepChange) -> str:
    if x.kind == "moved":
        return f"{x.text}  (line {x.old_line} → {x.new_line}, now {x.where})"
    return f"{x.text}  (line {x.new_line or x.old_line}, {x.where})"


def _lines(old: int, new: int) -> str:
    if not old and not new:
        return ""
    if not old or not new or old == new:
        return f"  (line {new or old})"
    return f"  (line {old} → {new})"


def _in(variants: tuple[str, ...]) -> str:
    return f"  [variant {', '.join(variants)}]" if variants else ""


def _proof(side: Side) -> str:
    report, p = side.report, side.report.proof
    if report.errors:
        codes = ", ".join(dict.fromkeys(d.code for d in report.diagnostics if d.severity == "error"))
        return f"fails: {counted(report.errors, 'error')} ({codes})"
    warnings = f", {counted(report.warnings, 'warning')}" if report.warnings else ""
    return f"{'complete' if p.complete else 'incomplete'}, {counted(p.states, 'state')}{warnings}"


def _row(x: Change) -> str:
    what = f"{_code(x.subject)} {x.attribute}{_in(x.variants)}"
    return f"| {_cell(what)} | {_cell(x.old or '–')} | {_cell((x.new or '–') + _difference(x))} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _code(text: str) -> str:
    return f"`{text}`"


def _side(side: Side) -> Json:
    p = side.report.proof
    return {
        "path": side.report.path,
        "ok": side.report.ok,
        "codes": sorted({d.code for d in side.report.diagnostics}),
        "proof": {"complete": p.complete, "states": p.states, "seconds": round(p.seconds, 6)},
    }


def _change_json(x: Change) -> Json:
    return {
        "kernel": x.kernel,
        "kind": x.kind,
        "section": x.section,
        "subject": x.subject,
        "attribute": x.attribute,
        "old": x.old,
        "new": x.new,
        "old_line": x.old_line or None,
        "new_line": x.new_line or None,
        "variants": list(x.variants),
    }


def _steps_json(t: TaskSteps) -> Json:
    changes: Json = [
        {
            "kind": x.kind,
            "step": x.text,
            "old_line": x.old_line or None,
            "new_line": x.new_line or None,
            "where": x.where,
        }
        for x in t.changes
    ]
    return {"kernel": t.kernel, "task": t.task, "changes": changes, "variants": list(t.variants)}
