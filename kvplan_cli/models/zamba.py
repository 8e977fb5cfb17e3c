"""Zamba 2: a few attention blocks, used by all hybrid layers, built before the states.

Source: vLLM 0.33.0 ``models/zamba2.py`` (``Zamba2Attention``, ``Zamba2Model``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.models.language import Language
from kvplan_cli.models.recurrent import RecurrentState
from kvplan_cli.models.shape import (
    AttentionKind,
    AttentionLayer,
    CacheLayer,
    StateLayer,
    WholeModelDims,
)
from kvplan_cli.models.state_dims import zamba2
from kvplan_cli.values import dataclass

_HYBRID: Final = "hybrid"


def _head_size(language: Language) -> int:
    """Keys are as wide as hidden state and embedding side by side."""
    given = language.config.optional_integer("attention_head_dim", minimum=1)
    return given or 2 * language.hidden_size // language.num_attention_heads


def _attention_numbers(num_hybrid: int, num_blocks: int) -> Sequence[int]:
    """The numbers in the attention layers' names, in the order of building."""
    numbers: list[int] = []
    for block in range(num_blocks):
        first = block * (num_hybrid + num_blocks - 1) // num_blocks
        used = len(range(block, num_hybrid, num_blocks))
        numbers.extend(range(first, first + used))
    return numbers


@dataclass(frozen=True, slots=True)
class Zamba2Layout:
    """All attention layers, then one state a decoder layer; no pipeline stages."""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers, in the engine's order, unsharded."""
        kinds = language.required_layer_types
        num_hybrid = kinds.count(_HYBRID)
        blocks = language.config.positive("num_mem_blocks")
        heads, head_size = language.num_attention_heads, _head_size(language)
        attention = (
            AttentionLayer(
                name=f"model.attn.{number}",
                decoder_layer=0,
                kind=AttentionKind.FULL,
                num_attention_heads=heads,
                num_kv_heads=heads,
                head_size=head_size,
                head_size_v=head_size,
            )
            for number in _attention_numbers(num_hybrid, blocks)
        )
        state = zamba2(language)
        states = (
            StateLayer(name=f"{num_hybrid + index}.mixer", decoder_layer=index, state=state)
            for index in range(len(kinds))
        )
        return (*attention, *states)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """The config's own heads."""
        return WholeModelDims(
            num_attention_heads=language.num_attention_heads,
            num_kv_heads=language.num_kv_heads,
            head_size=_head_size(language),
        )

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages would share out."""
        return len(language.required_layer_types)

    def block_states(self, language: Language) -> tuple[RecurrentState, ...]:
        """The state that the engine sizes attention blocks by."""
        return (zamba2(language),)

    def keeps_states(self, language: Language) -> bool:
        """Every decoder layer does; the engine asks for layers that only attend."""
        return True


ZAMBA2: Final = Zamba2Layout()
