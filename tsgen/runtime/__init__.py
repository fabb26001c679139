"""Compiling, running and timing generated modules. The only part of tsgen that uses the DSL, torch or a GPU.

Nothing here is imported by `check` or by a plain `build`.
"""
