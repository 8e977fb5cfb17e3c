"""The draft model that ``--speculative-config`` names, resolved like MODEL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.loader.folder import is_model_config
from kvplan_cli.loader.sources import resolve_model

# How errors name the draft model's config.
DRAFT_PLACE: Final = "speculative_config.model"
# Methods whose ``model`` is no model.
_WITHOUT_MODEL: Final = frozenset({"custom_class", "extract_hidden_states", "ngram", "suffix"})
_NO_MODELS: Final = frozenset({"ngram", "[ngram]", "ngram_gpu", "suffix"})


def with_draft_model(args: EngineArgs, where: str) -> EngineArgs:
    """The flags with the draft model's config.json in place of its name.

    where: the flag or file that gave the speculative config. Raises InputError (no such file
    or name), UnplannableError (the hub's facts can't be had).
    """
    given = args.speculative_config
    model = None if given is None else given.get("model")
    if given is None or model is None or _is_no_model(given, model):
        return args
    place = f"{where}: model"
    if isinstance(model, str):
        source = resolve_model(model, revision=given.get("revision"), where=place)
        return replace(
            args,
            speculative_config={**given, "model": source.config},
            draft_name=model,
            draft_files=source.extra_files,
        )
    if not isinstance(model, Mapping) or not is_model_config(model):
        raise InputError(
            Problem(
                where=place,
                reason="neither a name nor a model's config (architectures, model_type)",
                way_out="name the draft model, or give its config.json as an object",
            )
        )
    return args


def _is_no_model(given: Mapping[str, Any], model: object) -> bool:
    stated = given.get("method") in _WITHOUT_MODEL
    return stated or (isinstance(model, str) and model in _NO_MODELS)


def completed_draft(args: EngineArgs) -> EngineArgs:
    """The same flags with the draft config's class values beneath its own.

    UnplannableError where there is no class to ask, InputError where it refuses the config.
    """
    given = args.speculative_config or {}
    config, _ = with_class_defaults(given["model"], DRAFT_PLACE)
    return replace(args, speculative_config={**given, "model": config})
