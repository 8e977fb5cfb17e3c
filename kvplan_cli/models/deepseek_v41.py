"""DeepSeek V4.1: a window of latent vectors, and vectors of the past that later layers share.

Source: vLLM 0.33.0 ``vllm/models/deepseek_v41/{attention,compressor}.py``,
``vllm/models/deepseek_v41/nvidia/{model,vl_model}.py`` and
``vllm/transformers_utils/configs/deepseek_v41.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Wrapped
from kvplan_cli.models.language import Language
from kvplan_cli.models.shape import (
    CacheLayer,
    CompressedPart,
    SharedLatentLayer,
    WholeModelDims,
)
from kvplan_cli.values import dataclass

# Tokens of a kept vector; 0 where a layer has its window alone.
_RATIOS: Final = (0, 1, 2)
# Elements of an index key that share a scale, and bytes of the scale.
_SCALED: Final = 128
_SCALE_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """Each layer keeps a window; a few keep the past, for themselves and those behind them."""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers that the engine knows by name, in its order, unsharded.

        Raises InputError for sources that no layer can use, EngineRefusalError for a
        compression that the engine has not.
        """
        sources = _numbers(language, "kv_source_layer_ids")
        choosers = _numbers(language, "index_source_layer_ids")
        return tuple(
            layer
            for index in range(language.num_hidden_layers)
            for layer in _decoder_layer(language, index, sources, choosers)
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


def drafting_layers(language: Language, number: int) -> Sequence[SharedLatentLayer]:
    """The caches of one more layer ``number``, behind the model's own."""
    sources = _numbers(language, "kv_source_layer_ids")
    return _decoder_layer(language, number, sources, _numbers(language, "index_source_layer_ids"))


def as_its_class_has_it(config: HfConfig) -> HfConfig:
    """The config with its language part's keys at the root too, whose own keys win."""
    part = config.section("text_config")
    return HfConfig({**part.values, **config.values}, config.origin, config.path)


def _numbers(language: Language, key: str) -> Sequence[int]:
    numbers = language.config.optional_list(key) or []
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise language.config.wrong(key, "a list of layer numbers")
    return [int(number) for number in numbers]


def _ratio(language: Language, index: int) -> int:
    """Tokens of one vector; layers behind the list have their window alone."""
    listed = language.config.list("compress_ratios")
    ratio = listed[index] if index < len(listed) else 0
    if ratio not in _RATIOS:
        raise _refused(
            f"DeepSeek V4.1 layer {index} has compress_ratio={ratio}; only 0 (sliding window), 1 "
            "and 2 are supported."
        )
    return int(ratio)


def _decoder_layer(
    language: Language, index: int, sources: Sequence[int], choosers: Sequence[int]
) -> list[SharedLatentLayer]:
    ratio = _ratio(language, index)
    # Drafting layers stand behind the model's, and keep nothing but their windows.
    inside = index < language.num_hidden_layers
    owns, chooses = inside and index in sources, inside and index in choosers
    source = _source(language, index, ratio, sources, choosers)
    parts = [CompressedPart.VECTORS]
    parts += [CompressedPart.INDEX] if owns and chooses else []
    parts += [CompressedPart.WINDOW]
    parts += [CompressedPart.PARTIAL] if owns and ratio > 1 else []
    return [
        SharedLatentLayer(
            name=f"model.layers.{index}.attn{_ENDINGS[part]}",
            decoder_layer=index,
            part=part,
            num_attention_heads=language.num_attention_heads,
            num_groups=language.config.positive("o_groups"),
            head_size=_head_size(language, part),
            compress_ratio=ratio,
            sliding_window=language.config.positive("sliding_window"),
            owns=owns,
            chooses=chooses,
            source=source,
        )
        for part in parts
    ]


_ENDINGS: Final = {
    CompressedPart.VECTORS: "",
    CompressedPart.INDEX: ".indexer.k_cache",
    CompressedPart.WINDOW: ".swa_cache",
    CompressedPart.PARTIAL: ".compressor.state_cache",
}


def _head_size(language: Language, part: CompressedPart) -> int:
    if part is CompressedPart.INDEX:
        keys = language.config.positive("index_head_dim")
        return keys + keys // _SCALED * _SCALE_BYTES
    vectors = language.config.positive("head_dim")
    # A vector in the making stands beside its weights.
    return 2 * vectors if part is CompressedPart.PARTIAL else vectors


def _source(
    language: Language, index: int, ratio: int, sources: Sequence[int], choosers: Sequence[int]
) -> int | None:
    """The layer whose vectors this one attends to; None for a window alone."""
    if ratio == 0:
        if index in sources:
            raise language.config.wrong("kv_source_layer_ids", "layers that keep vectors")
        return None
    if not sources or not choosers:
        raise _refused(
            "DeepSeek V4.1 requires kv_source_layer_ids / index_source_layer_ids in the config "
            f"for compressed layers (layer {index} has compress_ratio={ratio})."
        )
    earlier = [number for number in sources if number <= index]
    if not earlier or min(choosers) > index:
        key = "index_source_layer_ids" if earlier else "kv_source_layer_ids"
        raise language.config.wrong(key, "layers that stand before all that use them")
    return max(earlier)


def _refused(message: str) -> EngineRefusalError:
    return EngineRefusalError(stage="model_error", error_type="ValueError", message=message)


ROWS: Final[Sequence[Architecture]] = (
    Architecture(
        name="DeepseekV41ForCausalLM",
        model=Wrapped(inner=SharedLayout()),
        is_multimodal=True,
    ),
)
