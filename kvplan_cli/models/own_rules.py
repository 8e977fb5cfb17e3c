"""Decoders with layer rules of their own: windows by another name, sinks, skipped layers.

Source: vLLM 0.33.0 ``models/{rnj1,openpangu,domyn_edge,cohere_compass}.py`` and
``vllm/models/flint/model.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.models.architecture import Architecture, Decoder, rows
from kvplan_cli.models.flags import always_sink, causal_unless_switched_off, soft_capped
from kvplan_cli.models.heads import Heads, grouped_heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import CHUNKED
from kvplan_cli.models.reach import (
    Reach,
    by_layer_types,
    by_layer_types_alone,
    model_wide,
    windows,
)
from kvplan_cli.models.shape import AttentionKind


def windowed_chunks(language: Language) -> Sequence[Reach]:
    """Rnj 1: the layers it calls chunked have a window."""
    kinds = language.layer_types or [""] * language.num_hidden_layers
    window = language.sliding_window
    return windows(language, [window if kind == CHUNKED else None for kind in kinds])


def _is_sunk(language: Language) -> bool:
    return bool(language.config.optional_integer("param_sink_number", minimum=0))


def repeated_windows(language: Language) -> Sequence[Reach]:
    """Pangu: one window for all, or a list that starts over; layers with sinks have none."""
    key, layers = "interleaved_sliding_window", language.num_hidden_layers
    if _is_sunk(language):
        sinks = language.config.positive("param_sink_number")
        return [Reach(kind=AttentionKind.STATIC_SINK, sink_len=sinks)] * layers
    listed = language.config.raw(key)
    if listed is None:
        return model_wide(language)
    own = [listed] if isinstance(listed, int) else listed
    if not isinstance(own, list) or not own or not all(_is_window(window) for window in own):
        raise language.config.wrong(key, "a window in tokens, or a list of windows and nulls")
    return windows(language, [own[index % len(own)] for index in range(layers)])


def _is_window(window: object) -> bool:
    return window is None or (isinstance(window, int) and not isinstance(window, bool))


def pangu_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Pangu: keys in two parts and values of their own width where there are sinks."""
    if not _is_sunk(language):
        return grouped_heads(language, index, reach)
    config = language.config
    return Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.num_kv_heads,
        head_size=config.positive("qk_nope_dim") + config.positive("qk_rope_dim"),
        head_size_v=config.positive("v_channels"),
    )


def listed_window_pairs(language: Language) -> Sequence[Reach]:
    """Domyn Edge: ``window_sizes`` has a pair a layer, whose first leaves out the token itself."""
    pairs = language.config.list("window_sizes")
    if len(pairs) < language.num_hidden_layers or not all(
        isinstance(pair, list | tuple) and pair and isinstance(pair[0], int) for pair in pairs
    ):
        raise language.config.wrong("window_sizes", "a pair of integers for each layer")
    used = pairs[: language.num_hidden_layers]
    return windows(language, [pair[0] + 1 if pair[0] > 0 else None for pair in used])


def domyn_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Domyn Edge: ``per_layer_config`` gives each layer its head size."""
    heads = grouped_heads(language, index, reach)
    per_layer = language.config.optional_section("per_layer_config")
    if per_layer is None:
        return heads
    for key in per_layer.values:
        if str(key).isdigit() and int(key) == index:
            own = per_layer.section(str(key)).optional_integer("head_dim", minimum=1)
            return (
                heads
                if own is None
                else Heads(
                    num_attention_heads=heads.num_attention_heads,
                    num_kv_heads=heads.num_kv_heads,
                    head_size=own,
                )
            )
    return heads


PANGU: Final = Decoder(heads=pangu_heads, reach=repeated_windows, causal=causal_unless_switched_off)
COMPASS: Final = Decoder(reach=by_layer_types)

ROWS: Final[Sequence[Architecture]] = (
    *rows(Decoder(reach=windowed_chunks, soft_cap=soft_capped), "Rnj1ForCausalLM"),
    *rows(PANGU, "PanguEmbeddedForCausalLM", "PanguProMoEV2ForCausalLM"),
    *rows(
        Decoder(
            layer_name="model.layers.{}.attention.attn",
            heads=domyn_heads,
            reach=listed_window_pairs,
        ),
        "DomynEdgeForCausalLM",
        supports_pp=False,
    ),
    *rows(Decoder(reach=by_layer_types_alone, sink=always_sink), "FlintForCausalLM"),
)
