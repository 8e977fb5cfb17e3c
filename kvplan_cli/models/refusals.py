"""What to say of an architecture that has no row: who keeps what, who was dropped, what helps."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from kvplan_cli.errors import (
    EngineRefusalError,
    KvplanError,
    Problem,
    UnplannableError,
    UnservedArchitectureError,
)
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.other_families import DROPPED, OTHER_FAMILIES, PLUGINS

_WAY_OUT = "give the layer specs in a plan file to plan it all the same"


def refuse(
    config: HfConfig, names: Sequence[str], known: Sequence[str], *, drafts: bool = False
) -> KvplanError:
    """The error for a config whose ``architectures`` are ``names``; ``known`` have rows.

    drafts: they are names that the engine made for a drafter, which no other class serves.
    """
    for name in names:
        if name in OTHER_FAMILIES:
            reason = f"{name} {OTHER_FAMILIES[name]}; kvplan does not plan this family yet"
            return _unplannable(config, reason, _WAY_OUT)
    for name in names:
        if name in DROPPED:
            return _dropped(
                f"Model architecture {name} was supported in vLLM until v{DROPPED[name]}, and "
                "is not supported anymore. Please use an older version of vLLM if you want to "
                "use this model architecture."
            )
        if name in PLUGINS:
            return _dropped(
                f"Model architecture {name} is not supported in-tree anymore. Please install "
                f"the plugin at {PLUGINS[name]} if you want to use this model architecture."
            )
    if not names:
        model_type = config.optional_text("model_type")
        reason = f"kvplan knows no language model of type {model_type}"
        return _unplannable(config, reason, f"name it in architectures, or {_WAY_OUT}")
    near = difflib.get_close_matches(names[0], (*known, *OTHER_FAMILIES), n=1)
    hint = f"nearest known: {near[0]}; " if near else ""
    reason = f"kvplan does not know the architecture {', '.join(names)}"
    unplannable = _unplannable(config, reason, hint + _WAY_OUT)
    unserved = _no_one_serves(config, names, any_name=drafts)
    return _unserved(names, unplannable) if unserved else unplannable


def _no_one_serves(config: HfConfig, names: Sequence[str], *, any_name: bool) -> bool:
    """Whether neither the engine, nor the library, nor the checkpoint's own code has a class."""
    from kvplan_cli.models.engine_names import ENGINE_NAMES, LIBRARY_NAMES

    if config.has("auto_map") and not any_name:
        return False
    return all(
        (any_name or name.endswith(("ForCausalLM", "ForConditionalGeneration")))
        and name not in LIBRARY_NAMES
        and name not in ENGINE_NAMES
        for name in names
    )


def _unserved(names: Sequence[str], unplannable: UnplannableError) -> UnservedArchitectureError:
    from kvplan_cli.models.engine_names import ENGINE_NAMES

    known = ", ".join(f"'{name}'" for name in ENGINE_NAMES)
    return UnservedArchitectureError(
        message=f"Model architectures {list(names)} are not supported for now. Supported "
        f"architectures: dict_keys([{known}])",
        problem=unplannable.problems[0],
    )


def _dropped(message: str) -> EngineRefusalError:
    # The engine's ValueError reaches the user through pydantic.
    return EngineRefusalError(stage="config_error", error_type="ValidationError", message=message)


def _unplannable(config: HfConfig, reason: str, way_out: str) -> UnplannableError:
    where = f"{config.origin}: {config.where('architectures')}"
    return UnplannableError(Problem(where=where, reason=reason, way_out=way_out))
