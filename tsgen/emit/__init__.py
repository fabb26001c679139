"""Emission: a lowered module as Python text. The only place that knows Jinja."""

from tsgen.emit.render import emit

__all__ = ["emit"]
