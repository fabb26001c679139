"""Integers on the device are those of the language: remainders are those of rounding down, unsigned numbers do not
wrap around below zero."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.lower.build import module

SPEC = """tsgen: 1
kernel: integers
target: sm_90a
doc: Stores where a condition holds.
tensors:
  mode: {{dtype: i32, shape: [T]}}
  byte: {{dtype: u8, shape: [T], work: {{get: {{op: load, takes: [i], from: "byte[i]", returns: [z]}}}}}}
  word: {{dtype: u32, shape: [T]}}
  y:
    dtype: i32
    shape: [B, T]
    output: true
    work: {{put: {{op: store, takes: [i], value: "{value}", to: "y[b, i]"}}}}
launch: {{tiles: {{b: B}}, let: {{n: "B - T"}}}}
resources:
  r:
    kind: rmem
    storage: {{c: {{dtype: u32, shape: []}}}}
    work: {{take: {{op: load, takes: [i], from: "word[i]", to: c}}}}
graph: {{y: [mode, byte, word]}}
schedules:
  p:
    - domain_loop: {{var: i, end: T}}
      steps:
        - r.take(i=i)
        - z = byte.get(i=i)
        - {{when_true: {{cond: "{condition}"}}, steps: [y.put(i=i)]}}
tasks: {{p: {{warp_idx: 0, num_warps: 1}}}}
"""


def text(tmp_path: Path, condition: str = "i >= 0", value: str = "1") -> str:
    path = tmp_path / "integers.yaml"
    path.write_text(SPEC.format(condition=condition, value=value))
    return module(tmp_path, str(path))


@pytest.mark.parametrize(
    ("condition", "emitted"),
    [
        ("(i - 1) % 3 == 2", "((i - 1) % 3 + 3) % 3 == 2"),
        ("mode[i] % 2 == 1", "(mode[i] % 2 + 2) % 2 == 1"),
        ("n % 4 == 1", "(n % 4 + 4) % 4 == 1"),
        ("mode[i] % 2 != 0", "if mode[i] % 2 != 0"),  # zero is zero
        ("(i - 1) % 3 % 2 == 0", "if ((i - 1) % 3 + 3) % 3 % 2 == 0"),
        ("(i + 1) % 3 == 2", "if (i + 1) % 3 == 2"),
        ("(i + T) % B == 2", "if (i + T) % B == 2"),
        ("word[i] % 3 == 2", "if Int32(word[i]) % 3 == 2"),
        ("(i - 1) // 3 == 2", "if (i - 1) // 3 == 2"),  # rounds down in the DSL, too
        ("word[i] - 1 >= 0", "Int32(word[i]) - 1 >= 0"),
        ("byte[i]*300 >= 0", "Int32(byte[i]) * 300 >= 0"),
        ("z - 1 >= 0", "Int32(z) - 1 >= 0"),
        ("r.c - 1 >= 0", "Int32(r_c[0]) - 1 >= 0"),
    ],
)
def test_conditions(tmp_path: Path, condition: str, emitted: str) -> None:
    assert emitted in text(tmp_path, condition)


def test_values(tmp_path: Path) -> None:
    assert "Int32(((i - 1) % 3 + 3) % 3)" in text(tmp_path, value="(i - 1) % 3")
    assert "Int32((i + 1) % 3)" in text(tmp_path, value="(i + 1) % 3")
