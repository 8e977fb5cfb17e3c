"""Step 5: windows, and layers whose attention chooses regions of eight tokens.

Source: vLLM 0.33.0 ``vllm/models/step5/nvidia/{model,config}.py`` and
``transformers_utils/configs/step5.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Wrapped, multimodal, rows
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import FULL, SLIDING
from kvplan_cli.models.shape import (
    AttentionKind,
    AttentionLayer,
    CacheLayer,
    RegionLayer,
    RegionPart,
    WholeModelDims,
)
from kvplan_cli.values import dataclass

_NAME: Final = "model.layers.{}.self_attn.attn"
_SECTION: Final = "sparse_config"
_PROVIDER_GROUPS: Final = 4  # where the section is mute


@dataclass(frozen=True, slots=True)
class RegionLayout:
    """Layers that choose regions keep summaries of them, and the rows of the open one."""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers with a cache, in the engine's order, unsharded."""
        numbers = range(language.num_hidden_layers)
        return tuple(one for number in numbers for one in numbered_layer(language, number, _NAME))

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """The config's own heads: sliding layers may have others."""
        return WholeModelDims(
            num_attention_heads=language.num_attention_heads,
            num_kv_heads=language.config.positive("num_attention_groups"),
            head_size=language.head_dim,
        )

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers


def numbered_layer(language: Language, number: int, name: str) -> Sequence[CacheLayer]:
    """Decoder layer ``number``, which may be a draft module's. name: with a place for it."""
    layer = _attention(language, number, name.format(number))
    sparse = _sparse(language.config)
    # A layer that is called sliding never chooses, though it may have no window.
    kinds = language.config.optional_list("layer_types")
    attends = layer.kind is AttentionKind.FULL and (not kinds or kinds[number] == FULL)
    if not attends or sparse.optional_boolean("enabled") is False:
        return [layer]
    _check_groups(sparse, layer.num_kv_heads)
    layer = replace(layer, pinned_backend="STEP5_DSA")
    return [
        layer,
        RegionLayer(
            name=f"{layer.name}.sparse_summary_cache",
            decoder_layer=number,
            part=RegionPart.SUMMARIES,
            beside=layer,
        ),
        RegionLayer(
            name=f"{layer.name}.csa_tail_ring",
            decoder_layer=number,
            part=RegionPart.TAIL,
            beside=layer,
        ),
    ]


def _sparse(config: HfConfig) -> HfConfig:
    sparse = config.optional_section(_SECTION)
    if sparse is None:
        raise _refused(
            "NotImplementedError",
            "Step5 requires a checkpoint with a sparse_config section; dense-only checkpoints "
            "are not supported.",
        )
    return sparse


def _check_groups(sparse: HfConfig, num_kv_heads: int) -> None:
    key = "index_tp_size" if sparse.has("index_tp_size") else "num_provider_groups"
    groups = sparse.optional_integer(key, minimum=1) or _PROVIDER_GROUPS
    if groups != num_kv_heads:
        raise _refused(
            "ValueError",
            f"Step5 DSA provider groups must align with attention KV groups: {groups} != "
            f"{num_kv_heads}",
        )


def _refused(error_type: str, message: str) -> EngineRefusalError:
    return EngineRefusalError(stage="model_error", error_type=error_type, message=message)


def _kind(language: Language, number: int) -> str:
    """As declared, else windows in turn; kinds go on for the draft modules."""
    declared = language.config.optional_list("layer_types")
    if not declared:
        return FULL if number % 2 else SLIDING
    if number >= len(declared):
        raise language.config.wrong("layer_types", f"a kind for layer {number}, too")
    return str(declared[number])


def _attention(language: Language, number: int, name: str) -> AttentionLayer:
    config, window = language.config, language.sliding_window
    kind = _kind(language, number)
    heads, groups = language.num_attention_heads, config.positive("num_attention_groups")
    head_size = language.head_dim
    other = config.optional_section("attention_other_setting")
    if other is not None and other.text("attention_type") == kind:
        heads, groups = (
            other.positive("num_attention_heads"),
            other.positive("num_attention_groups"),
        )
        head_size = other.optional_integer("head_dim", minimum=1) or head_size
    slides = kind == SLIDING and window is not None
    if slides:
        heads = config.optional_integer("swa_num_attention_heads", minimum=1) or heads
    return AttentionLayer(
        name=name,
        decoder_layer=number,
        kind=AttentionKind.SLIDING if slides else AttentionKind.FULL,
        num_attention_heads=heads,
        num_kv_heads=groups,
        head_size=head_size,
        head_size_v=head_size,
        sliding_window=window if slides else None,
        pinned_backend="FLASH_ATTN",
    )


REGIONS: Final = RegionLayout()

ROWS: Final[Sequence[Architecture]] = (
    *rows(REGIONS, "Step5ForCausalLM"),
    *multimodal(Wrapped(inner=REGIONS), "Step5ForConditionalGeneration"),
)
