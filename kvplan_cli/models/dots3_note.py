"""Dots3 NOTE: sparse latent attention, and wider latent vectors in sliding layers.

Source: vLLM 0.33.0 ``vllm/models/dots3_note/nvidia/{model,multimodal}.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.models.architecture import Architecture, Wrapped, multimodal
from kvplan_cli.models.language import Language
from kvplan_cli.models.latent import latent_layer
from kvplan_cli.models.layer_types import SLIDING
from kvplan_cli.models.mla import index_keys
from kvplan_cli.models.mla_indexers import scheduled
from kvplan_cli.models.shape import CacheLayer, MLALayer, WholeModelDims
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True)
class NoteLayout:
    """Sliding layers by ``layer_types``; the others store rows as wide as theirs."""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers with a cache, in the engine's order, unsharded."""
        kinds, leads = language.config.list("layer_types"), scheduled(language)
        layers = language.num_hidden_layers
        if len(kinds) < layers:
            raise language.config.wrong("layer_types", "a kind of attention for each layer")
        made: list[CacheLayer] = []
        for index in range(layers):
            name = f"model.layers.{index}.self_attn"
            if kinds[index] == SLIDING:
                made.append(_sliding(language, index, f"{name}.attn"))
                continue
            if leads[index]:
                made.append(index_keys(language, index, f"{name}.indexer.k_cache"))
            made.append(_full(language, index, f"{name}.attn", leads=leads[index]))
        return tuple(made)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """The full layers' sizes."""
        full = latent_layer(language, 0, "")
        return WholeModelDims(
            num_attention_heads=full.num_attention_heads,
            num_kv_heads=1,
            head_size=full.head_size,
        )

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers


def _full(language: Language, index: int, name: str, *, leads: bool) -> MLALayer:
    config = language.config
    return replace(
        latent_layer(language, index, name, index_topk=config.positive("index_topk")),
        is_sparse=True,
        is_index_group_leader=leads,
        backend="DOTS3_NOTE_PADDED_MLA_SPARSE",
        stored_head_size=config.positive("swa_kv_lora_rank")
        + config.positive("swa_qk_rope_head_dim"),
    )


def _sliding(language: Language, index: int, name: str) -> MLALayer:
    config = language.config
    return MLALayer(
        name=name,
        decoder_layer=index,
        num_attention_heads=config.positive("swa_num_attention_heads"),
        kv_lora_rank=config.positive("swa_kv_lora_rank"),
        qk_rope_head_dim=config.positive("swa_qk_rope_head_dim"),
        qk_nope_head_dim=config.positive("swa_qk_nope_head_dim"),
        v_head_dim=config.positive("swa_v_head_dim"),
        sliding_window=config.positive("sliding_window_size"),
        backend="TRITON_MLA",
    )


def module_layers(language: Language, number: int, kind: str) -> Sequence[CacheLayer]:
    """The caches of a drafting module as decoder layer ``number``; each brings its indexer."""
    name = f"model.layers.{number}.self_attn"
    if kind == SLIDING:
        return [_sliding(language, 0, f"{name}.attn")]
    keys = index_keys(language, 0, f"{name}.indexer.k_cache")
    return [keys, _full(language, 0, f"{name}.attn", leads=True)]


ROWS: Final[Sequence[Architecture]] = (
    *multimodal(Wrapped(inner=NoteLayout()), "Dots3NoteForCausalLM"),
)
