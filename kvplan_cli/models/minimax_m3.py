"""MiniMax M3: full attention in some layers, attention to chosen blocks in the others.

Source: vLLM 0.33.0 ``vllm/models/minimax_m3/nvidia/model.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Wrapped, multimodal, rows
from kvplan_cli.models.language import Language
from kvplan_cli.models.shape import (
    AttentionKind,
    AttentionLayer,
    CacheLayer,
    IndexLayer,
    OwnCache,
    WholeModelDims,
)
from kvplan_cli.values import dataclass

_NAME: Final = "model.layers.{}.self_attn.attn"


@dataclass(frozen=True, slots=True)
class SparseBlocksLayout:
    """Index keys before the attention of each block-sparse layer."""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers with a cache, in the engine's order, unsharded."""
        sparse = language.config.optional_section("sparse_attention_config")
        chosen = _sparse_layers(sparse)
        made: list[CacheLayer] = []
        for index in range(language.num_hidden_layers):
            if sparse is not None and index in chosen:
                made += _sparse_pair(language, sparse, index)
            else:
                made.append(_attention(language, index, _NAME.format(index), None))
        return tuple(made)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """None: all layers have the same heads."""
        return None

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers


def sparse_attention(language: Language, index: int) -> Sequence[CacheLayer]:
    """A block-sparse layer ``index``, whatever the config's schedule says of that number."""
    return _sparse_pair(language, language.config.section("sparse_attention_config"), index)


def _sparse_pair(language: Language, sparse: HfConfig, index: int) -> list[CacheLayer]:
    name = _NAME.format(index)
    own = OwnCache(
        backend="MINIMAX_M3_SPARSE",
        quantized=True,
        topk_blocks=sparse.positive("sparse_topk_blocks"),
    )
    keys = _index_keys(sparse, index, f"{name}.index_cache")
    return [keys, _attention(language, index, name, own)]


def _sparse_layers(sparse: HfConfig | None) -> frozenset[int]:
    switches = sparse.optional_list("sparse_attention_freq") if sparse is not None else None
    return frozenset(index for index, switch in enumerate(switches or ()) if switch != 0)


def _index_keys(sparse: HfConfig, index: int, name: str) -> IndexLayer:
    return IndexLayer(
        name=name,
        decoder_layer=index,
        backend="MINIMAX_M3_SPARSE_INDEXER",
        head_size=sparse.positive("sparse_index_dim"),
        dtype=DType.BFLOAT16,
        max_tp_shards=None,
    )


def _attention(language: Language, index: int, name: str, own: OwnCache | None) -> AttentionLayer:
    head_size = language.config.positive("head_dim")
    return AttentionLayer(
        name=name,
        decoder_layer=index,
        kind=AttentionKind.FULL,
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.config.positive("num_key_value_heads"),
        head_size=head_size,
        head_size_v=head_size,
        own_cache=own,
    )


SPARSE_BLOCKS: Final = SparseBlocksLayout()

ROWS: Final[Sequence[Architecture]] = (
    *rows(SPARSE_BLOCKS, "MiniMaxM3SparseForCausalLM"),
    *multimodal(Wrapped(inner=SPARSE_BLOCKS), "MiniMaxM3SparseForConditionalGeneration"),
)
