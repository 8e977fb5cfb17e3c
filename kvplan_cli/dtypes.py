"""Element types and KV quantization modes, by the engine's names."""

from __future__ import annotations

from enum import Enum


class DType(Enum):
    """An element type: its name as torch spells it, and its bytes an element."""

    BFLOAT16 = ("bfloat16", 2)
    FLOAT16 = ("float16", 2)
    FLOAT32 = ("float32", 4)
    FLOAT64 = ("float64", 8)
    FLOAT8_E4M3FN = ("float8_e4m3fn", 1)
    FLOAT8_E5M2 = ("float8_e5m2", 1)
    UINT8 = ("uint8", 1)
    INT8 = ("int8", 1)
    INT32 = ("int32", 4)
    INT64 = ("int64", 8)

    def __init__(self, torch_name: str, itemsize: int) -> None:
        self.torch_name = torch_name
        self.itemsize = itemsize

    @classmethod
    def from_name(cls, name: str) -> DType:
        """The type spelled ``name`` (with or without ``torch.``); ValueError if unknown."""
        bare = name.removeprefix("torch.")
        bare = {"half": "float16", "float": "float32", "bf16": "bfloat16"}.get(bare, bare)
        for member in cls:
            if member.torch_name == bare:
                return member
        known = ", ".join(member.torch_name for member in cls)
        raise ValueError(f"unknown dtype {name!r}; known: {known}")


class KVQuantMode(Enum):
    """How a cache's content is quantized. Source: vLLM 0.33.0 ``KVQuantMode``."""

    NONE = "NONE"
    FP8_PER_TENSOR = "FP8_PER_TENSOR"
    INT8_PER_TOKEN_HEAD = "INT8_PER_TOKEN_HEAD"
    FP8_PER_TOKEN_HEAD = "FP8_PER_TOKEN_HEAD"
    INT4_PER_TOKEN_HEAD = "INT4_PER_TOKEN_HEAD"
    NVFP4 = "NVFP4"
    TURBOQUANT_K8V4 = "TURBOQUANT_K8V4"
    TURBOQUANT_4BIT_NC = "TURBOQUANT_4BIT_NC"
    TURBOQUANT_K3V4_NC = "TURBOQUANT_K3V4_NC"
    TURBOQUANT_3BIT_NC = "TURBOQUANT_3BIT_NC"
    NVFP4_DS_MLA = "NVFP4_DS_MLA"
    ULTRAQUANT_4BIT = "ULTRAQUANT_4BIT"
    OCTAVE_K3V4 = "OCTAVE_K3V4"
    OCTAVE_K3V3 = "OCTAVE_K3V3"
    OCTAVE_K3V3_COMPACT = "OCTAVE_K3V3_COMPACT"
