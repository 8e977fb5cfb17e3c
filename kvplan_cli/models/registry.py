"""From a config to its architecture and layers: the one door into the families' tables.

A new architecture is a row in its family's file; a new family file is a line in ``_FAMILIES``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from kvplan_cli.errors import InputError, MissingFieldError, Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models import llama_like, wrappers
from kvplan_cli.models.architecture import Architecture, Decoder
from kvplan_cli.models.language import Language
from kvplan_cli.models.shape import ArchitectureTraits, AttentionLayer, ModelShape

_FAMILIES: Final = (llama_like, wrappers)
ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {row.name: row for family in _FAMILIES for row in family.ROWS}
)


def find_architecture(config: HfConfig) -> ArchitectureTraits:
    """The traits of the architecture that the engine serves ``config`` with.

    Raises InputError where ``architectures`` is not a list of names, UnplannableError where
    no family knows any of them.
    """
    row = _row(config)
    return ArchitectureTraits(
        architecture=row.name,
        runner_type=row.runner_type,
        supports_pp=row.supports_pp,
        is_multimodal=row.is_multimodal,
    )


def model_shape(config: HfConfig) -> ModelShape:
    """All attention layers of the model that ``config`` describes, unsharded, in order."""
    row = _row(config)
    layers, depth = _layers(row, config)
    return ModelShape(architecture=row.name, num_hidden_layers=depth, layers=layers)


def known_architectures() -> tuple[ArchitectureTraits, ...]:
    """Every architecture that can be planned, by name."""
    return tuple(
        ArchitectureTraits(
            architecture=row.name,
            runner_type=row.runner_type,
            supports_pp=row.supports_pp,
            is_multimodal=row.is_multimodal,
        )
        for _, row in sorted(ARCHITECTURES.items())
    )


def _layers(row: Architecture, config: HfConfig) -> tuple[tuple[AttentionLayer, ...], int]:
    model = row.model
    if isinstance(model, Decoder):
        language = Language.of(config)
        return model.layers(language), language.num_hidden_layers
    part = model.part(config)
    inner = ARCHITECTURES[model.architecture or _inner_name(part)]
    layers, depth = _layers(inner, part)
    return tuple(_prefixed(layer, model.prefix) for layer in layers), depth


def _prefixed(layer: AttentionLayer, prefix: str) -> AttentionLayer:
    target = layer.kv_sharing_target
    return replace(
        layer,
        name=prefix + layer.name,
        kv_sharing_target=None if target is None else prefix + target,
    )


def _inner_name(part: HfConfig) -> str:
    named = part.optional_list("architectures")
    if named:
        return str(named[0])
    return _CAUSAL_BY_TYPE[part.text("model_type")]


_CAUSAL_BY_TYPE: Final[Mapping[str, str]] = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
}


def _row(config: HfConfig) -> Architecture:
    names = config.optional_list("architectures")
    if not names:
        raise MissingFieldError(config.where("architectures"), config.origin)
    if not all(isinstance(name, str) for name in names):
        raise config.wrong("architectures", "a list of names")
    for name in names:
        if name in ARCHITECTURES:
            return ARCHITECTURES[name]
    raise _unknown(config, str(names[0]))


def _unknown(config: HfConfig, name: str) -> UnplannableError | InputError:
    near = difflib.get_close_matches(name, ARCHITECTURES, n=1)
    hint = f"nearest known: {near[0]}; " if near else ""
    return UnplannableError(
        Problem(
            where=f"{config.origin}: {config.where('architectures')}",
            reason=f"kvplan does not know the architecture {name}",
            way_out=f"{hint}give the layer specs in a plan file to plan it all the same",
        )
    )
