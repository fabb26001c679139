"""Which conditions are one: what their outcomes are made of, however they are written. Each wrong kernel is rejected,
and the right one beside it is proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.checking import check_text

HEAD = """tsgen: 1
kernel: conditions
target: sm_90a
doc: One warp loads blocks, four warps store them, both under conditions.
params: {io: f16, rows: 64, cols: 64}
tensors:
  x: {dtype: io, shape: [M, N]}
  f:
    dtype: i32
    shape: [L]
    output: true
    work:
      flag: {role: consumer, attrs: [auxiliary], takes: [i], returns: [k], body: "k = f[i] > 0"}
      set: {op: store, takes: [j], value: j, to: "f[m]"}
  y:
    dtype: io
    shape: [M, N]
    output: true
    work: {put: {op: store, takes: [j, v], value: v, to: "y[m*rows:+rows, j*cols:+cols]"}}
launch: {tiles: {m: "ceil_div(M, rows)"}, let: {n: "ceil_div(N, cols)", fm: "f[m]", many: n > 4}}
resources:
  q: {kind: work_queue, scheduler: static_persistent}
  c:
    kind: rmem
    storage: {page: {dtype: i32, shape: []}}
    work:
      first: {op: load, from: "f[0]", to: page}
      other: {op: load, from: "f[1]", to: page}
      next: {op: load, takes: [i], from: "f[i]", to: page}
      each: {op: load, from: "f[thread]", to: page}
  ring:
    kind: smem
    storage: {t: {dtype: io, shape: [rows, cols]}}
    pipeline: {type: tma_async, num_stages: 4}
    work:
      load: {op: tma_load, takes: [j], copies: [{to: t, from: "x[m*rows:+rows, j*cols:+cols]"}]}
      read: {op: load, from: t, returns: [v]}
      flag: {role: consumer, returns: [k], body: "k = t[0, 0] > 0"}
