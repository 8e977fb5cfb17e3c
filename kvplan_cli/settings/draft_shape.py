"""The layers that a drafter registers behind its target's.

Source: vLLM 0.33.0 ``vllm/v1/worker/gpu/spec_decode/*/speculator.py:load_draft_model``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters.draft import Place
from kvplan_cli.models.drafters.layers import head_layers, is_head
from kvplan_cli.models.language import Language
from kvplan_cli.models.shape import CacheLayer, HiddenStateLayer, ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.drafter import EXTRACTION, Drafter


def shape_behind(
    drafter: Drafter, target: ModelShape, config: HfConfig, stage_layers: int
) -> ModelShape:
    """The layers of modules, of a head, or of kept hidden states.

    config: the target's. stage_layers: its decoder layers on the last pipeline stage. Raises
    MissingFieldError, EngineRefusalError.
    """
    assert drafter.config is not None, "a drafter with layers has a config"
    layers: Sequence[CacheLayer]
    if drafter.method == EXTRACTION:
        layers = [_hidden_states(drafter, target, config)]
    elif drafter.modules is not None and not is_head(drafter.architectures):
        layers = drafter.modules.all_layers(config, drafter.num_speculative_tokens)
    else:
        place = Place(
            num_hidden_layers=target.num_hidden_layers,
            stage_layers=stage_layers,
            target=Language.of(text_config(config)),
            attention_names={layer.decoder_layer: layer.name for layer in target.attention_layers},
        )
        layers = head_layers(drafter.architectures, drafter.config, place)
    return replace(target, architecture=drafter.architectures[0], layers=tuple(layers))


def _hidden_states(drafter: Drafter, target: ModelShape, config: HfConfig) -> CacheLayer:
    return HiddenStateLayer(
        name=f"cache_only_layers.{target.num_hidden_layers}",
        decoder_layer=0,
        num_hidden_states=drafter.num_hidden_states,
        hidden_size=Language.of(text_config(config)).hidden_size,
    )
