"""Which modalities are served, and the items that must fit into one step.

An encoder-decoder and a prefix LM take a multimodal item whole: no step may be smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.models.shape import ArchitectureTraits, MultimodalItem


def is_limited_to_text(modalities: Sequence[str], args: EngineArgs) -> bool:
    """Whether the flags switch off every modality. modalities: empty where not known.

    Source: vLLM 0.33.0 ``vllm/config/model.py:ModelConfig``.
    """
    if args.language_model_only:
        return True
    return bool(modalities) and not any(map(args.serves, modalities))


def room_by_default(traits: ArchitectureTraits, args: EngineArgs) -> int | None:
    """Tokens that a step holds at least where its size is not given; None for no such need.

    Source: vLLM 0.33.0 ``vllm/engine/arg_utils.py:_get_min_mm_batched_tokens``, which asks of
    every modality that is supported, served or not.
    """
    if not (traits.is_multimodal and traits.is_mm_prefix_lm):
        return None
    if is_limited_to_text(traits.modalities, args):
        return None
    return max((_tokens(item, args) for item in traits.mm_items), default=None)


def takes_items_whole(traits: ArchitectureTraits, args: EngineArgs) -> bool:
    """Whether no multimodal item is split over steps.

    Source: vLLM 0.33.0 ``vllm/config/scheduler.py`` and ``vllm/platforms/cuda.py``
    (disable_chunked_mm_input).
    """
    if args.disable_chunked_mm_input or traits.is_encoder_decoder:
        return True
    prefix = traits.is_multimodal and traits.is_mm_prefix_lm
    return prefix and not is_limited_to_text(traits.modalities, args)


def largest_whole_item(
    traits: ArchitectureTraits, args: EngineArgs
) -> tuple[MultimodalItem, int] | None:
    """The largest item that is served and may not be split over steps, and its tokens.

    The engine refuses to start where a step cannot hold it. None where there is no such item,
    or none whose size is known.
    Source: vLLM 0.33.0 ``vllm/v1/core/encoder_cache_manager.py:compute_mm_encoder_budget``.
    """
    if not takes_items_whole(traits, args) or is_limited_to_text(traits.modalities, args):
        return None
    served = [item for item in traits.mm_items if args.serves(item.modality)]
    sizes = [(item, _tokens(item, args)) for item in served]
    return max(sizes, key=lambda size: size[1], default=None)


def _tokens(item: MultimodalItem, args: EngineArgs) -> int:
    if item.frames is None:
        return item.tokens
    limit = _option(args, item.modality, "num_frames")
    return item.tokens * (item.frames if limit is None else min(item.frames, limit))


def _option(args: EngineArgs, modality: str, name: str) -> int | None:
    limit = (args.limit_mm_per_prompt or {}).get(modality)
    value = limit.get(name) if isinstance(limit, Mapping) else None
    return value if isinstance(value, int) else None
