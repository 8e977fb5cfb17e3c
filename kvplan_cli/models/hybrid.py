"""How models with recurrent states lay out their layers, beside attention or without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Protocol, runtime_checkable

from kvplan_cli.models.architecture import Decoder, WholeModelRule
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import unwindowed
from kvplan_cli.models.recurrent import RecurrentState
from kvplan_cli.models.shape import CacheLayer, StateLayer, WholeModelDims
from kvplan_cli.values import dataclass


class Part(Enum):
    """What a decoder layer keeps. BOTH: attention first, then a state."""

    ATTENTION = "attention"
    STATE = "state"
    BOTH = "both"
    NOTHING = "nothing"


class AttentionStack(Protocol):
    """The attention of a stack in which not every layer attends."""

    def some_layers(self, language: Language, indices: Sequence[int]) -> tuple[CacheLayer, ...]:
        """The layers of ``indices``, in order, unsharded."""


PartRule = Callable[[Language], Sequence[Part]]
StateRule = Callable[[Language], RecurrentState]
SideStateRule = Callable[[Language], Mapping[int, RecurrentState]]


def no_side_states(language: Language) -> Mapping[int, RecurrentState]:
    return {}


@runtime_checkable
class StatefulLayout(Protocol):
    """What a layout with states tells beside its layers."""

    def block_states(self, language: Language) -> tuple[RecurrentState, ...]:
        """The states that the engine sizes attention blocks by, whatever a stage holds."""

    def keeps_states(self, language: Language) -> bool:
        """Whether any layer of this config has a state."""


def config_dims(language: Language) -> WholeModelDims:
    """The config's own heads, whatever the layers make of them.

    Source: vLLM 0.33.0 ``transformers_utils/model_arch_config_convertor.py:get_head_size``.
    """
    return WholeModelDims(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.num_kv_heads,
        head_size=language.head_dim,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridLayout:
    """Decoder layers that attend, keep a state, do both or neither.

    parts: what each decoder layer keeps. state: the state of each layer that has one.
    state_name: the engine's name of the state of layer ``{}``. numbered_after_attention: these
    numbers go on where the decoder layers' end, for no two layers may share one. dims: the
    whole model's dimensions. block_state: what blocks are sized by, where that is not state.
    other_block_state: what they are sized by beside it. side_states: further states, by decoder
    layer; they come before what the layer keeps itself. side_state_name: their names.
    """

    parts: PartRule
    state: StateRule
    state_name: str
    attention: AttentionStack = field(default_factory=lambda: Decoder(reach=unwindowed))
    numbered_after_attention: bool = False
    dims: WholeModelRule = config_dims
    block_state: StateRule | None = None
    other_block_state: StateRule | None = None
    side_states: SideStateRule = no_side_states
    side_state_name: str = ""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers with a cache, in the engine's order, unsharded."""
        parts = self.parts(language)
        attending = self._attention_layers(language, parts)
        state = self.state(language) if self.keeps_states(language) else None
        offset = len(parts) if self.numbered_after_attention else 0
        side_states = self.side_states(language)
        made: list[CacheLayer] = []
        for index, part in enumerate(parts):
            if index in side_states:
                name = self.side_state_name.format(index)
                made.append(StateLayer(name=name, decoder_layer=index, state=side_states[index]))
            made.extend(attending.get(index, ()))
            if part in (Part.STATE, Part.BOTH):
                assert state is not None, "a layer keeps a state"
                name = self.state_name.format(offset + index)
                made.append(StateLayer(name=name, decoder_layer=index, state=state))
        return tuple(made)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """What the engine takes for the whole model; None, the largest of the layers."""
        return self.dims(language)

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return len(self.parts(language))

    def block_states(self, language: Language) -> tuple[RecurrentState, ...]:
        """The states that the engine sizes attention blocks by, whatever a stage holds."""
        rules = (self.block_state or self.state, self.other_block_state)
        return tuple(rule(language) for rule in rules if rule is not None)

    def keeps_states(self, language: Language) -> bool:
        """Whether any layer of this config has a state."""
        return any(part in (Part.STATE, Part.BOTH) for part in self.parts(language))

    def _attention_layers(
        self, language: Language, parts: Sequence[Part]
    ) -> Mapping[int, Sequence[CacheLayer]]:
        """The caches of attention, by decoder layer; an indexer brings more than one."""
        indices = [i for i, part in enumerate(parts) if part in (Part.ATTENTION, Part.BOTH)]
        found: dict[int, list[CacheLayer]] = {}
        for layer in self.attention.some_layers(language, indices) if indices else ():
            found.setdefault(layer.decoder_layer, []).append(layer)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStack:
    """A stack of states without any attention."""

    state: StateRule
    state_name: str = "backbone.layers.{}.mixer"

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers, in the engine's order, unsharded."""
        state = self.state(language)
        return tuple(
            StateLayer(name=self.state_name.format(index), decoder_layer=index, state=state)
            for index in range(language.num_hidden_layers)
        )

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """No heads at all."""
        return WholeModelDims(num_attention_heads=0, num_kv_heads=0, head_size=0)

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers


def parts_by_layer_types(language: Language) -> Sequence[Part]:
    """Full attention by ``layer_types``, a state in every other layer."""
    kinds = language.required_layer_types
    return [Part.ATTENTION if kind == "full_attention" else Part.STATE for kind in kinds]


def both_in_each(language: Language) -> Sequence[Part]:
    """Attention and a state side by side in every decoder layer."""
    return [Part.BOTH] * language.num_hidden_layers
