"""Inkling: each decoder layer keeps a window of convolution inputs beside its attention.

Source: vLLM 0.33.0 ``vllm/models/inkling/nvidia/{attention,sconv_swa_attn,model}.py`` and
``vllm/models/inkling/configs.py:InklingModelConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.models.architecture import Architecture, Wrapped, multimodal, rows
from kvplan_cli.models.heads import Heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, OwnCache, WholeModelDims
from kvplan_cli.values import dataclass

_ATTENTION_CACHE: Final = OwnCache(backend="FLASH_ATTN")


def _local_layers(language: Language) -> frozenset[int]:
    listed = language.config.optional_list("local_layer_ids") or ()
    layers = range(language.num_hidden_layers)
    if not all(isinstance(index, int) and index in layers for index in listed):
        raise language.config.wrong("local_layer_ids", "a list of layer numbers")
    return frozenset(listed)


def _heads(language: Language, *, local: bool) -> Heads:
    whole = Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.num_kv_heads,
        head_size=language.head_dim,
    )
    if not local:
        return whole
    own = language.config.optional_integer
    return Heads(
        num_attention_heads=own("swa_num_attention_heads", minimum=1) or whole.num_attention_heads,
        num_kv_heads=own("swa_num_key_value_heads", minimum=1) or whole.num_kv_heads,
        head_size=own("swa_head_dim", minimum=1) or whole.head_size,
    )


def _kernel_size(language: Language) -> int:
    own = language.config.optional_integer
    return own("sconv_kernel_size", minimum=1) or own("conv_kernel_size", minimum=1) or 4


def _packed_width(language: Language, heads: Heads) -> int:
    """Elements of the four streams of a head, raised to a power of two."""
    streams = 2 * heads.head_size + 2 * (language.hidden_size // heads.num_kv_heads)
    return 1 << (streams - 1).bit_length()


@dataclass(frozen=True, slots=True)
class InklingLayout:
    """A convolution state and an attention layer for each decoder layer."""

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All caches, in the engine's order, unsharded."""
        local = _local_layers(language)
        made: list[AttentionLayer] = []
        for index in range(language.num_hidden_layers):
            block = block_layers(language, f"model.layers.{index}", local=index in local)
            made += [replace(layer, decoder_layer=index) for layer in block]
        return tuple(made)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """The config's own heads: local layers may have others."""
        heads = _heads(language, local=False)
        return WholeModelDims(
            num_attention_heads=heads.num_attention_heads,
            num_kv_heads=heads.num_kv_heads,
            head_size=heads.head_size,
        )

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers


def block_layers(language: Language, name: str, *, local: bool) -> tuple[AttentionLayer, ...]:
    """The caches of one block by its name, as those of the first decoder layer."""
    heads, kernel = _heads(language, local=local), _kernel_size(language)
    conv_state = AttentionLayer(
        name=f"{name}.conv_state",
        decoder_layer=0,
        kind=AttentionKind.SLIDING,
        num_attention_heads=heads.num_attention_heads,
        num_kv_heads=heads.num_kv_heads,
        head_size=_packed_width(language, heads),
        head_size_v=0,
        sliding_window=kernel,
        own_cache=OwnCache(backend="INKLING_SCONV_SWA", block_size=kernel, model_dtype=True),
    )
    attention = AttentionLayer(
        name=f"{name}.attn",
        decoder_layer=0,
        kind=AttentionKind.SLIDING if local else AttentionKind.FULL,
        num_attention_heads=heads.num_attention_heads,
        num_kv_heads=heads.num_kv_heads,
        head_size=heads.head_size,
        head_size_v=heads.head_size,
        sliding_window=language.config.positive("sliding_window_size") if local else None,
        own_cache=_ATTENTION_CACHE,
    )
    return conv_state, attention


INKLING: Final = InklingLayout()

ROWS: Final[Sequence[Architecture]] = (
    *rows(INKLING, "InklingForCausalLM"),
    *multimodal(Wrapped(inner=INKLING, prefix=""), "InklingForConditionalGeneration"),
)
