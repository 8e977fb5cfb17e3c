"""A folder with a model: its config.json, what stands beside it, and its weights' files."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.checkpoint import find_checkpoint
from kvplan_cli.loader.documents import place, read_object
from kvplan_cli.loader.mistral_format import PARAMS_NAME, adapted
from kvplan_cli.loader.model_source import ModelSource, Origin, OriginKind
from kvplan_cli.loader.sentence_transformers import read_modules

CONFIG_NAME: Final = "config.json"
# What the engine reads beside config.json and a plan can feel.
# Source: vLLM 0.33.0 ``vllm/transformers_utils/config.py:get_config``,
# ``vllm/config/model.py:_get_and_verify_max_len``.
OWN_WEIGHTS: Final = "consolidated*.safetensors"
QUANTIZATION_NAME: Final = "hf_quant_config.json"
EXTRA_NAMES: Final = (
    "tokenizer_config.json",
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
    "whisper-large-v3/config.json",
    "audio_tokenizer/config.json",
)
# Of these, what a class of models has on the hub. (The engine looks for the tokenizer of MiMo's
# sound in a folder only.)
HUB_NAMES: Final[Mapping[str, str]] = {"MoonshotKimiaForCausalLM": "whisper-large-v3/config.json"}
# A tokenizer's file is large and has one value for a plan.
_KEPT: Final[Mapping[str, tuple[str, ...]]] = {"tokenizer_config.json": ("model_max_length",)}


def is_model_config(document: Mapping[str, Any]) -> bool:
    """Whether a document is a model's config rather than a plan."""
    return "architectures" in document or "model_type" in document


def read_folder(folder: Path) -> ModelSource:
    """The model of a folder. InputError where it holds no config."""
    path = _config_path(folder)
    if not path.exists():
        reason = "the folder holds no config.json"
        raise InputError(Problem(where=place(folder), reason=reason, way_out=_instead(folder)))
    return ModelSource(
        name=folder.resolve().name,
        config=read_config(path),
        origin=Origin(kind=OriginKind.FOLDER, place=place(path)),
        extra_files=read_extra_files(path),
        checkpoint=find_checkpoint(folder),
    )


def _config_path(folder: Path) -> Path:
    """The file that the engine reads: Mistral's own where the weights are of its form, too."""
    hub_config, params = folder / CONFIG_NAME, folder / PARAMS_NAME
    if not params.exists():
        return hub_config
    own = not hub_config.exists() or any(folder.glob(OWN_WEIGHTS))
    return params if own else hub_config


def read_config(path: Path) -> dict[str, Any]:
    """A model's config file. InputError where it holds something else."""
    return config_of(read_object(path), path)


def config_of(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """The config of a file's content. InputError where it is something else."""
    if path.name == PARAMS_NAME:
        beside = path.with_name(CONFIG_NAME)
        return adapted(document, place(path), read_object(beside) if beside.exists() else None)
    if not is_model_config(document):
        raise InputError(
            Problem(
                where=place(path),
                reason="neither architectures nor model_type: not a model's config",
                way_out="give the model's own config.json",
            )
        )
    return document


def read_extra_files(config_path: Path) -> dict[str, Any]:
    """The files beside a config.json that the engine reads too, by name."""
    extra: dict[str, Any] = {}
    folder = config_path.parent
    for name in (QUANTIZATION_NAME, *EXTRA_NAMES):
        path = folder / name
        if path.is_file():
            extra[name] = kept_values(name, read_object(path))
    return extra | read_modules(lambda name: path if (path := folder / name).is_file() else None)


def kept_values(name: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a plan needs of such a file."""
    keys = _KEPT.get(name)
    return document if keys is None else {k: document[k] for k in keys if k in document}


def _instead(folder: Path) -> str:
    parents = [path.parent.name for path in islice(folder.glob("*/config.json"), 3)]
    if parents:
        return f"there is one in {', '.join(sorted(parents))}"
    return "give the folder of a model, or its config.json"
