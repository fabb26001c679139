"""Where in a cluster a work's data goes: the CTAs whose memory it touches, and the bytes that arrive at each."""

from __future__ import annotations

from tsgen.derive.spread import engine_of
from tsgen.derive.storage import window_bytes
from tsgen.derive.unfold import Env
from tsgen.derive.uses import cta_group, one_peer, peer_axis, tx_bytes, value_bytes
from tsgen.model.kernel import CopyArg, Work
from tsgen.model.ops import OPS, Access, copies
from tsgen.verify.build import Builder
from tsgen.verify.machine import Agent


class Transfers:
    """Of one agent: to its own CTA, and to others of its cluster."""

    def __init__(self, builder: Builder, agent: Agent) -> None:
        self.b = builder
        self.kernel = builder.kernel
        self.agent = agent

    def places(self, work: Work, access: Access, env: Env) -> list[tuple[int, int, int]]:
        """CTAs whose memory an access touches, and which part of the window."""
        cta, owner = self.agent.cta, access.ref.resource
        if work.op == "tma_load" and access.mode == "write":
            copy = next((c for c in copies(work) if c.to is access.ref or c.to == access.ref), None)
            if copy is not None and copy.multicast is not None:
                return self._shares(copy)
        if work.op == "peer_store" and access.mode == "write":
            return [(c, 0, 1) for c in self._peers(work, env)]
        if self.joint(work, env) and owner is not None and self.kernel.resources[owner].kind in ("smem", "tmem"):
            return [(c, 0, 1) for c in self.b.pair(cta)]
        return [(cta, 0, 1)]

    def joint(self, work: Work, env: Env) -> bool:
        """Whether the tensor cores of a pair do the work together."""
        engine = OPS[work.op].engine if work.op is not None else engine_of(self.kernel, work, work.engine or "generic")
        return engine == "tcgen05" and cta_group(work, env) == 2

    def nbytes(self, work: Work, env: Env) -> dict[int, int]:
        """Bytes that arrive at the full barriers of the work's ring, by CTA; none of works that do not count any."""
        if (work.engine if work.op is None else OPS[work.op].engine) != "tx":
            return {}
        here = self.agent.cta
        share = self.agent.warps if work.scope == "warp" else 1
        if work.op == "peer_store":
            whole = value_bytes(self.kernel, work, env)
            return dict.fromkeys(self._peers(work, env), self._own_share(whole))
        if work.op != "tma_load":
            return {here: tx_bytes(self.kernel, work, env, 1) * share}
        found: dict[int, int] = {}
        for copy in copies(work):
            n = window_bytes(self.kernel, copy.to, env) * share
            for cta, _, of in [(here, 0, 1)] if copy.multicast is None else self._shares(copy):
                target = self.b.pair(cta)[0] if work.owner in self.b.uses.pair else cta
                found[target] = found.get(target, 0) + n // of
        return found

    def _peers(self, work: Work, env: Env) -> tuple[int, ...]:
        """CTAs that a `peer_store` writes to."""
        axis, one = peer_axis(work), one_peer(work, env)
        along = self.b.along(self.agent.cta, {axis})
        return tuple(c for c in along if one is None or self.b.coordinates(c)[axis] == one)

    def _shares(self, copy: CopyArg) -> list[tuple[int, int, int]]:
        """The CTAs that a multicast copy reaches: each loads one part of the window for all."""
        assert copy.multicast is not None
        group = self.b.along(self.agent.cta, {copy.multicast})
        return [(c, group.index(self.agent.cta), len(group)) for c in group]

    def _own_share(self, nbytes: int) -> int:
        """The agent's part of bytes that all threads of the task store."""
        warps, first = self.agent.instance.num_warps, self.agent.lane
        return nbytes * (first + self.agent.warps) // warps - nbytes * first // warps
