"""Latent layers of DeepSeek's sizes for the backends' tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import CompressedLayer, CompressedPart, IndexLayer, MLALayer

R1 = MLALayer(
    name="model.layers.0.self_attn.attn",
    decoder_layer=0,
    num_attention_heads=128,
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    qk_nope_head_dim=128,
    v_head_dim=128,
)


def dense(index: int = 0, **changes: Any) -> MLALayer:
    """A layer of DeepSeek R1."""
    name = f"model.layers.{index}.self_attn.attn"
    return replace(R1, name=name, decoder_layer=index, **changes)


def sparse(index: int = 0, **changes: Any) -> MLALayer:
    """A layer of DeepSeek V3.2 that chooses tokens itself."""
    changes.setdefault("is_index_group_leader", True)
    return dense(index, index_topk=2048, is_sparse=True, **changes)


def index_keys(index: int = 0) -> IndexLayer:
    """The keys of its indexer."""
    return IndexLayer(
        name=f"model.layers.{index}.self_attn.indexer.k_cache",
        decoder_layer=index,
        backend="DEEPSEEK_V32_INDEXER",
        head_size=132,
        dtype=DType.UINT8,
    )


def compressed(part: CompressedPart, **changes: Any) -> CompressedLayer:
    """A cache of a layer of DeepSeek V4."""
    plain = CompressedLayer(
        name=f"model.layers.0.attn.{part.value}",
        decoder_layer=0,
        part=part,
        num_attention_heads=64,
        head_size=512,
        compress_ratio=4,
        sliding_window=128,
    )
    return replace(plain, **changes)
