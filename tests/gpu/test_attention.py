"""Attention: numbers on fresh data over the edges of its tiles, and what a caller may rely on."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import pytest

from tests.gpu.attention_shapes import MANY, PACKED, edges, some
from tests.gpu.builds import ATTENTION
from tests.gpu.conftest import Built
from tsgen.runtime.run import run
from tsgen.runtime.timing import watchdog

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.builds(ATTENTION)

LIMIT = {torch.float16: 6e-3, torch.bfloat16: 2e-2}  # absolute, of outputs of size 1


@pytest.fixture(autouse=True)
def seed() -> int:
    """Fresh data each time; a failure shows the seed."""
    value = int.from_bytes(os.urandom(4))
    torch.manual_seed(value)
    print("seed", value)
    return value


def env(built: Built) -> dict[str, object]:
    return dict(built.build.kernel().env)


def dtype_of(built: Built) -> torch.dtype:
    return torch.float16 if env(built)["io"] == "f16" else torch.bfloat16


def faults(built: Built, shapes: list[dict[str, int]], seed: int) -> list[str]:
    outcomes = run(built.build.kernel(), lambda t: built.host(**t), shapes, timed=False, seed=seed)
    return [str(o) for o in outcomes if not o.ok]


def shapes_of(built: Built) -> list[dict[str, int]]:
    e = env(built)
    return PACKED if e["varlen"] else edges(int(e["tile_m"]), int(e["tile_n"]))  # type: ignore[call-overload]


def test_edges(built: Built, seed: int, report: Callable[[str], None]) -> None:
    """Less than a tile, one, one more; one block of keys and many; rows without keys; groups of heads."""
    shapes = shapes_of(built)
    with watchdog(60.0, built.build.name):
        bad = faults(built, shapes, seed)
    assert not bad, f"{len(bad)} of {len(shapes)} wrong, e.g.\n" + "\n".join(bad[:8])
    report(f"{built.build.name}: {len(shapes)} shapes right, guard zones intact")


def test_many_tiles(built: Built, seed: int) -> None:
    """More tiles than multiprocessors, in both directions of a serpentine."""
    bad = faults(built, PACKED if env(built)["varlen"] else MANY, seed)
    assert not bad, "\n".join(bad)


def test_a_thousand_launches(built: Built, seed: int) -> None:
    """Random shapes, none of which may hang; every eighth is compared."""
    source, packed = Random(seed), bool(env(built)["varlen"])
    shapes = [some(source, packed=packed) for _ in range(1000)]
    with watchdog(60.0, built.build.name):
        bad = faults(built, shapes[::8], seed)
        assert not bad, f"{len(bad)} wrong, e.g.\n" + "\n".join(bad[:8])
        for s in shapes:
            p = problem(built, s)
            built.host(**p.arguments)
        torch.cuda.synchronize()


@dataclass
class Problem:
    """Arguments of one call, and the offsets of the sequences' rows and keys."""

    arguments: dict[str, object]
    rows: list[int]
    keys: list[int]


def problem(built: Built, s: dict[str, int]) -> Problem:
    e, dtype = env(built), dtype_of(built)
    d, varlen = int(e["head_dim"]), bool(e["varlen"])  # type: ignore[call-overload]
    b = 1 if varlen else s["B"]
    q = torch.randn(b, s["Sq"], s["Hq"], d, device="cuda").to(dtype)
    k, v = (torch.randn(b, s["Sk"], s["Hk"], d, device="cuda").to(dtype) for _ in range(2))
    arguments: dict[str, object] = {"q": q, "k": k, "v": v}
    rows, keys = offsets(s["B"], s["Sq"]), offsets(s["B"], s["Sk"])
    if varlen:
        for name, at in (("cu_q", rows), ("cu_k", keys)):
            arguments[name] = torch.tensor(at, dtype=torch.int32, device="cuda")
        arguments["max_q"] = max(b - a for a, b in itertools.pairwise(rows))
    return Problem(arguments, rows, keys)


def offsets(n: int, total: int) -> list[int]:
    """Of n sequences, some of them empty."""
    cuts = sorted(Random(n * total).randint(0, total) for _ in range(n - 1))
    return [0, *cuts, total]


