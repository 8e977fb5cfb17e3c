"""Which part of a config describes the language model: the engine's ``hf_text_config``.

Source: vLLM 0.33.0 ``vllm/transformers_utils/config.py:get_hf_text_config`` and the config
classes' own ``get_text_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.errors import InputError, MissingFieldError, Problem
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.moondream3 import language_part
from kvplan_cli.models.part_types import as_its_class_reads

# Names of a language part, as the config classes search them.
_SECTIONS: Final = ("text_encoder", "decoder", "generator", "text_config", "llm_config")
# Classes that keep it deeper, or elsewhere; the first path that the file has counts.
_PATHS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "qwen2_5_omni": (("thinker_config", "text_config"),),
    "qwen3_omni_moe": (("thinker_config", "text_config"),),
    "qwen3_asr": (("thinker_config", "text_config"), ("text_config",)),
    "colpali": (("vlm_config", "text_config"),),
    "colqwen2": (("vlm_config", "text_config"),),
    "colmodernvbert": (("vlm_config", "text_config"),),
    "moss_audio": (("language_config",),),
    "deepseek_vl_v2": (("language_config",),),
    "unlimited-ocr": (("language_config",),),
    "unlimited_ocr": (("language_config",),),
}
# Classes that read their language part from its section only, never from the root.
_NESTED: Final = frozenset(
    [
        "aria",
        "audioflamingo3",
        "blip-2",
        "clip",
        "cohere2_vision",
        "cosmos3_edge",
        "deepseek_v41",
        "diffusion_gemma",
        "emu3",
        "ernie4_5_vl_moe",
        "exaone4_5",
        "gemma3",
        "gemma3n",
        "gemma4",
        "gemma4_unified",
        "glm4v",
        "glm4v_moe",
        "glm_ocr",
        "glmasr",
        "glmga",
        "granite_speech",
        "granite_speech_plus",
        "idefics3",
        "inkling_mm_model",
        "internvl",
        "lighton_ocr",
        "llama4",
        "llava",
        "llava_next",
        "llava_next_video",
        "llava_onevision",
        "mistral3",
        "moss_transcribe_diarize",
        "muse_glimmer",
        "paligemma",
        "qwen2_audio",
        "qwen3_vl",
        "qwen3_vl_moe",
        "siglip",
        "smolvlm",
        "step3p7",
        "voxtral",
    ]
)
# Sections of other modalities: with one of these, a flat config is half a config.
_OTHER_PARTS: Final = ("vision_config", "audio_config", "encoder_config")


def text_config(config: HfConfig) -> HfConfig:
    """The part of ``config`` that the KV cache is planned from; ``config`` itself if it is flat.

    Raises MissingFieldError where a multimodal config has no language part, InputError where
    it has several.
    """
    model_type = config.optional_text("model_type") or ""
    return as_its_class_reads(config, _part(config, model_type))


def _part(config: HfConfig, model_type: str) -> HfConfig:
    if model_type == "moondream3":
        return language_part(config)
    paths = _PATHS.get(model_type)
    return _by_name(config, model_type) if paths is None else _by_paths(config, paths)


def _by_name(config: HfConfig, model_type: str) -> HfConfig:
    found = [name for name in _SECTIONS if config.has(name)]
    if "text_config" in found and "llm_config" in found:
        # The engine renames llm_config only where text_config is absent.
        found.remove("llm_config")
    if len(found) > 1:
        raise InputError(
            Problem(
                where=f"{config.origin}: {config.where(found[0])}",
                reason=f"several language parts: {', '.join(found)}",
                way_out="keep the one that the model generates text with",
            )
        )
    if found:
        return config.section(found[0])
    half = any(config.has(name) for name in _OTHER_PARTS) and not config.has("hidden_size")
    if half or model_type in _NESTED:
        raise MissingFieldError(config.where("text_config"), config.origin)
    return config


def _by_paths(config: HfConfig, paths: tuple[tuple[str, ...], ...]) -> HfConfig:
    for path in paths:
        if config.has(path[0]):
            part = config
            for name in path:
                part = part.section(name)
            return part
    if config.has("hidden_size"):
        return config
    raise MissingFieldError(config.where(paths[0][0]), config.origin)
