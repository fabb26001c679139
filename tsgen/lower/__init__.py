"""Lowering: a proven kernel to the program that the emitter prints."""

from tsgen.lower.errors import Unsupported
from tsgen.lower.module import lower

__all__ = ["Unsupported", "lower"]
