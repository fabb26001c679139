"""A kernel of two tasks: one fills shared memory, the other reads it. Tests write what is between them."""

from __future__ import annotations

from textwrap import indent

HEAD = """tsgen: 1
kernel: handing
target: TARGET
doc: One task fills shared memory with rows of a tensor, another stores them.
tensors:
  x: {dtype: f32, shape: [M, N]}
  y:
    dtype: f32
    shape: [M, N]
    output: true
    work: {set: {op: store, takes: [i, v], value: v, to: "y[m, i*128:+128]"}}
launch: {tiles: {m: M}, let: {nb: "ceil_div(N, 128)"}, assume: [N % 4 == 0]}
resources:
  bar: {kind: barrier}
RESOURCES
graph: GRAPH
schedules:
  fill:
    - domain_loop: {var: i, end: nb}
      steps: [FILL]
  take:
    - domain_loop: {var: i, end: nb}
      steps: [TAKE]
tasks: {fill: {warp_idx: 0, num_warps: FILLERS}, take: {warp_idx: FILLERS, num_warps: TAKERS}}
"""
STORE = 'put: {op: store, takes: [i], value: "x[m, i*128:+128]", to: t}'
COPY = 'put: {op: cp_async_load, takes: [i], copies: [{to: t, from: "x[m, i*128:+128]"}]}'
TMA = 'put: {op: tma_load, takes: [i], copies: [{to: t, from: "x[m, i*128:+128]"}]}'
ROLE = "put: {role: producer, takes: [i]}"
BODY = 'put: {role: producer, takes: [i], body: "t[0] = x[m, i*128]"}'
COPY_BODY = 'put: {role: producer, takes: [i], async: cp_async, body: "cute.copy(cute.nvgpu.cpasync, x, t)"}'
MAP = 'put: {op: map, takes: [i], set: ["t = 1.0"]}'
TAKE = 'v = buf.get(), "y.set(i=i, v=v)"'
RING = ("buf.acquire(), buf.put(i=i), buf.commit()", f"buf.wait(), {TAKE}, buf.release()")
SIGNAL = ("s.acquire(), buf.put(i=i), s.commit()", f"s.wait(), {TAKE}, s.release()")


def ring(put: str, kind: str, extra: str = "") -> str:
    """A pipelined buffer."""
    return buffer(put, f"    pipeline: {{type: {kind}, num_stages: 2{extra}}}\n")


def signal(put: str, kind: str) -> str:
    """A buffer without a pipeline, and a ring without storage beside it."""
    return buffer(put) + f"s: {{kind: smem, pipeline: {{type: {kind}, num_stages: 1}}}}\n"


def buffer(put: str, pipeline: str = "") -> str:
    works = f"      {put}\n      get: {{op: load, from: t, returns: [v]}}\n"
    storage = "    kind: smem\n    storage: {t: {dtype: f32, shape: [128]}}\n"
    return f"buf:\n{storage}{pipeline}    work:\n{works}".replace("\n  ", "\n")


def spec(resources: str, steps: tuple[str, str], fillers: int = 1, takers: int = 4, target: str = "sm_90a") -> str:
    """The text of a kernel."""
    graph = "{buf: [x], y: [buf]}" if "x[" in resources else "{buf: [], y: [buf]}"
    text = HEAD.replace("RESOURCES\n", indent(resources, "  ")).replace("GRAPH", graph).replace("TARGET", target)
    text = text.replace("FILLERS", str(fillers)).replace("TAKERS", str(takers))
    if "bar." not in "".join(steps):
        text = text.replace("  bar: {kind: barrier}\n", "")
    return text.replace("FILL]", steps[0] + "]").replace("TAKE]", steps[1] + "]")
