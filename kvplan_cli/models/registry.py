"""From a config to its architecture and layers: the one door into the families' tables.

A new architecture is a row in its family's file; a new family file is a line in ``_FAMILIES``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models import (
    deepseek_v4,
    deepseek_v41,
    dots3_note,
    encoder_decoders,
    encoders,
    gemma,
    glm5_next,
    gpt_like,
    inkling,
    library,
    llama_like,
    looped,
    minicpm_v,
    minimax_m3,
    mla,
    nemotron_nas,
    own_rules,
    pooling_heads,
    qwen4_exp,
    state_wrappers,
    states,
    step5,
    transformers_backend,
    voxtral,
    windowed,
    wrappers,
)
from kvplan_cli.models.architecture import Architecture, Layout, Wrapped
from kvplan_cli.models.choice import adapted_names, part_names, whole_names
from kvplan_cli.models.hybrid import StatefulLayout
from kvplan_cli.models.language import Language
from kvplan_cli.models.other_families import OTHER_FAMILIES
from kvplan_cli.models.prefix_lm import is_mm_prefix_lm
from kvplan_cli.models.refusals import refuse
from kvplan_cli.models.shape import (
    ArchitectureTraits,
    AttentionLayer,
    CacheLayer,
    ModelShape,
    RunnerType,
)
from kvplan_cli.models.text import text_config

_FAMILIES: Final = (
    deepseek_v4,
    deepseek_v41,
    dots3_note,
    encoder_decoders,
    encoders,
    gemma,
    glm5_next,
    gpt_like,
    inkling,
    library,
    llama_like,
    looped,
    minicpm_v,
    minimax_m3,
    mla,
    nemotron_nas,
    own_rules,
    pooling_heads,
    qwen4_exp,
    state_wrappers,
    states,
    step5,
    transformers_backend,
    voxtral,
    windowed,
    wrappers,
)
ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {row.name: row for family in _FAMILIES for row in family.ROWS}
)


def find_architecture(config: HfConfig) -> ArchitectureTraits:
    """The traits of the architecture that the engine serves ``config`` with.

    Raises InputError where ``architectures`` is not a list of names, UnplannableError where
    no family knows them, EngineRefusalError where the engine refuses them at start.
    """
    row = _row(config)
    return replace(
        _traits(row),
        is_mm_prefix_lm=row.is_multimodal and is_mm_prefix_lm(config),
        mm_items=() if row.mm_items is None else row.mm_items(config),
        is_encoder_decoder=_is_encoder_decoder(row, config),
        is_hybrid=row.is_hybrid and _keeps_states(row, config),
        modalities=_modalities(row, config),
    )


def model_shape(config: HfConfig) -> ModelShape:
    """All layers of the model that ``config`` describes, unsharded, in order."""
    row = _row(config)
    layout, language, prefix = _innermost(row, config)
    mm_prefix = row.is_multimodal and is_mm_prefix_lm(config)
    layers = layout.layers(language)
    return ModelShape(
        architecture=row.name,
        num_hidden_layers=layout.num_decoder_layers(language),
        layers=tuple(_placed(layer, prefix, mm_prefix=mm_prefix) for layer in layers),
        whole_model=layout.whole_model(language),
        modalities=_modalities(row, config),
        block_states=layout.block_states(language) if isinstance(layout, StatefulLayout) else (),
        encoder=None if row.encoder is None else row.encoder(config),
    )


def known_architectures() -> tuple[ArchitectureTraits, ...]:
    """Every architecture that can be planned, by name; what a config decides is left False."""
    return tuple(_traits(row) for _, row in sorted(ARCHITECTURES.items()))


def _traits(row: Architecture) -> ArchitectureTraits:
    return ArchitectureTraits(
        architecture=row.name,
        runner_type=row.runner_type,
        supports_pp=row.supports_pp,
        is_multimodal=row.is_multimodal,
        is_hybrid=row.is_hybrid,
        is_attention_free=row.is_attention_free,
        is_encoder_decoder=row.is_encoder_decoder,
        attn_type=row.attn_type,
        default_seq_pooling_type=row.default_seq_pooling_type,
        default_tok_pooling_type=row.default_tok_pooling_type,
    )


def _keeps_states(row: Architecture, config: HfConfig) -> bool:
    """Whether a hybrid architecture is one in this config, too.

    The engine asks the whole config for its layers' kinds; a wrapper's has none.
    Source: vLLM 0.33.0 ``vllm/config/model.py:ModelConfig.is_hybrid``.
    """
    layout, language, _ = _innermost(row, config)
    nested = bool(language.config.path)
    return nested or not isinstance(layout, StatefulLayout) or layout.keeps_states(language)


def _is_encoder_decoder(row: Architecture, config: HfConfig) -> bool:
    """Source: vLLM 0.33.0 ``transformers_utils/config.py:is_encoder_decoder``."""
    stated = config.optional_boolean(_BOTH_PARTS)
    if row.is_encoder_decoder if stated is None else stated:
        return True
    try:
        part = text_config(config)
    except MissingFieldError:
        # Half a config: its layers' reader says so.
        return False
    if part.path == config.path:
        return False
    own = part.optional_boolean(_BOTH_PARTS)
    return Language.of(part).rules.is_encoder_decoder if own is None else own


_BOTH_PARTS: Final = "is_encoder_decoder"


def _modalities(row: Architecture, config: HfConfig) -> tuple[str, ...]:
    return () if row.modalities is None else row.modalities(config)


def _innermost(row: Architecture, config: HfConfig) -> tuple[Layout, Language, str]:
    """The layout that has the layers, the part of the config it reads, and its prefix."""
    model, prefix = row.model, ""
    while isinstance(model, Wrapped):
        prefix += model.prefix if isinstance(model.prefix, str) else model.prefix(config)
        config = model.part(config)
        if model.choose is not None:
            model = ARCHITECTURES[model.choose(config)].model
        elif model.inner is None:
            model = _named_row(config, part_names(config), of_part=True).model
        elif isinstance(model.inner, str):
            model = ARCHITECTURES[model.inner].model
        else:
            model = model.inner
    return model, Language.of(config), prefix


def language_architecture(name: str, config: HfConfig) -> str | None:
    """The row of the language model inside ``name``; None where the model has no row of its own.

    Raises MissingFieldError where the part that should name it does not.
    """
    row = ARCHITECTURES.get(name)
    model, found = (None if row is None else row.model), None
    while isinstance(model, Wrapped):
        config = model.part(config)
        if model.choose is not None:
            found = model.choose(config)
        elif model.inner is None:
            found = _named_row(config, part_names(config), of_part=True).name
        elif isinstance(model.inner, str):
            found = model.inner
        else:
            return None
        model = ARCHITECTURES[found].model
    return found


def _placed(layer: CacheLayer, prefix: str, *, mm_prefix: bool) -> CacheLayer:
    if not prefix and not mm_prefix:
        return layer
    name = _joined(prefix, layer.name)
    if not isinstance(layer, AttentionLayer):
        return replace(layer, name=name)
    target = layer.kv_sharing_target
    return replace(
        layer,
        name=name,
        kv_sharing_target=None if target is None else _joined(prefix, target),
        mm_prefix=mm_prefix,
    )


def _joined(prefix: str, name: str) -> str:
    # Some classes name their layers from the dot on, which shows where nothing is before it.
    return prefix.removesuffix(".") + name if name.startswith(".") else prefix + name


def _row(config: HfConfig) -> Architecture:
    names = whole_names(config)
    if not names:
        raise MissingFieldError(config.where("architectures"), config.origin)
    return _named_row(config, names, of_part=False)


def _named_row(config: HfConfig, names: Sequence[str], *, of_part: bool) -> Architecture:
    for name in names:
        if name in ARCHITECTURES:
            return ARCHITECTURES[name]
        for base in () if name in OTHER_FAMILIES else adapted_names(name):
            if base in ARCHITECTURES:
                row = ARCHITECTURES[base]
                return replace(row, name=name, runner_type=RunnerType.POOLING)
    if not names and of_part:
        raise MissingFieldError(config.where("architectures"), config.origin)
    raise refuse(config, names, tuple(ARCHITECTURES))
