"""The front end: file -> document with places -> schema -> resolved model."""

from tsgen.spec.load import Document
from tsgen.spec.program import Result, load_document, load_program, resolve, variants_of

__all__ = ["Document", "Result", "load_document", "load_program", "resolve", "variants_of"]
