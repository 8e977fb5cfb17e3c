"""From an architecture's name to the description of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.alice import ALICE
from kvplan_cli.memory.weights.families.bailing import BAILINGS
from kvplan_cli.memory.weights.families.bailing_hybrid import BAILING_HYBRIDS
from kvplan_cli.memory.weights.families.clef import CLEFS
from kvplan_cli.memory.weights.families.deepseek import DEEPSEEKS
from kvplan_cli.memory.weights.families.deepseek_v4 import DEEPSEEK_V4
from kvplan_cli.memory.weights.families.elder import ELDER
from kvplan_cli.memory.weights.families.embedding_gemma2 import EMBEDDING_GEMMA2
from kvplan_cli.memory.weights.families.encoders import ENCODERS
from kvplan_cli.memory.weights.families.gemma import GEMMAS
from kvplan_cli.memory.weights.families.gemma_per_layer import PER_LAYER_GEMMAS
from kvplan_cli.memory.weights.families.glm5_next import GLM5_NEXT
from kvplan_cli.memory.weights.families.hrm import HRM
from kvplan_cli.memory.weights.families.inkling import INKLINGS
from kvplan_cli.memory.weights.families.k2_horizon import K2_HORIZON
from kvplan_cli.memory.weights.families.kimi import KIMIS
from kvplan_cli.memory.weights.families.latent import LATENT
from kvplan_cli.memory.weights.families.latent_others import LATENT_OTHERS
from kvplan_cli.memory.weights.families.library import library_classifier, library_decoder
from kvplan_cli.memory.weights.families.library_wrappers import library_wrapper
from kvplan_cli.memory.weights.families.llama_like import LLAMA_LIKE
from kvplan_cli.memory.weights.families.mixtures import MIXTURES
from kvplan_cli.memory.weights.families.mixtures_windowed import WINDOWED_MIXTURES
from kvplan_cli.memory.weights.families.nemotron_h import NEMOTRON_H
from kvplan_cli.memory.weights.families.nemotron_nas import NEMOTRON_NAS
from kvplan_cli.memory.weights.families.pooling import POOLING
from kvplan_cli.memory.weights.families.qwen4_exp import QWEN4_EXPS
from kvplan_cli.memory.weights.families.rarer import RARER
from kvplan_cli.memory.weights.families.states import STATEFUL
from kvplan_cli.memory.weights.families.step import STEP
from kvplan_cli.memory.weights.families.step5 import STEP5
from kvplan_cli.memory.weights.families.transformers_backend import TRANSFORMERS_BACKEND
from kvplan_cli.memory.weights.families.whisper import WHISPER
from kvplan_cli.memory.weights.families.wrappers import WRAPPER_ROWS
from kvplan_cli.memory.weights.families.wrappers_audio import AUDIO_WRAPPERS
from kvplan_cli.memory.weights.families.wrappers_images import IMAGE_WRAPPERS
from kvplan_cli.memory.weights.families.wrappers_rarer import RARER_WRAPPERS
from kvplan_cli.memory.weights.families.zamba import ZAMBA
from kvplan_cli.memory.weights.modalities import served_by
from kvplan_cli.memory.weights.model import Described, Wrapper
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.ties import tying_of
from kvplan_cli.memory.weights.towers.formats import formatted_towers
from kvplan_cli.models.choice import part_names
from kvplan_cli.models.library import LIBRARY_CLASSES
from kvplan_cli.models.registry import language_architecture

DECODERS: Final[Mapping[str, Decoder]] = MappingProxyType(
    {
        **LLAMA_LIKE,
        **GEMMAS,
        **PER_LAYER_GEMMAS,
        **MIXTURES,
        **WINDOWED_MIXTURES,
        **TRANSFORMERS_BACKEND,
        **ELDER,
        **ENCODERS,
        **LATENT,
        **DEEPSEEKS,
        **STATEFUL,
        **DEEPSEEK_V4,
        **EMBEDDING_GEMMA2,
        "Glm5NextForCausalLM": GLM5_NEXT,
        **HRM,
        **INKLINGS,
        "K2HorizonForCausalLM": K2_HORIZON,
        **WHISPER,
        **NEMOTRON_H,
        **ZAMBA,
        **KIMIS,
        **LATENT_OTHERS,
        **POOLING,
        **BAILINGS,
        **BAILING_HYBRIDS,
        **ALICE,
        **RARER,
        **NEMOTRON_NAS,
        **QWEN4_EXPS,
        **STEP,
        **STEP5,
    }
)
WRAPPERS: Final[Mapping[str, Wrapper]] = MappingProxyType(
    {
        **WRAPPER_ROWS,
        **RARER_WRAPPERS,
        **AUDIO_WRAPPERS,
        **IMAGE_WRAPPERS,
        **CLEFS,
    }
)


def described_architectures() -> tuple[str, ...]:
    """Every architecture whose weights can be counted, by name."""
    return tuple(sorted({*DECODERS, *WRAPPERS}))


def describe(architecture: str, config: HfConfig, text: HfConfig) -> Described:
    """The description of ``architecture``; UnplannableError where there is none."""
    if architecture in LIBRARY_CLASSES:
        return _of_library(architecture, config, text)
    served = _served_as(architecture)
    classifies = served != architecture and architecture.endswith(_CLASSIFIERS)
    wrapper = WRAPPERS.get(served)
    if wrapper is None:
        return Described(decoder=_decoder(served, config), classifies=classifies)
    decoder = wrapper.decoder
    if decoder is None:
        decoder = _decoder(_language(served, config, text), text)
    wrapper = replace(
        wrapper,
        served=served_by(served),
        tying=tying_of(served),
        formatted=formatted_towers(served),
    )
    return Described(decoder=decoder, wrapper=wrapper, classifies=classifies)


def _of_library(architecture: str, config: HfConfig, text: HfConfig) -> Described:
    classifies = architecture.endswith(_CLASSIFIERS)
    own = library_classifier(text) if classifies else None
    return Described(
        decoder=library_decoder(text) if own is None else own,
        wrapper=_wrapper_of_library(architecture, config),
        classifies=classifies and own is None,
    )


def _wrapper_of_library(architecture: str, config: HfConfig) -> Wrapper | None:
    if "MultiModal" not in architecture:
        return None
    return replace(library_wrapper(config), served=served_by(architecture))


def inner_architecture(architecture: str, config: HfConfig, text: HfConfig) -> str | None:
    """The class of a multimodal model's language part, where its config names it."""
    served = _served_as(architecture)
    wrapper = WRAPPERS.get(served)
    if wrapper is None or wrapper.decoder is not None:
        return None
    return _language(served, config, text)


