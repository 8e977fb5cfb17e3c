"""What a family's description is made of: facts of a layer, and the parts that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.recurrent import RecurrentState
from kvplan_cli.models.shape import AttentionLayer, CacheLayer, MLALayer, StateLayer
from kvplan_cli.values import dataclass

# Older names of the same thing in the config files of older architectures.
_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden_size": ("n_embd", "d_model"),
    "vocab_size": ("padded_vocab_size",),
    "max_position_embeddings": ("n_positions", "seq_length", "max_seq_len"),
    "num_attention_heads": ("n_head", "n_heads"),
}


def size(config: HfConfig, key: str) -> int:
    """A size that must be in the config, under its own name or an older one."""
    for alias in _ALIASES.get(key, ()):
        if config.has(alias):
            return config.positive(alias)
    return config.positive(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFacts:
    """A decoder layer on one rank.

    site: the layer's own place. config: the language part. index: in the whole model.
    caches: its attention, latent and state layers, unsharded; a layer may have several.
    """

    site: Site
    config: HfConfig
    index: int
    caches: tuple[CacheLayer, ...]

    @property
    def hidden_size(self) -> int:
        return size(self.config, "hidden_size")

    @property
    def attentions(self) -> tuple[AttentionLayer, ...]:
        return tuple(layer for layer in self.caches if isinstance(layer, AttentionLayer))

    @property
    def latent(self) -> MLALayer | None:
        """The layer's latent attention, None where it has another kind."""
        found = [layer for layer in self.caches if isinstance(layer, MLALayer)]
        return found[0] if len(found) == 1 else None

    @property
    def state(self) -> RecurrentState | None:
        """The dimensions of the layer's recurrent state, None where it keeps none."""
        found = [layer for layer in self.caches if isinstance(layer, StateLayer)]
        return found[0].state if len(found) == 1 else None

    @property
    def attention(self) -> AttentionLayer:
        """The layer's one attention; families with several ask for them by name."""
        found = self.attentions
        if len(found) != 1:
            raise unknown(
                f"layer {self.index} has {len(found)} attention layers",
                self.config.origin,
            )
        return found[0]


Part = Callable[[LayerFacts], Tensors]
Flag = Callable[[HfConfig], bool]
Size = Callable[[HfConfig], int]
ByLayer = Callable[[HfConfig, int], bool]


def never(config: HfConfig) -> bool:
    return False


def always(config: HfConfig) -> bool:
    return True


def given(key: str, *, absent: bool = False) -> Flag:
    """The config's flag; ``absent`` is what its class and the engine take for a missing one."""

    def flag(config: HfConfig) -> bool:
        value = config.optional_boolean(key)
        return absent if value is None else value

    return flag


def either(*flags: Flag) -> Flag:
    return lambda config: any(flag(config) for flag in flags)


def sized(*keys: str) -> Size:
    """The first of the keys that the config has; the first is asked for when none is there."""

    def read(config: HfConfig) -> int:
        for key in keys:
            if config.has(key):
                return config.positive(key)
        return size(config, keys[0])

    return read


def times_hidden(factor: int, key: str | None = None) -> Size:
    """A multiple of the hidden size, unless the config's ``key`` says otherwise."""

    def read(config: HfConfig) -> int:
        if key is not None and config.has(key):
            return config.positive(key)
        return factor * size(config, "hidden_size")

    return read


HIDDEN: Final[Size] = sized("hidden_size")
INTERMEDIATE: Final[Size] = sized("intermediate_size")
VOCABULARY: Final[Size] = sized("vocab_size")
TIED: Final[Flag] = given("tie_word_embeddings")


def product(first: Size, second: Size) -> Size:
    return lambda config: first(config) * second(config)


def every_layer(config: HfConfig, index: int) -> bool:
    return True


def no_layer(config: HfConfig, index: int) -> bool:
    return False


def nothing(facts: LayerFacts) -> Tensors:
    return ()


def together(*parts: Part) -> Part:
    """Several parts of a layer as one."""

    def tensors(facts: LayerFacts) -> Tensors:
        return tuple(tensor for part in parts for tensor in part(facts))

    return tensors


def where(flag: ByLayer, then: Part, otherwise: Part = nothing) -> Part:
    """One part in the layers that ``flag`` names, another in the rest."""

    def tensors(facts: LayerFacts) -> Tensors:
        chosen = then if flag(facts.config, facts.index) else otherwise
        return chosen(facts)

    return tensors


def whole(part: Part) -> Part:
    """A part that is not shared out over the ranks."""
    return lambda facts: part(replace(facts, site=facts.site.replicated_site()))
