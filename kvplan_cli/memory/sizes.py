"""The few sizes of a model that its start-up memory depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.values import dataclass

_HIDDEN: Final = ("hidden_size", "n_embd", "d_model")
_VOCABULARY: Final = ("vocab_size", "padded_vocab_size")
_INTERMEDIATE: Final = ("intermediate_size", "ffn_dim", "ffn_hidden_size", "n_inner")
_EXPERTS: Final = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
)
_EXPERTS_PER_TOKEN: Final = (
    "num_experts_per_tok",
    "moe_top_k",
    "moe_k",
    "moe_topk",
    "moe_top_k",
    "top_k_experts",
    "experts_per_token",
)
_SHARED: Final = ("shared_expert_intermediate_size", "share_expert_dim")
_SHARED_COUNT: Final = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSizes:
    """Sizes of the whole model, in elements.

    intermediate_size: of the widest dense layer. experts: routed experts of a layer, 0 for a
    dense model. experts_per_token, expert_intermediate_size, shared_intermediate_size: of them.
    """

    hidden_size: int
    vocab_size: int
    intermediate_size: int
    experts: int = 0
    experts_per_token: int = 0
    expert_intermediate_size: int = 0
    shared_intermediate_size: int = 0


def profile_sizes(text: HfConfig) -> ProfileSizes:
    """The sizes from a config's language part; MissingFieldError for one that it lacks."""
    hidden = _asked(text, _HIDDEN)
    experts = _largest(text, _EXPERTS) or _inner(text, "moe_num_experts")
    intermediate = _largest(text, _INTERMEDIATE) or _inner(text, "ffn_hidden_size")
    if not experts:
        return ProfileSizes(
            hidden_size=hidden,
            vocab_size=_asked(text, _VOCABULARY),
            # GPT-2 and BLOOM kin have no such key: their inner layer is four times as wide.
            intermediate_size=intermediate or 4 * hidden,
        )
    small = _largest(text, ("moe_intermediate_size",)) or intermediate
    shared = _largest(text, _SHARED) or small * _largest(text, _SHARED_COUNT)
    return ProfileSizes(
        hidden_size=hidden,
        vocab_size=_asked(text, _VOCABULARY),
        intermediate_size=intermediate or small,
        experts=experts,
        experts_per_token=_largest(text, _EXPERTS_PER_TOKEN) or _inner(text, "moe_top_k") or 1,
        expert_intermediate_size=small,
        shared_intermediate_size=shared,
    )


def _asked(text: HfConfig, keys: Sequence[str]) -> int:
    value = _largest(text, keys)
    if not value:
        raise MissingFieldError(text.where(keys[0]), text.origin)
    return value


def _inner(text: HfConfig, key: str) -> int:
    """DBRX keeps its feed-forward sizes in a section of their own."""
    section = text.optional_section("ffn_config")
    return 0 if section is None else section.optional_integer(key, minimum=0) or 0


def _largest(text: HfConfig, keys: Sequence[str]) -> int:
    """The first key that the config has; the largest of its values where it lists layers."""
    for key in keys:
        value = text.raw(key)
        if isinstance(value, list | tuple):
            numbers = [each for each in value if isinstance(each, int)]
            if numbers:
                return max(numbers)
        elif value is not None:
            return text.optional_integer(key, minimum=0) or 0
    return 0
