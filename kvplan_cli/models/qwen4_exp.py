"""Qwen4 Exp: Gated DeltaNet beside attention over what an indexer of pooled keys chose.

Layers with an n-gram embedding keep a window of its convolution, too. Source: vLLM 0.33.0
``vllm/models/qwen4_exp/nvidia/{model,qsa,indexer_qsa,ple_layer}.py``,
``vllm/models/qwen4_exp/common/qsa_cache.py`` and ``models/config.py``
(``Qwen4ExpForConditionalGenerationConfig``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Decoder, Wrapped
from kvplan_cli.models.hybrid import HybridLayout, Part
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import unwindowed
from kvplan_cli.models.recurrent import RecurrentState, ShortConvState
from kvplan_cli.models.shape import (
    AttentionLayer,
    CacheLayer,
    IndexLayer,
    OwnCache,
    RingLayer,
)
from kvplan_cli.models.state_dims import gated_delta
from kvplan_cli.units import round_up
from kvplan_cli.values import dataclass

_LINEAR: Final = "linear_attention"
# Elements of three int64 positions among bfloat16 ones, and what they are aligned to.
_POSITIONS: Final = 12
_ALIGNED: Final = 4
_PLAIN: Final = Decoder(reach=unwindowed)
_QSA: Final = "QWEN4_EXP_EXP_QSA_STATE"


def _parts(language: Language) -> Sequence[Part]:
    config = language.config
    if config.positive("hc_count") <= 1:
        raise EngineRefusalError(
            stage="config_error",
            error_type="ValidationError",
            message="Qwen4Exp requires hc_count > 1",
        )
    return [
        Part.STATE if kind == _LINEAR else Part.ATTENTION for kind in language.required_layer_types
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Indexed:
    """Attention layers, each with raw and pooled index keys where the config has an indexer.

    sees: raw keys are kept with their positions, where these have several axes.
    """

    sees: bool

    def some_layers(self, language: Language, indices: Sequence[int]) -> tuple[CacheLayer, ...]:
        """The layers of ``indices``, in order, unsharded."""
        attention = _PLAIN.some_layers(language, indices)
        if not language.config.has("indexer_n_heads"):
            return attention
        return tuple(
            layer for owner in attention for layer in (*self._keys(language, owner), owner)
        )

    def _keys(self, language: Language, owner: AttentionLayer) -> tuple[CacheLayer, ...]:
        config = language.config
        pool, head_dim = (
            config.positive("indexer_compress_ratio"),
            config.positive("indexer_head_dim"),
        )
        stem = owner.name.removesuffix("attn") + "indexer."
        raw = RingLayer(
            name=stem + "raw_key_cache",
            decoder_layer=owner.decoder_layer,
            backend=_QSA,
            pool=pool,
            head_size=head_dim,
            position_elements=self._positions(config, head_dim),
            num_kv_heads=owner.num_kv_heads,
        )
        pooled = IndexLayer(
            name=stem + "compressed_key_cache",
            decoder_layer=owner.decoder_layer,
            backend=_QSA,
            head_size=head_dim,
            dtype=DType.BFLOAT16,
            tokens_per_state=pool,
            max_tp_shards=None,
            marked=False,
        )
        return raw, pooled

    def _positions(self, config: HfConfig, head_dim: int) -> int:
        rope = config.optional_section("rope_parameters") or config.optional_section("rope_scaling")
        several_axes = self.sees and rope is not None and rope.has("mrope_section")
        return round_up(head_dim, _ALIGNED) - head_dim + _POSITIONS if several_axes else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _OwnCaches:
    """The same with the attention layers' own class, where an indexer chooses for them."""

    stack: _Indexed

    def some_layers(self, language: Language, indices: Sequence[int]) -> tuple[CacheLayer, ...]:
        """The layers of ``indices``, in order, unsharded."""
        layers = self.stack.some_layers(language, indices)
        if not language.config.has("indexer_n_heads"):
            return layers
        own = OwnCache(backend="QWEN4_EXP_QSA_TRITON", quantized=True)
        return tuple(
            replace(layer, own_cache=own) if isinstance(layer, AttentionLayer) else layer
            for layer in layers
        )


def _embedding_window(language: Language) -> ShortConvState:
    """The window of an n-gram embedding; blocks are sized by it even where no layer has one."""
    config = language.config
    reach = (config.positive("ple_conv_kernel_size") - 1) * config.positive("ngram_size")
    channels = config.positive("hc_count") * config.positive("hidden_size")
    return ShortConvState(dim=channels, conv_kernel=reach + 1, embeds=True)


def _embedding_windows(language: Language) -> Mapping[int, RecurrentState]:
    """The windows of the layers in ``ple_layer_ids``, which counts from one."""
    listed = language.config.optional_list("ple_layer_ids") or ()
    window = _embedding_window(language)
    return {index: window for index in range(language.num_hidden_layers) if index + 1 in listed}


QWEN4_EXP: Final = HybridLayout(
    parts=_parts,
    state=gated_delta,
    state_name="model.layers.{}.linear_attn",
    attention=_OwnCaches(stack=_Indexed(sees=False)),
    other_block_state=_embedding_window,
    side_states=_embedding_windows,
    side_state_name="model.layers.{}.ple",
)
_SEEING: Final = replace(QWEN4_EXP, attention=_OwnCaches(stack=_Indexed(sees=True)))

ROWS: Final[Sequence[Architecture]] = (
    Architecture(
        name="Qwen4ExpForCausalLM", model=Wrapped(inner=QWEN4_EXP, prefix=""), is_hybrid=True
    ),
    Architecture(
        name="Qwen4ExpForConditionalGeneration",
        model=Wrapped(inner=_SEEING),
        is_hybrid=True,
        is_multimodal=True,
    ),
)
