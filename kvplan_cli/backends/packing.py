"""How a backend packs a layer's cache: what it changes in the spec.

Source: vLLM 0.33.0 ``customize_spec`` of ``vllm/v1/attention/backends/*.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from kvplan_cli.backends.quant_modes import PER_TOKEN_HEAD_MODES, TURBOQUANT_MODES
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.dtypes import DType, KVQuantMode
from kvplan_cli.specs import AttentionSpec
from kvplan_cli.units import cdiv, round_up

Spec = TypeVar("Spec", bound=AttentionSpec)

# Bits of a key and of a value element. Source: ``turboquant/config.py:TQ_PRESETS``.
_TURBOQUANT_BITS = {
    KVQuantMode.TURBOQUANT_K8V4: (8, 4),
    KVQuantMode.TURBOQUANT_4BIT_NC: (4, 4),
    KVQuantMode.TURBOQUANT_K3V4_NC: (3, 4),
    KVQuantMode.TURBOQUANT_3BIT_NC: (3, 3),
}
_ULTRAQUANT_GROUP = 32


def unpacked(spec: Spec) -> Spec:
    """The spec as it is: dense keys and values."""
    return spec


def per_token_head_scales(spec: Spec) -> Spec:
    """A float32 scale after each head's key and after its value. Source: ``triton_attn.py``."""
    if spec.state_content_bytes is not None or spec.kv_quant_mode not in PER_TOKEN_HEAD_MODES:
        return spec
    key, value = spec.head_size, spec.head_size_v
    if spec.kv_quant_mode is KVQuantMode.INT4_PER_TOKEN_HEAD:
        key, value = key // 2, value // 2
    scales = 2 * DType.FLOAT32.itemsize
    content = (key + value) * spec.dtype.itemsize + scales
    return replace(spec, state_content_bytes=content)


def nvfp4_slots(spec: Spec) -> Spec:
    """Keys and values in slots of their own, each with its scales. Source: ``flashinfer.py``."""
    if spec.state_content_bytes is not None or spec.kv_quant_mode is not KVQuantMode.NVFP4:
        return spec
    key, value = _nvfp4_bytes(spec.head_size), _nvfp4_bytes(spec.head_size_v)
    if key != value:
        raise model_refusal(
            "AssertionError", "nvfp4 with asymmetric K/V head sizes not yet supported"
        )
    return replace(spec, num_head_slots=2 * spec.num_kv_heads, state_content_bytes=key)


def _nvfp4_bytes(elements: int) -> int:
    """Two elements a byte, and one byte of scale for 16 of them."""
    return elements // 2 + elements // 16


def turboquant_slot(spec: Spec) -> Spec:
    """Key and value packed into one slot a head. Source: ``turboquant/config.py``."""
    if spec.state_content_bytes is not None or spec.kv_quant_mode not in TURBOQUANT_MODES:
        return spec
    key_bits, value_bits = _TURBOQUANT_BITS[spec.kv_quant_mode]
    # Rotated keys carry a float16 norm, values a float16 scale and zero point.
    key_norm = 0 if key_bits == 8 else 2
    key = cdiv(spec.head_size * key_bits, 8) + key_norm
    value = cdiv(spec.head_size * value_bits, 8) + 4
    return replace(spec, state_content_bytes=round_up(key + value, 2))


def ultraquant_slot(spec: Spec) -> Spec:
    """FP4 codes and a scale a group of 32, for key and value. Source: ``ultraquant/format.py``."""
    if (
        spec.state_content_bytes is not None
        or spec.kv_quant_mode is not KVQuantMode.ULTRAQUANT_4BIT
    ):
        return spec
    side = spec.head_size // 2 + spec.head_size // _ULTRAQUANT_GROUP
    return replace(spec, state_content_bytes=2 * side)
