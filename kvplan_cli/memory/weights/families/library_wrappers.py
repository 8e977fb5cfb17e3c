"""Multimodal models that the engine runs by the Transformers library's classes, by type.

Source: vLLM 0.33.0 ``models/transformers/multimodal.py`` and transformers 5.20.2 ``models``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import given
from kvplan_cli.memory.weights.model import Tower, Wrapper
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.towers import (
    audio,
    clip_like,
    library,
    library_others,
)
from kvplan_cli.memory.weights.towers.gemma4 import library_gemma4
from kvplan_cli.memory.weights.towers.janus import janus

_TOWERS: Final[Mapping[str, Tower]] = {
    "aya_vision": library_others.aya_vision,
    "cohere2_vision": library.with_pooling_head(clip_like.cohere2),
    "gemma3": library.with_pooling_head(clip_like.gemma3),
    "gemma4": library_gemma4,
    "glm4v": library_others.glm4v,
    "glm4v_moe": library_others.glm4v,
    "got_ocr2": library_others.got_ocr2,
    "idefics3": library.sharing_attention(clip_like.idefics3),
    "internvl": library.internvl,
    "janus": janus,
    "llava": library.llava,
    "ovis2": library_others.ovis2,
    "paligemma": library.with_pooling_head(clip_like.paligemma),
    "qwen2_5_vl": library.qwen2_5_vl,
    "qwen2_audio": library.whole(audio.qwen2_audio),
    "qwen2_vl": library.qwen2_vl,
    "qwen3_vl": library.qwen3_vl,
    "qwen3_vl_moe": library.qwen3_vl,
    "smolvlm": library.sharing_attention(clip_like.idefics3),
    "voxtral": library_others.voxtral,
}
# Types whose config classes tie the head unless the file says otherwise.
_TIED: Final = frozenset(
    {"aya_vision", "cohere2_vision", "gemma3", "gemma4", "got_ocr2", "internvl", "janus", "ovis2"}
    | {"paligemma"}
)


def _wrapper(kind: str, tower: Tower) -> Wrapper:
    tied = given("tie_word_embeddings", absent=kind in _TIED)
    return Wrapper(towers=(tower,), on_every_stage=True, tied=tied)


LIBRARY_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    **{kind: _wrapper(kind, tower) for kind, tower in _TOWERS.items()},
    "llama4": Wrapper(
        towers=(library_others.llama4,),
        on_every_stage=True,
        kept=(library_others.llama4_inner_head,),
    ),
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