# A model for another task, or a bare one, stands on the generating class of its family.
# Source: vLLM 0.33.0 ``config/model.py:_SUFFIX_TO_DEFAULTS``.
_TASKS: Final = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForRewardModeling",
    "ForTextEncoding",
    "EmbeddingModel",
    "RewardModel",
    "Model",
)
# Those on which the engine puts a linear over the labels.
_CLASSIFIERS: Final = ("ForSequenceClassification", "ForTokenClassification")


def _served_as(architecture: str) -> str:
    for suffix in _TASKS:
        if architecture in DECODERS or architecture in WRAPPERS:
            return architecture
        stem = architecture.removesuffix(suffix)
        for ending in ("ForCausalLM", "ForConditionalGeneration"):
            if stem != architecture and (stem + ending in DECODERS or stem + ending in WRAPPERS):
                return stem + ending
    return architecture


def _language(architecture: str, config: HfConfig, text: HfConfig) -> str:
    """The language model inside, as the loader reads it."""
    inner = language_architecture(architecture, config)
    if inner is not None:
        return inner
    for name in part_names(text):
        if name in DECODERS:
            return name
    raise unknown(f"the language model of {architecture} is not described", text.origin)


def _decoder(architecture: str, config: HfConfig) -> Decoder:
    decoder = DECODERS.get(architecture)
    if decoder is None:
        raise unknown(
            f"the weights of {architecture} are not described",
            f"{config.origin}: {config.where('architectures')}",
        )
    return decoder
