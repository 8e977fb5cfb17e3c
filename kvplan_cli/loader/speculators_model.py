"""MODEL in the speculators format: a draft that names the model it drafts for.

Source: vLLM 0.33.0 ``transformers_utils/config.py:maybe_override_with_speculators`` and
``transformers_utils/configs/speculators/base.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.model_source import ModelSource
from kvplan_cli.loader.sources import resolve_model
from kvplan_cli.values import dataclass

_METHODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "peagle": {"method": "eagle3", "parallel_drafting": True},
    "dflash2": {"method": "dflash"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafting:
    """What such a MODEL stands for: a target, by its name on the hub, and how it is drafted for.

    speculative_config: without the draft itself.
    """

    verifier: str
    speculative_config: Mapping[str, Any]


def drafting(source: ModelSource) -> Drafting | None:
    """What a model of this format says; None for other models. InputError for half a format."""
    stated = source.config.get("speculators_config")
    if stated is None:
        return None
    try:
        tokens = stated["proposal_methods"][0]["speculative_tokens"]
        verifier = stated["verifier"]["name_or_path"]
        kind = source.config["speculators_model_type"]
    except (KeyError, IndexError, TypeError):
        raise _fault(source, "Invalid speculators config structure") from None
    if not isinstance(source.config.get("transformer_layer_config"), Mapping):
        raise _fault(source, "Must provide transformer_layer_config")
    if not _is_hub_id(verifier):
        raise _fault(
            source,
            "Speculators verifier must name a remote model repository",
            "name the target as MODEL, and this draft with --speculative-config",
        )
    method = _METHODS.get(str(kind), {"method": kind})
    return Drafting(
        verifier=verifier, speculative_config={**method, "num_speculative_tokens": tokens}
    )


def with_target(source: ModelSource, args: EngineArgs) -> tuple[ModelSource, EngineArgs]:
    """The target of a model of this format, and the flags with the model as its draft.

    Other models and their flags come back as they are. Raises: InputError, UnplannableError
    (the hub's facts can't be had).
    """
    found = drafting(source)
    if found is None:
        return source, args
    where = f"{source.origin.place}: speculators_config.verifier"
    stated, given = found.speculative_config, args.speculative_config or {}
    drafts = {**stated, **given, "method": stated["method"], "model": source.config}
    return resolve_model(found.verifier, where=where), replace(
        args,
        speculative_config=drafts,
        draft_name=source.name,
        draft_files=source.extra_files,
    )


def _is_hub_id(name: object) -> bool:
    from kvplan_cli.loader.hub import HUB_ID

    return isinstance(name, str) and HUB_ID.fullmatch(name) is not None and not Path(name).exists()


def _fault(source: ModelSource, reason: str, way_out: str | None = None) -> InputError:
    where = f"{source.origin.place}: speculators_config"
    return InputError(Problem(where=where, reason=reason, way_out=way_out))
