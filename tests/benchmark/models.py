"""The three models that the planner is timed on, as plain layer mappings."""

from __future__ import annotations

from typing import Any

Layers = dict[str, dict[str, Any]]

_ATTENTION = {"block_size": 16, "num_kv_heads": 8, "head_size": 128, "dtype": "bfloat16"}
_FULL = {"class": "FullAttentionSpec", **_ATTENTION}
_SLIDING = {"class": "SlidingWindowSpec", **_ATTENTION, "sliding_window": 1024}
# Attention blocks of 544 tokens cover a state of 2,138,112 bytes, as the engine aligns them.
_HYBRID_FULL = _FULL | {"block_size": 544}
_STATE = {
    "class": "MambaSpec",
    "block_size": 544,
    "shapes": [[3, 6144], [128, 64, 128]],
    "dtypes": ["bfloat16", "bfloat16"],
    "mamba_cache_mode": "align",
    "page_size_padded": 544 * 8 * 2 * 128 * 2,
}


def _layers(specs: list[dict[str, Any]]) -> Layers:
    return {f"model.layers.{i}.self_attn.attn": spec for i, spec in enumerate(specs)}


def benchmark_models() -> dict[str, Layers]:
    """Name to layers: dense, sliding hybrid, state hybrid."""
    return {
        "80-layer dense": _layers([_FULL] * 80),
        "62-layer sliding hybrid": _layers([_FULL if i % 6 == 5 else _SLIDING for i in range(62)]),
        "120-layer state hybrid": _layers(
            [_HYBRID_FULL if i % 8 == 7 else _STATE for i in range(120)]
        ),
    }


SETTINGS = {
    "max_model_len": 131072,
    "max_num_batched_tokens": 8192,
    "max_concurrent_batches": 2,
    "available_bytes": 60 << 30,
}
