"""Decoders that run their layers several times; every round has a cache of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.models.architecture import Architecture, rows
from kvplan_cli.models.language import Language
from kvplan_cli.models.layer_types import FULL, SLIDING
from kvplan_cli.models.reach import Reach, window_reach
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, WholeModelDims
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True)
class HrmLayout:
    """Two stacks that alternate: a low one several rounds, then a high one.

    Source: vLLM 0.33.0 ``models/hrm_text.py:HrmTextAttention``.
    """

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All attention layers, in the engine's order, unsharded."""
        high, low = (language.config.positive(key) for key in ("H_cycles", "L_cycles"))
        low_steps = [h * (low + 1) + step for h in range(high) for step in range(low)]
        high_steps = [h * (low + 1) + low for h in range(high)]
        return (
            *self._stack(language, "L_module", low_steps),
            *self._stack(language, "H_module", high_steps),
        )

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """None: all layers are alike."""
        return None

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        high, low = (language.config.positive(key) for key in ("H_cycles", "L_cycles"))
        return high * (low + 1) * language.config.positive("num_layers_per_stack")

    def _stack(self, language: Language, stack: str, steps: Sequence[int]) -> list[AttentionLayer]:
        heads, head_dim = language.num_attention_heads, language.head_dim
        depth = language.config.positive("num_layers_per_stack")
        return [
            AttentionLayer(
                name=f"model.{stack}.layers.{step * depth + index}.self_attn.attn",
                decoder_layer=step * depth + index,
                kind=AttentionKind.FULL,
                num_attention_heads=heads,
                num_kv_heads=heads,
                head_size=head_dim,
                head_size_v=head_dim,
                non_causal=True,
            )
            for index in range(depth)
            for step in steps
        ]


@dataclass(frozen=True, slots=True)
class LoopCoderLayout:
    """The whole stack again, with a short window from the second round on.

    Source: vLLM 0.33.0 ``models/iquest_loopcoder.py:LoopCoderAttention``.
    """

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All attention layers, in the engine's order, unsharded."""
        own = language.config.optional_integer
        rounds = own("loop_num", minimum=1) or 2
        window = own("loop_window_size", minimum=1) or 64
        first, again = window_reach(language.model_window), window_reach(window)
        return tuple(
            self._layer(language, index, turn, again if turn else first)
            for index in range(language.num_hidden_layers)
            for turn in range(rounds)
        )

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """None: all layers have the same heads."""
        return None

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return language.num_hidden_layers

    def _layer(self, language: Language, index: int, turn: int, reach: Reach) -> AttentionLayer:
        unique = turn * language.num_hidden_layers + index
        return AttentionLayer(
            name=f"model.layers.{unique}.self_attn.attn",
            decoder_layer=index,
            kind=reach.kind,
            num_attention_heads=language.num_attention_heads,
            num_kv_heads=language.num_kv_heads,
            head_size=language.split_head_dim,
            head_size_v=language.split_head_dim,
            sliding_window=reach.sliding_window,
        )


@dataclass(frozen=True, slots=True)
class DoryLayout:
    """Attention and feed-forward blocks in one list; blocks in its middle run in rounds.

    Source: vLLM 0.33.0 ``models/dory.py:DoryAttention``.
    """

    def layers(self, language: Language) -> tuple[AttentionLayer, ...]:
        """All attention layers, in the engine's order, unsharded."""
        kinds = self._kinds(language)
        return tuple(
            self._layer(language, index, turn, kinds[index])
            for index in range(language.num_hidden_layers)
            if kinds[index] != "mlp"
            for turn in range(self._rounds(language, index))
        )

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """None: all layers have the same heads."""
        return None

    def num_decoder_layers(self, language: Language) -> int:
        """Blocks; the engine never splits them into stages."""
        return language.num_hidden_layers

    def _kinds(self, language: Language) -> Sequence[str]:
        layers = language.num_hidden_layers
        kinds = language.config.optional_list("layer_types")
        if kinds is None:
            return [
                "mlp" if index % 2 else FULL if index % 8 == 6 else SLIDING
                for index in range(layers)
            ]
        if len(kinds) != layers or not all(kind in ("mlp", FULL, SLIDING) for kind in kinds):
            raise language.config.wrong("layer_types", "a kind of block for each layer")
        return kinds

    def _rounds(self, language: Language, index: int) -> int:
        own = language.config.optional_integer
        if language.config.optional_text("recurrent_kv_cache_mode") not in (None, "per_loop"):
            return 1
        first = own("n_input_layers", minimum=0) or 0
        recurrent = own("n_recurrent_layers", minimum=0)
        if recurrent is None:
            last = own("n_output_layers", minimum=0) or 0
            recurrent = language.num_hidden_layers - first - last
        rounds = own("n_recurrent_loops", minimum=1) or 1
        return rounds if first <= index < first + recurrent else 1

    def _layer(self, language: Language, index: int, turn: int, kind: str) -> AttentionLayer:
        reach = window_reach(language.sliding_window if kind == SLIDING else None)
        return AttentionLayer(
            name=f"backbone.layers.{turn * language.num_hidden_layers + index}.mixer.attn",
            decoder_layer=index,
            kind=reach.kind,
            num_attention_heads=language.num_attention_heads,
            num_kv_heads=language.num_kv_heads,
            head_size=language.head_dim,
            head_size_v=language.head_dim,
            sliding_window=reach.sliding_window,
        )


ROWS: Final[Sequence[Architecture]] = (
    *rows(DoryLayout(), "DoryForCausalLM", supports_pp=False),
    *rows(HrmLayout(), "HrmTextForCausalLM", supports_pp=False),
    *rows(LoopCoderLayout(), "IQuestLoopCoderForCausalLM", supports_pp=False),
)
