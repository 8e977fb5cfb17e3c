"""GLM 5 Next: delta attention beside latent attention over what a pooling indexer chose.

Source: vLLM 0.33.0 ``vllm/models/glm5next/common/{model,attention,kda}.py`` and transformers
5.20.2 ``Glm5NextTextConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Wrapped, largest_of_layers
from kvplan_cli.models.hybrid import HybridLayout, Part
from kvplan_cli.models.language import Language
from kvplan_cli.models.latent import latent_layer
from kvplan_cli.models.recurrent import DeltaAttentionState
from kvplan_cli.models.shape import CacheLayer, IndexLayer, RingLayer
from kvplan_cli.units import round_up
from kvplan_cli.values import dataclass

_NAME: Final = "model.layers.{}.self_attn"
# Elements of an index key that share one float32 scale.
_SCALED: Final = 128
# The sparse kernels read the choice in tiles of so many tokens.
_TILE: Final = 128
# Keys of the dictionary that older files have for the class's own.
_OLDER: Final = {
    "linear_num_heads": "num_heads",
    "linear_head_dim": "head_dim",
    "linear_conv_kernel_dim": "short_conv_kernel_size",
}


def _linear(language: Language, key: str) -> int:
    older = language.config.optional_section("linear_attn_config")
    if older is not None and older.has(_OLDER[key]):
        return older.positive(_OLDER[key])
    return language.config.positive(key)


def _has_bounded_gate(config: HfConfig) -> bool:
    """The gate is bounded unless ``linear_lower_bound`` is null, and no dictionary says safe."""
    older = config.optional_section("linear_attn_config")
    if older is None:
        return config.has("linear_lower_bound") or "linear_lower_bound" not in config.values
    return older.raw("safe_gate") is not False or older.has("gate_lower_bound")


def _state(language: Language) -> DeltaAttentionState:
    return DeltaAttentionState(
        num_heads=_linear(language, "linear_num_heads"),
        head_dim=_linear(language, "linear_head_dim"),
        conv_kernel=_linear(language, "linear_conv_kernel_dim"),
        exports_checkpoints=_has_bounded_gate(language.config),
    )


def _parts(language: Language) -> Sequence[Part]:
    linear = "linear_attention"
    kinds = language.required_layer_types
    return [Part.STATE if kind == linear else Part.ATTENTION for kind in kinds]


@dataclass(frozen=True, slots=True)
class _PooledIndex:
    """Latent layers, each with the keys of whole pools and of the one that fills."""

    def some_layers(self, language: Language, indices: Sequence[int]) -> tuple[CacheLayer, ...]:
        """The layers of ``indices``, in order, unsharded."""
        return tuple(layer for index in indices for layer in self._layers(language, index))

    def _layers(self, language: Language, index: int) -> tuple[CacheLayer, ...]:
        config, name = language.config, _NAME.format(index)
        attention = latent_layer(language, index, f"{name}.attn")
        topk = config.nullable_integer("index_topk", minimum=1)
        if topk is None:
            return (attention,)
        pool, head_dim = config.positive("index_kpool"), config.positive("index_head_dim")
        return (
            IndexLayer(
                name=f"{name}.indexer.k_cache",
                decoder_layer=index,
                backend="GLM5_NEXT_INDEXER",
                head_size=head_dim + head_dim // _SCALED * DType.FLOAT32.itemsize,
                dtype=DType.UINT8,
                tokens_per_state=pool,
            ),
            RingLayer(
                name=f"{name}.indexer.tail_cache",
                decoder_layer=index,
                backend="KPOOL_TAIL",
                pool=pool,
                head_size=head_dim,
                num_slots=2,
                doubling=True,
            ),
            replace(
                attention,
                index_topk=round_up(topk + pool - 1, _TILE),
                is_sparse=True,
                is_index_group_leader=True,
            ),
        )


GLM5_NEXT: Final = HybridLayout(
    parts=_parts,
    state=_state,
    state_name=_NAME,
    attention=_PooledIndex(),
    dims=largest_of_layers,
)

ROWS: Final[Sequence[Architecture]] = (
    Architecture(
        name="Glm5NextForCausalLM", model=Wrapped(inner=GLM5_NEXT, prefix=""), is_hybrid=True
    ),
    Architecture(
        name="Glm5NextForConditionalGeneration",
        model=Wrapped(inner=GLM5_NEXT),
        is_hybrid=True,
        is_multimodal=True,
    ),
)
