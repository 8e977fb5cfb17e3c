"""Decoders that read an encoder's output: self-attention and cross attention in each layer.

Source: vLLM 0.33.0 ``models/{whisper,cohere_asr,nemotron_parse,nemotron_parse3_5}.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Decoder, Part, Wrapped, multimodal
from kvplan_cli.models.heads import Heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, MultimodalItem, WholeModelDims
from kvplan_cli.models.text import text_config
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossDecoder:
    """Every decoder layer caches its own tokens, and the encoder's states once a request.

    self_name, cross_name: the engine's names of layer ``{}``. layers_key, heads_key, width_key:
    where the config has the decoder's depth, heads and hidden size.
    """

    self_name: str
    cross_name: str
    layers_key: str = "decoder_layers"
    heads_key: str = "decoder_attention_heads"
    width_key: str = "d_model"

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All attention layers, in the engine's order, unsharded."""
        kinds = ((self.self_name, AttentionKind.FULL), (self.cross_name, AttentionKind.CROSS))
        return tuple(
            self._layer(language, index, name, kind)
            for index in range(self.num_decoder_layers(language))
            for name, kind in kinds
        )

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """What the engine takes for the whole model: the encoder's, where it has names for it."""
        heads, width = language.num_attention_heads, language.hidden_size
        return WholeModelDims(
            num_attention_heads=heads, num_kv_heads=heads, head_size=width // heads
        )

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers; the engine never splits these models into stages."""
        return language.config.positive(self.layers_key)

    def _layer(
        self, language: Language, index: int, name: str, kind: AttentionKind
    ) -> AttentionLayer:
        heads = language.config.positive(self.heads_key)
        head_size = language.config.positive(self.width_key) // heads
        return AttentionLayer(
            name=name.format(index),
            decoder_layer=index,
            kind=kind,
            num_attention_heads=heads,
            num_kv_heads=heads,
            head_size=head_size,
            head_size_v=head_size,
        )


def _transformer_decoder(config: HfConfig) -> HfConfig:
    """Cohere's speech recognition keeps its decoder's sizes in a section of a section."""
    return config.section("transf_decoder").section("config_dict")


def mbart_heads(language: Language, index: int, reach: Reach) -> Heads:
    """As many KV heads as the decoder has heads, unless it states its own."""
    heads = language.config.positive("decoder_attention_heads")
    kv_heads = language.config.optional_integer("self_attention_kv_heads", minimum=1)
    return Heads(
        num_attention_heads=heads,
        num_kv_heads=heads if kv_heads is None else kv_heads,
        head_size=language.config.positive("d_model") // heads,
    )


WHISPER: Final = CrossDecoder(
    self_name=".decoder.layers.{}.layers.self_attn.attn",
    cross_name=".decoder.layers.{}.layers.encoder_attn.attn",
)


def _audio(config: HfConfig) -> tuple[MultimodalItem, ...]:
    """Source: vLLM 0.33.0 ``models/whisper.py:WhisperProcessingInfo.get_num_audio_tokens``."""
    tokens = config.optional_integer("max_source_positions", minimum=1)
    return () if tokens is None else (MultimodalItem(modality="audio", tokens=tokens),)


def _page(config: HfConfig) -> tuple[MultimodalItem, ...]:
    """Source: vLLM 0.33.0 ``models/nemotron_parse.py:get_num_image_tokens``."""
    encoder = config.optional_section("encoder")
    patch = None if encoder is None else encoder.optional_integer("patch_size", minimum=1)
    size = config.raw("image_size")
    if patch is None or not isinstance(size, Sequence) or len(size) != len(("height", "width")):
        return ()
    height, width = size
    if not (isinstance(height, int) and isinstance(width, int)):
        return ()
    tokens = height // patch * (width // patch // 4) + 1
    return (MultimodalItem(modality="image", tokens=tokens),)


def _encoder_decoder(
    name: str,
    inner: CrossDecoder,
    part: Part = text_config,
    items: Callable[[HfConfig], tuple[MultimodalItem, ...]] | None = None,
) -> Architecture:
    return Architecture(
        name=name,
        model=Wrapped(inner=inner, prefix="", part=part),
        supports_pp=False,
        is_multimodal=True,
        is_encoder_decoder=True,
        mm_items=items,
    )


ROWS: Final[Sequence[Architecture]] = (
    _encoder_decoder("WhisperForConditionalGeneration", WHISPER, items=_audio),
    _encoder_decoder(
        "CohereAsrForConditionalGeneration",
        CrossDecoder(
            self_name="decoder.layers.{}.layers.first_sub_layer.attn",
            cross_name="decoder.layers.{}.layers.second_sub_layer.attn",
            layers_key="num_layers",
            heads_key="num_attention_heads",
            width_key="hidden_size",
        ),
        _transformer_decoder,
    ),
    _encoder_decoder(
        "NemotronParseForConditionalGeneration",
        CrossDecoder(
            self_name=".decoder.layers.{}.self_attn.attn",
            cross_name=".decoder.layers.{}.encoder_attn.attn",
        ),
        items=_page,
    ),
    # Its images stand in front of the decoder's tokens instead of beside them.
    *multimodal(
        Wrapped(
            inner=Decoder(layer_name=".layers.{}.self_attn.attn", heads=mbart_heads),
            prefix=".decoder",
        ),
        "RadioMBartPrefixForCausalLM",
        supports_pp=False,
    ),
)
