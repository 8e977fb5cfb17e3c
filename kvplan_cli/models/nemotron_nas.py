"""Nemotron found by architecture search: layers without attention, KV heads by layer.

Source: vLLM 0.33.0 ``models/nemotron_nas.py:DeciLMDecoderLayer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Decoder, rows
from kvplan_cli.models.heads import Heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach, by_layer_types
from kvplan_cli.models.shape import AttentionLayer, WholeModelDims
from kvplan_cli.values import dataclass


def _attention(language: Language, index: int) -> HfConfig:
    blocks = language.config.list("block_configs")
    path = f"block_configs[{index}]"
    if index >= len(blocks) or not isinstance(blocks[index], Mapping):
        raise language.contradiction(path, "each layer needs an object here")
    return HfConfig(blocks[index], language.config.origin, language.config.where(path)).section(
        "attention"
    )


def _heads(language: Language, index: int, reach: Reach) -> Heads:
    heads = language.num_attention_heads
    group = _attention(language, index).positive("n_heads_in_group")
    return Heads(
        num_attention_heads=heads, num_kv_heads=heads // group, head_size=language.head_dim
    )


@dataclass(frozen=True, slots=True)
class NemotronNasLayout:
    """A Llama-like stack of which some layers have no attention."""

    decoder: Decoder

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """The layers that attend, in the engine's order, unsharded."""
        attending = [
            index
            for index in range(language.num_hidden_layers)
            if not _attention(language, index).optional_boolean("no_op")
        ]
        if not attending:
            raise language.contradiction("block_configs", "no layer has attention")
        return self.decoder.some_layers(language, attending)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """The engine takes the first attending layer's KV heads for the model."""
        first = self.layers(language)[0]
        return WholeModelDims(
            num_attention_heads=first.num_attention_heads,
            num_kv_heads=first.num_kv_heads,
            head_size=first.head_size,
        )

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers


ROWS: Final[Sequence[Architecture]] = (
    *rows(NemotronNasLayout(Decoder(heads=_heads, reach=by_layer_types)), "DeciLMForCausalLM"),
)