"""
TASKS = "tasks: {store: {warp_idx: 0, num_warps: 4}, load: {warp_idx: 4, num_warps: 1}}\n"
LOAD = "[ring.acquire(), ring.load(j=j), ring.commit()]"
STORE = '[ring.wait(), v = ring.read(), "y.put(j=j, v=v)", ring.release()]'


def loop(when: str, steps: str, before: str = "", around: str = "", var: str = "j", **bounds: str) -> str:
    """A loop with steps under a condition. `before`: steps of the body before it; `around`: a block between them."""
    options = {"end": "n", **bounds}
    text = f"    - domain_loop: {{var: {var}, {', '.join(f'{k}: {v!r}' for k, v in options.items())}}}\n      steps:\n"
    text += "".join(f"        - {s}\n" for s in before.split("; ") if s)
    body = f"{when}\n  steps: {steps}".replace("\n", "\n        ")
    if around:
        return text + f"        - {around}\n          steps:\n            - " + body.replace("\n", "\n    ") + "\n"
    return text + f"        - {body}\n"


def codes(load: str, store: str) -> list[str]:
    edges = [
        f"{to}: [{', '.join([data, *_read(text)])}]" for to, data, text in (("ring", "x", load), ("y", "ring", store))
    ]
    text = f"{HEAD}graph: {{{', '.join(edges)}}}\nschedules:\n  load:\n{load}  store:\n{store}{TASKS}"
    report = check_text(text)
    assert report.diagnostics or report.proof.complete
    found = [d.code for d in report.diagnostics if d.severity == "error"]
    assert set(found) <= {"TS246", "TS400", "TS404", "TS405"}, [d.message for d in report.diagnostics]
    return found


def _read(steps: str) -> list[str]:
    """The tensor that conditions are made of."""
    return ["f"] if any(x in steps for x in ("f[", "fm", "f.flag", "c.")) else []


def both(load: str, store: str) -> list[str]:
    """The codes for two conditions of one loop."""
    return codes(loop(load, LOAD), loop(store, STORE))


def true(cond: str, **more: str) -> str:
    rest = "".join(f", {k}: {v}" for k, v in more.items())
    return f'when_true: {{cond: "{cond}"{rest}}}'


def false(cond: str) -> str:
    return f'when_false: {{cond: "{cond}"}}'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (true("f[j] != 0"), true("0 != f[j]")),
        (true("f[j] != 0"), false("f[j] == 0")),
        (true("f[j] > 0"), true("not f[j] <= 0")),
        (true("f[j] > 0"), true("f[j] >= 1")),
        (true("2*f[j] > 1"), true("f[j] >= 1")),
        (true("fm > 0"), true("f[m] > 0")),
        (true("many"), true("n > 4")),
        (true("many"), false("not many")),
        (true("f[j] > 0 and f[m] == 2"), true("not (2 != fm or f[j] <= 0)")),
        (true("0 < f[j] < 4"), true("f[j] < 4 and f[j] > 0")),
        (true("j % 2 == 0"), false("j % 2 == 1")),
        (true("min(j, 3) == 3"), true("j >= 3")),
        (true("max(j, m) == m"), true("j <= m")),
        (true("j < min(fm, 3)"), true("j < 3 and j < fm")),
        (true("j // 4 != (j - 1) // 4"), true("j % 4 == 0")),
        (true("(m + j) % 2 == 0"), true("m % 2 == j % 2")),
        (true("(m + j) % 2 == 0"), true("(j + m % 2) % 2 == 0")),
        (true("N % 64 > 0"), true("N % 64 != 0")),
        (true("(fm > 1) == (j > 1)"), true("fm > 1 and j > 1 or fm <= 1 and j <= 1")),
        (true("j > 2 if m == 0 else j > 1"), true("m == 0 and j > 2 or m != 0 and j > 1")),
        (true("j >= max(0, m - 2)"), true("j >= m - 2")),
    ],
)
def test_conditions_that_say_the_same_are_one(one: str, other: str) -> None:
    assert both(one, other) == []
    assert (
        both(one, other.replace("when_true", "when_").replace("false", "true").replace("when_:", "when_false:")) != []
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f[j] > 0", "f[j + 1] > 0"),
        ("f[j] > 0", "f[j] > 1"),
        ("j < 2", "j < 3"),
    ],
)
def test_conditions_that_differ_are_two(one: str, other: str) -> None:
    assert both(true(one), true(other)) != []


def test_a_key_does_not_make_one_of_what_can_be_computed() -> None:
    assert both(true("j < 2", key="same"), true("j < 3", key="same")) != []
    assert both(true("j < 2", key="one"), true("2 > j", key="other")) == []
    assert both(true("f[j] > 0", key="same"), true("f[j] > 1", key="same")) == []  # the spec says so
    assert both(true("f[j] > 0", key="one"), true("f[j] > 0", key="other")) != []


def test_conditions_are_computed_from_the_values_of_their_own_loop() -> None:
    late = {"start": "1", "end": "1 + n"}
    assert codes(loop(true("j == 1"), LOAD), loop(true("j == 1"), STORE, **late)) != []
    assert codes(loop(true("j == 0"), LOAD), loop(true("j == 1"), STORE, **late)) == []
    assert codes(loop(true("i == 1"), LOAD.replace("j=j", "j=i"), var="i"), loop(true("j == 1"), STORE)) == []


def test_an_element_is_chosen_by_the_value_of_the_loop_variable() -> None:
    for start in ("n", "m"):
        late = {"start": start, "end": f"{start} + n"}
        assert codes(loop(true("f[j] > 0"), LOAD), loop(true("f[j] > 0"), STORE, **late)) != []
        assert codes(loop(true("f[j] > 0"), LOAD, **late), loop(true("f[j] > 0"), STORE, **late)) == []


def test_indices_of_a_for_are_written_out() -> None:
    def under(values: str, index: str = "j + p") -> tuple[str, str]:
        return loop(true("f[j + p] > 0"), LOAD, around="for: {p: 2}"), loop(
            true(f"f[{index}] > 0"), STORE, around=f"for: {{p: {values}}}"
        )

    assert codes(*under("[1, 1]")) != []
    assert codes(*under("2")) == []
    assert codes(*under("2", "j + 1 - p")) == []  # which of the two it was plays no part


def test_a_token_is_what_made_it() -> None:
    load = loop(true("k"), LOAD, "k = f.flag(i=j)")
    assert codes(load, loop(true("keep"), STORE, "keep = f.flag(i=j)")) == []
    assert codes(load, loop(true("k"), STORE, "k = f.flag(i=j + 1)")) != []
    assert codes(load, loop(true("k"), STORE, "k = f.flag(i=j)", start="m", end="m + n")) != []
    load = loop(true("k > 0"), LOAD, "k = f.flag(i=j)")
    assert codes(load, loop(true("0 < k"), STORE, "k = f.flag(i=j)")) == []
    assert codes(load, loop(true("k >= 1"), STORE, "k = f.flag(i=j)")) != []  # it need not be an integer


def test_a_token_of_a_loop_is_not_the_one_before_the_loop() -> None:
    once = "    - k = f.flag(i=0)\n"
    load = once + loop(true("k"), LOAD)
    assert codes(load, loop(true("k"), STORE, "k = f.flag(i=0)")) == []
    assert codes(load, once + loop(true("k"), STORE) + "") == []
    changed = once + loop(true("k"), STORE).replace(STORE, STORE[:-1] + "]") + "        - k = f.flag(i=j)\n"
    assert codes(load, changed) != []


def test_a_register_is_what_was_written_to_it_last() -> None:
    first, other, later = "c.first()", "c.other()", "c.next(i=j)"
    positive = true("c.page > 0")
    assert codes(loop(positive, LOAD, first), loop(positive, STORE, other)) != []
    assert codes(loop(positive, LOAD, first), loop(positive, STORE, first)) == []
    start = "first_iter: {}\n          steps: [c.first()]"
    assert codes(loop(positive, LOAD, start), loop(positive, STORE, start)) == []
    assert codes(loop(positive, LOAD, start), loop(positive, STORE, start.replace("first()", "other()"))) != []
    assert codes(loop(positive, LOAD, later), loop(positive, STORE, later)) == []
    unwritten = true("c.page > f[j]")
    assert codes(loop(unwritten, LOAD), loop(unwritten, STORE)) != []  # each task has its own


def test_a_register_that_changes_is_another_value_after() -> None:
    split = loop(true("c.page > 0"), "[ring.acquire(), ring.load(j=j)]", "c.next(i=j)")
    again = "        - when_true: {cond: c.page > 0}\n          steps: [ring.commit()]\n"
    store = loop(true("c.page > 0"), STORE, "c.next(i=j)")
    assert codes(split + again, store) == []
    assert codes(split + "        - c.next(i=j + 1)\n" + again, store) != []


def test_a_register_that_differs_between_threads_decides_no_pipeline_step() -> None:
    each = loop(true("c.page > 0"), LOAD, "c.each()")
    assert set(codes(each, loop(true("c.page > 0"), STORE, "c.each()"))) == {"TS246"}
    assert codes(loop(true("c.page > 0"), LOAD, "c.next(i=j)"), loop(true("c.page > 0"), STORE, "c.next(i=j)")) == []


def test_each_stage_of_a_ring_has_an_outcome_of_its_own() -> None:
    load = loop("for: {p: 2}", LOAD)
    turn = "        - ring.wait()\n        - k = ring.flag()\n"
    part = "        - when_true: {cond: k}\n          steps: [ring.release()]\n"
    head = "    - domain_loop: {var: j, end: n}\n      steps:\n"
    rest = "        - when_false: {cond: k}\n          steps: [ring.release()]\n"
    read = '        - v = ring.read()\n        - "y.put(j=j, v=v)"\n'
    assert codes(load, head + 2 * (turn + read + part + rest)) == []
    assert codes(load, head + turn + read + part + turn + rest + read + part + rest) != []


TILES = (
    '    - work_tile_loop: {{queue: q, skip_if: "{0}"}}\n      steps:\n        - skippable: {{}}\n          steps:\n'
)


def tiles(skip: str, steps: str) -> str:
    body = f"            - domain_loop: {{var: j, end: n}}\n              steps: {steps}\n"
    return TILES.format(skip) + body


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("f[m] <= 0", "f[m] <= 0", True),
        ("f[m] <= 0", "fm <= 0", True),
        ("f[m] <= 0", "f[m] < 1", True),
        ("f[m] == 0", "0 == f[m]", True),
        ("f[m] > 0", "not f[m] <= 0", True),
        ("f[m] > 0", "f[m] <= 0", False),
        ("f[m] > 0", "f[m + 1] > 0", False),
        ("m*rows >= f[m]", "64*m >= fm", True),
    ],
)
def test_skipped_tiles_are_the_same_in_all_tasks(one: str, other: str, same: bool) -> None:
    assert (codes(tiles(one, LOAD), tiles(other, STORE)) == []) is same


def test_a_condition_and_a_skipped_tile_are_one() -> None:
    load = "    - work_tile_loop: {queue: q}\n      steps:\n" + loop(true("f[m] != 0"), LOAD).replace(
        "\n    ", "\n        "
    )
    load = load.replace("    - domain", "        - domain", 1)
    assert codes(load, tiles("f[m] == 0", STORE)) == []
    assert codes(load, tiles("f[m] != 0", STORE)) != []


@pytest.mark.parametrize(
    ("parts", "right"),
    [
        (("j % 3 == 0", "j % 3 == 1", "j % 3 == 2"), True),
        (("j % 3 == 0", "j % 3 == 1"), False),
        (("j // 2 % 2 == 0", "(j + 2) // 2 % 2 == 0"), True),
        (("j % 2 < 1", "(3*j + 1) % 2 == 0"), True),
        (("j % 2 == 0 and j < n", "j % 2 == 1"), True),
        (("j // 40 == 0", "j >= 40"), True),
        (("j // 40 == 0",), False),  # the first iterations say nothing of the later ones
        (("j // 4 > 2", "11 >= j"), True),
        (("j // 4 != 2", "2 == j // 4"), True),
        (("j * j < 9",), False),
    ],
)
def test_what_repeats_with_the_loop_is_computed(parts: tuple[str, ...], right: bool) -> None:
    load = loop("for: {p: 1}", LOAD)
    store = loop(true(parts[0]), STORE) + "".join(f"        - {true(p)}\n          steps: {STORE}\n" for p in parts[1:])
    assert (codes(load, store) == []) is right


def test_what_the_kernel_writes_is_another_value_at_each_read() -> None:
    def spec(where: str) -> list[str]:
        load, store = loop(true("f[j] > 0"), LOAD), loop(true("f[j] > 0"), STORE, where)
        return codes(load, store)

    assert spec("") == []
    assert spec("f.set(j=j)") != []


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("keep = mode[c] != 0", False),
        ("keep = mode[c + i] != 0", False),
        ("keep = mode[c // 2] != 0", True),
        ("keep = mode[(c + 1) // 2] != 0", False),
        ("keep = mode[i] != 0", True),
    ],
)
def test_a_token_differs_between_the_ctas_of_a_cluster_if_their_axis_goes_into_it(body: str, right: bool) -> None:
    work = f'bits: {{role: consumer, attrs: [auxiliary], takes: [i], returns: [keep], body: "{body}"}}'
    text = (Path("specs") / "leader_routed.yaml").read_text().replace("cluster: 1", "cluster: 2", 1)
    text = text.replace("variants: {single: {}, cluster: {cluster: 2}}\n", "")
    text = text.replace("  y:\n", f"  mode: {{dtype: i32, shape: [C], work: {{{work}}}}}\n  y:\n", 1)
    text = text.replace("graph: {ring: [x], y: [ring]}", "graph: {ring: [x, mode], y: [ring, mode]}")
    lines, inside = [], False
    for line in text.split("\n"):
        if line.startswith("    - domain_loop"):
            inside = True
        elif inside and not line.startswith("      "):
            inside = False
        if inside and line == "      steps:":
            line += "\n        - keep = mode.bits(i=j)\n        - when_true: {cond: keep}\n          steps:"
        elif inside and line.startswith("        - "):
            line = "    " + line
        lines.append(line)
    report = check_text("\n".join(lines))
    found = [d.code for d in report.diagnostics if d.severity == "error"]
    assert set(found) <= {"TS400"} and (not found) is right, [d.message for d in report.diagnostics]
