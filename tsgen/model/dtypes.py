"""The element types a spec can name: the one list that schema, derivation and emission share."""

from __future__ import annotations

from typing import Literal

from tsgen.frozen import frozen


@frozen
class DType:
    name: str
    bits: int
    kind: Literal["float", "int", "uint", "bool"]


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        DType("f64", 64, "float"),
        DType("f32", 32, "float"),
        DType("tf32", 32, "float"),
        DType("f16", 16, "float"),
        DType("bf16", 16, "float"),
        DType("f8e4m3", 8, "float"),
        DType("f8e5m2", 8, "float"),
        DType("f8e8m0", 8, "float"),
        DType("f6e3m2", 6, "float"),
        DType("f6e2m3", 6, "float"),
        DType("f4e2m1", 4, "float"),
        DType("i64", 64, "int"),
        DType("i32", 32, "int"),
        DType("i16", 16, "int"),
        DType("i8", 8, "int"),
        DType("u64", 64, "uint"),
        DType("u32", 32, "uint"),
        DType("u16", 16, "uint"),
        DType("u8", 8, "uint"),
        DType("bool", 8, "bool"),
    )
}

# what arithmetic on single values is done in, where a type has less room below zero, or above
WIDENED = {"u64": "i64", "u32": "i32", "u16": "i32", "u8": "i32", "i16": "i32", "i8": "i32"}

TORCH_TYPES = {  # what PyTorch calls those it has; NumPy has all of these but bf16 and f8
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}