def whole(built: Built, p: Problem, scale: float | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Output and log-sum-exp in float32 on whole matrices."""
    e = env(built)
    q, k, v = (p.arguments[n].float() for n in ("q", "k", "v"))  # type: ignore[attr-defined]
    group = q.shape[2] // k.shape[2]
    k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
    o, lse = torch.zeros_like(q), torch.full((q.shape[0], q.shape[2], q.shape[1]), -torch.inf, device="cuda")
    parts = [(0, slice(*r), slice(*c)) for r, c in zip(pairs(p.rows), pairs(p.keys), strict=True)]
    if not e["varlen"]:
        parts = [(b, slice(None), slice(None)) for b in range(q.shape[0])]
    for b, rows, keys in parts:
        s = torch.einsum("shd,thd->hst", q[b, rows], k[b, keys]) * (scale or q.shape[-1] ** -0.5)
        if e["causal"]:
            m, n = s.shape[-2:]
            row, col = torch.arange(m, device="cuda")[:, None], torch.arange(n, device="cuda")
            s = s.masked_fill(col > row + n - m, -torch.inf)
        if s.shape[-1]:
            o[b, rows] = torch.einsum("hst,thd->shd", torch.softmax(s, -1).nan_to_num(0.0), v[b, keys])
            lse[b, :, rows] = torch.logsumexp(s, -1)
    return o, lse


def pairs(at: list[int]) -> list[tuple[int, int]]:
    return list(itertools.pairwise(at))


def close(built: Built, got: torch.Tensor, want: torch.Tensor, what: str = "") -> None:
    limit = LIMIT[dtype_of(built)]
    assert torch.equal(got.isinf(), want.isinf()) and not got.isnan().any(), what
    error = (got.float() - want).abs()[~want.isinf()]
    assert not error.numel() or float(error.max()) < limit, (what, float(error.max()))


def test_the_log_sum(built: Built) -> None:
    """Natural logarithm of the sum of exp(scale q k); -inf for a row without keys."""
    if not env(built)["lse_out"]:
        pytest.skip("this build writes none")
    for s in shapes_of(built)[:30] + MANY[:2]:
        p = problem(built, s)
        o, lse = built.host(**p.arguments)  # type: ignore[misc]
        want_o, want_lse = whole(built, p)
        close(built, o, want_o, f"{s} o")
        close(built, lse, want_lse, f"{s} lse")


def test_views_of_one_projection(built: Built) -> None:
    """q, k and v are slices of one tensor, o is a slice of a larger one."""
    if env(built)["varlen"]:
        pytest.skip("packed rows are tested in test_edges")
    d = int(env(built)["head_dim"])  # type: ignore[call-overload]
    qkv = torch.randn(2, 300, 8, d, device="cuda").to(dtype_of(built))
    q, k, v = qkv[:, :, :4], qkv[:, :, 4:6], qkv[:, :, 6:]
    wide = torch.full((2, 300, 6, d), 7.0, device="cuda", dtype=q.dtype)
    built.host(q, k, v, o=wide[:, :, 1:5])
    close(built, wide[:, :, 1:5], whole(built, Problem({"q": q, "k": k, "v": v}, [], []))[0])
    assert (wide[:, :, 0] == 7).all() and (wide[:, :, 5] == 7).all()


def test_scales_and_sizes(built: Built) -> None:
    """A scale of the caller's; scores so large that all but one key of a row vanish; equal keys."""
    s = {"B": 2, "Sq": 200, "Sk": 300, "Hq": 4, "Hk": 2}
    for scale, factor in ((0.5, 1.0), (1e-6, 1.0), (None, 50.0), (None, 0.0)):
        p = problem(built, s)
        p.arguments["q"] = p.arguments["q"] * factor  # type: ignore[operator]
        result = built.host(**p.arguments, **({} if scale is None else {"scale": scale}))
        o = result[0] if isinstance(result, tuple) else result
        close(built, o, whole(built, p, scale)[0], f"{scale} {factor}")


def test_repeated_launches_give_equal_bits(built: Built) -> None:
    p = problem(built, {"B": 3, "Sq": 1000, "Sk": 1500, "Hq": 8, "Hk": 2})
    first = None
    for _ in range(30):
        result = built.host(**p.arguments)
        got = result if isinstance(result, tuple) else (result,)
        first = first or [x.clone() for x in got]
        assert all(torch.equal(a, b) for a, b in zip(got, first, strict=True))


def test_nothing_to_do(built: Built) -> None:
    for name in ("B", "Sq", "Hq"):
        s = {"B": 2, "Sq": 8, "Sk": 8, "Hq": 4, "Hk": 2, name: 0}
        if name == "B" and env(built)["varlen"]:
            continue
        result = built.host(**problem(built, s).arguments)
        o = result[0] if isinstance(result, tuple) else result
        assert o.numel() == 0
    torch.cuda.synchronize()


def test_refusals(built: Built) -> None:
    """Each says what is wrong, before anything is launched."""
    p = problem(built, {"B": 2, "Sq": 16, "Sk": 16, "Hq": 4, "Hk": 2})
    q, k = p.arguments["q"], p.arguments["k"]
    other = torch.float16 if dtype_of(built) == torch.bfloat16 else torch.bfloat16
    cases: dict[str, dict[str, object]] = {
        "Hq%Hk == 0": {"q": torch.cat([q, q[:, :, :1]], 2).contiguous()},  # type: ignore[index]
        "scale > 0": {"scale": 0.0},
        "Sk >= 1": {"k": k[:, :0], "v": k[:, :0]},  # type: ignore[index]
        "k has shape": {"k": k[..., :32].contiguous()},  # type: ignore[index]
        "v is": {"v": k.to(other)},  # type: ignore[attr-defined]
        "q has 3 dimensions": {"q": q[0]},  # type: ignore[index]
    }
    if not env(built)["varlen"]:
        cases["cu_q must not be given"] = {"cu_q": torch.zeros(3, dtype=torch.int32, device="cuda")}
    for message, changed in cases.items():
        with pytest.raises((ValueError, TypeError), match=message.replace("(", r"\(").replace("%", "%")):
            built.host(**{**p.arguments, **changed})
    torch.cuda.synchronize()
