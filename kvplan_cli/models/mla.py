"""DeepSeek and its kin: latent attention, all of it or what an indexer chooses.

Source: vLLM 0.33.0 ``vllm/model_executor/models/{deepseek_v2,AXK1,glm4_moe_lite,longcat_flash,
openpangu,sarvam}.py``, ``vllm/models/deepseek_v32`` and ``vllm/models/hy_v4``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.models.architecture import Architecture, Wrapped, multimodal, rows
from kvplan_cli.models.language import Language
from kvplan_cli.models.latent import keeps_latent_vectors, latent_layer
from kvplan_cli.models.mla_indexers import by_schedule, by_types
from kvplan_cli.models.shape import (
    AttentionKind,
    AttentionLayer,
    CacheLayer,
    IndexLayer,
    MLALayer,
    WholeModelDims,
)
from kvplan_cli.values import dataclass

# Which layers bring an indexer; None where the model attends to everything.
IndexerRule = Callable[[Language], Sequence[bool] | None]
# Elements of a key that share one float32 scale.
_SCALED: Final = 128


def no_indexers(language: Language) -> Sequence[bool] | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentDecoder:
    """A stack of decoder layers with latent attention, and indexers in some of them.

    layer_name: the engine's name of layer ``{}``; copies: its attention layers, numbered by a
    second ``{}``. indexers: which layers bring an indexer. can_unfold: the model file has plain
    attention too, for configs that the engine does not take for latent ones. has_sink: learned
    sinks. depth: key of the number of decoder layers.
    """

    layer_name: str = "model.layers.{}.self_attn"
    copies: int = 0
    indexers: IndexerRule = no_indexers
    can_unfold: bool = False
    has_sink: Callable[[Language], bool] | None = None
    depth: str = "num_hidden_layers"

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers with a cache, in the engine's order, unsharded."""
        if self.can_unfold and not keeps_latent_vectors(language.config):
            return tuple(self._unfolded(language))
        leads = self.indexers(language)
        topk = language.config.optional_integer("index_topk", minimum=1)
        made: list[CacheLayer] = []
        for index in range(self.num_decoder_layers(language)):
            for name in self._names(index):
                layer = replace(
                    latent_layer(language, index, f"{name}.attn"),
                    has_sink=self.has_sink is not None and self.has_sink(language),
                    index_topk=topk,
                    can_unfold=self.can_unfold,
                    is_sparse=leads is not None,
                    is_index_group_leader=leads is not None and leads[index],
                )
                if layer.is_index_group_leader:
                    made.append(index_keys(language, index, f"{name}.indexer.k_cache"))
                made.append(layer)
        return tuple(made)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """None: all layers have the same sizes."""
        return None

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.config.positive(self.depth)

    def _names(self, index: int) -> list[str]:
        name = self.layer_name.format(index)
        return [f"{name}.{copy}" for copy in range(self.copies)] if self.copies else [name]

    def _unfolded(self, language: Language) -> list[AttentionLayer]:
        config, heads = language.config, language.num_attention_heads
        size = (config.optional_integer("qk_nope_head_dim") or 0) + (
            config.optional_integer("qk_rope_head_dim") or 0
        )
        window = config.optional_integer("rswa_window", minimum=1)
        kind = AttentionKind.FULL if window is None else AttentionKind.REFERENCE_SLIDING
        if config.optional_boolean("is_causal") is False:
            kind = AttentionKind.ENCODER_ONLY
        return [
            AttentionLayer(
                name=f"{name}.attn",
                decoder_layer=index,
                kind=kind,
                rswa_window=window,
                num_attention_heads=heads,
                num_kv_heads=heads if size else language.num_kv_heads,
                head_size=size or language.split_head_dim,
                head_size_v=size or language.split_head_dim,
            )
            for index in range(self.num_decoder_layers(language))
            for name in self._names(index)
        ]


def index_keys(language: Language, index: int, name: str) -> IndexLayer:
    """An indexer's keys: one byte an element, and a float32 scale for 128 of them."""
    head_size = language.config.positive("index_head_dim")
    return IndexLayer(
        name=name,
        decoder_layer=index,
        backend="DEEPSEEK_V32_INDEXER",
        head_size=head_size + head_size // _SCALED * DType.FLOAT32.itemsize,
        dtype=DType.UINT8,
    )


def unfolded(layer: CacheLayer) -> CacheLayer:
    """The layer with latent attention switched off: a key and a value for each head."""
    if not isinstance(layer, MLALayer) or not layer.can_unfold:
        return layer
    size = layer.qk_nope_head_dim + layer.qk_rope_head_dim
    return AttentionLayer(
        name=layer.name,
        decoder_layer=layer.decoder_layer,
        kind=AttentionKind.FULL,
        num_attention_heads=layer.num_attention_heads,
        num_kv_heads=layer.num_attention_heads,
        head_size=size,
        head_size_v=size,
    )


def has_learned_sink(language: Language) -> bool:
    # On where the config does not say: so has its class.
    return language.config.optional_boolean("learnable_sink") is not False


DEEPSEEK: Final = LatentDecoder(indexers=by_schedule, can_unfold=True)

ROWS: Final[Sequence[Architecture]] = (
    *rows(
        DEEPSEEK,
        "AXK1ForCausalLM",
        "DeepseekForCausalLM",
        # Its class generates text: the engine runs it so unless told otherwise.
        "DeepseekV3BidirectionalModel",
        "DeepseekV2ForCausalLM",
        "DeepseekV3ForCausalLM",
        "Glm4MoeLiteForCausalLM",
        "MistralLarge3ForCausalLM",
    ),
    *rows(LatentDecoder(indexers=by_schedule), "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"),
    *rows(LatentDecoder(), "PanguUltraMoEForCausalLM", "SarvamMLAForCausalLM"),
    *rows(
        LatentDecoder(copies=2, depth="num_layers"),
        "LongcatFlashForCausalLM",
        "LongcatFlashNgramForCausalLM",
    ),
    *rows(LatentDecoder(indexers=by_types, has_sink=has_learned_sink), "HYV4ForCausalLM"),
    *multimodal(
        Wrapped(inner=DEEPSEEK),
        "KimiK25ForConditionalGeneration",
        "KimiVLForConditionalGeneration",
    ),
    *multimodal(Wrapped(inner=DEEPSEEK, prefix="language."), "DeepseekVLV2ForCausalLM"),
)
