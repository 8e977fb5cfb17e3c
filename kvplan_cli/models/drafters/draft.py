"""What the tables of drafters share: the target as a drafter sees it, and layers put in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from kvplan_cli.models.architecture import Decoder
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach, window_reach
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, CacheLayer
from kvplan_cli.values import dataclass

# Names of layers that go on where the target's end, and of those with numbers of their own.
BEHIND: Final = "model.layers.{}.self_attn.attn"
BESIDE: Final = "mtp.layers.{}.self_attn.attn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a drafter's layers stand.

    num_hidden_layers: of the target. stage_layers: of it on the drafter's own, the last,
    pipeline stage; some heads number their layers from there.
    target: its language config. attention_names: of its attention layers, by decoder layer.
    """

    num_hidden_layers: int
    stage_layers: int
    target: Language
    attention_names: Mapping[int, str]

    @property
    def window(self) -> int | None:
        """Tokens of the target's model-wide window, which layers without their own inherit."""
        return self.target.model_window


def layer_like(decoder: Decoder, language: Language, name: str, reach: Reach) -> AttentionLayer:
    """One more layer of a stack, with the heads of its first one."""
    (first,) = decoder.some_layers(language, [0])
    return replace(
        first,
        name=name,
        decoder_layer=0,
        kind=AttentionKind.FULL if reach.sliding_window is None else AttentionKind.SLIDING,
        sliding_window=reach.sliding_window,
        attention_chunk_size=None,
        kv_sharing_target=None,
    )


class AttentionStack(Protocol):
    """Attention layers of a stack by their numbers."""

    def some_layers(self, language: Language, indices: Sequence[int]) -> Sequence[CacheLayer]:
        """The layers of ``indices``, in order, unsharded."""


ModuleRule = Callable[[Language, int], Sequence[CacheLayer]]


def attention(decoder: Decoder, name: str = BEHIND) -> ModuleRule:
    """A module with one attention layer of the stack's heads, under the model-wide window."""

    def rule(language: Language, module: int) -> Sequence[CacheLayer]:
        number = module if name.startswith("mtp.") else language.num_hidden_layers + module
        reach = window_reach(language.model_window)
        return [layer_like(decoder, language, name.format(number), reach)]

    return rule


def one_more(stack: AttentionStack, prefix: str = "model.") -> ModuleRule:
    """A module with all that an attending layer of the stack keeps, numbered behind it.

    prefix: the first part of its name.
    """

    def rule(language: Language, module: int) -> Sequence[CacheLayer]:
        number = language.num_hidden_layers + module
        return [
            replace(layer, name=_renumbered(layer.name, prefix, number))
            for layer in stack.some_layers(language, [0])
        ]

    return rule


def _renumbered(name: str, prefix: str, number: int) -> str:
    return f"{prefix}layers.{number}.{name.removeprefix('model.layers.0.')}"
