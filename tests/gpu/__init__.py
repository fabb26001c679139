"""Kernels on a GPU. With the DSL, or over what gpu/pack.sh built on a machine that has it."""
