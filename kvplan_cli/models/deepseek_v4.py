"""DeepSeek V4: a window of latent vectors, and compressed ones for all that came before.

Source: vLLM 0.33.0 ``vllm/models/deepseek_v4/{attention,compressor}.py`` and transformers
5.20.2 ``configuration_deepseek_v4.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvplan_cli.errors import EngineRefusalError, MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Wrapped, rows
from kvplan_cli.models.gemma import images_only
from kvplan_cli.models.language import Language
from kvplan_cli.models.shape import (
    CacheLayer,
    CompressedLayer,
    CompressedPart,
    MultimodalItem,
    WholeModelDims,
)
from kvplan_cli.values import dataclass

# The compression whose vectors an indexer chooses from.
_INDEXED: Final = 4
_RATIOS: Final = (_INDEXED, 128)
# Elements of a float32 scale's worth of index key, and bytes of the scale.
_SCALED: Final = 128
_SCALE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class CompressedLayout:
    """One layer of compressed attention for each decoder layer."""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers with a cache, in the engine's order, unsharded."""
        return tuple(
            layer
            for index, ratio in enumerate(_ratios(language))
            for layer in _decoder_layer(language, index, ratio)
        )

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """The latent vector as one head."""
        return WholeModelDims(
            num_attention_heads=language.num_attention_heads,
            num_kv_heads=1,
            head_size=language.config.positive("head_dim"),
        )

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers


def uncompressed_layers(language: Language, number: int) -> Sequence[CompressedLayer]:
    """The caches of one more layer ``number`` that keeps a window alone."""
    return _decoder_layer(language, number, 1)


def _ratios(language: Language) -> Sequence[int]:
    """Tokens of a compressed vector in each layer, 1 for a window alone."""
    config, layers = language.config, language.num_hidden_layers
    if not config.has("layer_types") and config.has("compress_ratios"):
        listed = config.list("compress_ratios")[:layers]
        known = all(ratio in (0, *_RATIOS) for ratio in listed)
        if len(listed) != layers or not known:
            raise config.wrong("compress_ratios", "0, 4 or 128 for each layer")
        # The class takes the ratios for names of kinds, and the kinds' rates for ratios.
        kinds: Sequence[str] = [_KINDS[int(ratio)] for ratio in listed]
    else:
        kinds = config.list("layer_types")
    rates = _rates(language)
    return [max(1, rates.get(kind, 0)) for kind in kinds[:layers]]


_KINDS: Final[Mapping[int, str]] = {
    0: "sliding_attention",
    4: "compressed_sparse_attention",
    128: "heavily_compressed_attention",
}


def _rates(language: Language) -> Mapping[str, int]:
    config = language.config
    rates = config.optional_section("compress_rates")
    own = {
        "compressed_sparse_attention": config.optional_integer("compress_rate_csa"),
        "heavily_compressed_attention": config.optional_integer("compress_rate_hca"),
    }
    found: dict[str, int] = {}
    for kind, rate in own.items():
        if rate is None:
            rate = rates.optional_integer(kind) if rates is not None else _DEFAULT_RATES[kind]
        if rate is None:
            raise MissingFieldError(config.where(f"compress_rates.{kind}"), config.origin)
        found[kind] = rate
    return found


_DEFAULT_RATES: Final = {kind: ratio for ratio, kind in _KINDS.items() if ratio}


def _decoder_layer(language: Language, index: int, ratio: int) -> list[CompressedLayer]:
    config = language.config
    name, head_size = f"model.layers.{index}.attn", config.positive("head_dim")
    made = []
    if ratio == _INDEXED:
        made += _indexer(language, index, f"{name}.indexer")
    window = config.positive("sliding_window")
    made.append(
        _cache(language, index, f"{name}.swa_cache", CompressedPart.WINDOW, head_size, 1, window)
    )
    made.append(_cache(language, index, name, CompressedPart.VECTORS, head_size, ratio))
    if ratio > 1:
        made.append(_partial(language, index, f"{name}.compressor", head_size, ratio))
    return made


def _indexer(language: Language, index: int, name: str) -> list[CompressedLayer]:
    head_size = language.config.positive("index_head_dim")
    stored = head_size + head_size // _SCALED * _SCALE_BYTES
    keys = _cache(language, index, f"{name}.k_cache", CompressedPart.INDEX, stored, _INDEXED)
    return [keys, _partial(language, index, f"{name}.compressor", head_size, _INDEXED)]


def _partial(
    language: Language, index: int, name: str, head_size: int, ratio: int
) -> CompressedLayer:
    """Vectors and weights of the tokens that the next compressed vector is made of.

    Vectors of four tokens overlap: each takes the four before as well.
    """
    if ratio not in _RATIOS:
        raise EngineRefusalError(stage="model_error", error_type="AssertionError", message="")
    overlap = 2 if ratio == _INDEXED else 1
    return _cache(
        language,
        index,
        f"{name}.state_cache",
        CompressedPart.PARTIAL,
        2 * overlap * head_size,
        ratio,
        overlap * ratio,
    )


def _cache(
    language: Language,
    index: int,
    name: str,
    part: CompressedPart,
    head_size: int,
    ratio: int,
    window: int | None = None,
) -> CompressedLayer:
    return CompressedLayer(
        name=name,
        decoder_layer=index,
        part=part,
        num_attention_heads=language.num_attention_heads,
        head_size=head_size,
        compress_ratio=ratio,
        sliding_window=window,
    )


COMPRESSED: Final = CompressedLayout()

# Tokens that an image may be padded to, less one, so that compression starts afresh.
_IMAGE_PADDING: Final = 3


def _images(config: HfConfig) -> tuple[MultimodalItem, ...]:
    tokens = config.positive("vision_max_n_token") + _IMAGE_PADDING
    return (MultimodalItem(modality="image", tokens=tokens),)


ROWS: Final[Sequence[Architecture]] = (
    *rows(COMPRESSED, "DeepseekV4ForCausalLM"),
    Architecture(
        name="DeepseekV4ForConditionalGeneration",
        model=Wrapped(inner=COMPRESSED),
        is_multimodal=True,
        modalities=images_only,
        mm_items=_images,
    ),
)
