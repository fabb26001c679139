"""Line breaks and imports of generated text."""

from __future__ import annotations

from tsgen.emit.layout import WIDTH, fold, imports


def test_short_lines_stay() -> None:
    assert fold("f(a, b)\n    g(c)") == "f(a, b)\n    g(c)"


def test_long_call_moves_to_its_own_line() -> None:
    line = "    result = function(" + ", ".join(["argument"] * 11) + ")"
    folded = fold(line).split("\n")
    assert folded == ["    result = function(", "        " + ", ".join(["argument"] * 11), "    )"]
    assert max(map(len, folded)) <= WIDTH


def test_too_long_for_one_line_gets_an_argument_a_line() -> None:
    line = "call(" + ", ".join(f"argument_number_{i}[a, b]" for i in range(9)) + ")"
    folded = fold(line).split("\n")
    assert folded[0] == "call(" and folded[-1] == ")" and len(folded) == 11
    assert folded[1] == "    argument_number_0[a, b],"


def test_brackets_in_strings_do_not_count() -> None:
    line = 'need(condition, "a message with ( in it, and commas, ' + "x" * 100 + '", kind)'
    assert fold(line).split("\n")[0] == "need("


def test_imports_are_those_used() -> None:
    text = imports("x = cute.make(Float32(1))\npipeline.NamedBarrier", ())
    assert "import cutlass.cute as cute" in text and "from cutlass import Float32" in text
    assert "Int64" not in text and "warpgroup" not in text and "import math" not in text
