"""Multimodal models that the engine runs by the Transformers library's classes, by type.

Source: vLLM 0.33.0 ``models/transformers/multimodal.py`` and transformers 5.20.2 ``models``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.model import Tower, Wrapper
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.towers import audio, clip_like, library, others

_TOWERS: Final[Mapping[str, Tower]] = {
    "cohere2_vision": library.on_one_rank(library.with_pooling_head(clip_like.cohere2)),
    "gemma3": library.with_pooling_head(clip_like.gemma3),
    "idefics3": library.on_one_rank(clip_like.idefics3),
    "internvl": library.on_one_rank(others.internvl),
    "llava": library.llava,
    "paligemma": library.with_pooling_head(clip_like.paligemma),
    "qwen2_5_vl": library.qwen2_5_vl,
    "qwen2_audio": library.on_one_rank(audio.qwen2_audio),
    "qwen2_vl": library.qwen2_vl,
    "qwen3_vl": library.qwen3_vl,
    "qwen3_vl_moe": library.qwen3_vl,
    "smolvlm": library.on_one_rank(clip_like.idefics3),
}
LIBRARY_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    **{kind: Wrapper(towers=(tower,), on_every_stage=True) for kind, tower in _TOWERS.items()},
    "llava_next": Wrapper(towers=(library.llava,), on_every_stage=True, kept=(clip_like.newline,)),
    "llava_onevision": Wrapper(
        towers=(library.llava,), on_every_stage=True, kept=(clip_like.newline,)
    ),
}


def library_wrapper(config: HfConfig) -> Wrapper:
    """The towers of the config's type; UnplannableError where they are not described."""
    model_type = config.optional_text("model_type") or ""
    wrapper = LIBRARY_WRAPPERS.get(model_type)
    if wrapper is None:
        raise unknown(
            f"the Transformers library's encoders of type {model_type} are not described",
            f"{config.origin}: {config.where('model_type')}",
        )
    return wrapper
