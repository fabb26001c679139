"""Emission: a lowered module as Python text. The only place that knows Jinja."""

from tsgen.emit.render import Form, emit

__all__ = ["Form", "emit"]
