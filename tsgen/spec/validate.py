from __future__ import annotations
from tsgen.spec.node import MapNode
from tsgen.diagnostics import Diagnostic
def validate(root: MapNode) -> list[Diagnostic]:
    return []
