"""What the engine takes a draft model for: the method by its names, the class by the method.

Source: vLLM 0.33.0 ``vllm/config/speculative.py:SpeculativeConfig.__post_init__`` and
``vllm/transformers_utils/configs/eagle.py:EAGLEConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters.modules import Modules

_STATED: Final = ("eagle", "eagle3", "dflash", "dspark")
_DSPARK: Final = frozenset(
    {"Gemma4DSparkModel", "MuseSparkDSparkModel", "Qwen3DSparkModel", "Qwen3OmniDSparkModel"}
)
# DSpark drafts that are no stages of a DeepSeek V4 checkpoint.
_OWN_DSPARK: Final = _DSPARK | {"K3DSparkModel"}


def detected_method(method: str, name: str, names: Sequence[str], *, is_mtp: bool) -> str | None:
    """The method that the engine runs; None where it supports none.

    method: as stated, ``draft_model`` where nothing is. name: of the draft model. names: its
    architectures. is_mtp: it is a checkpoint with modules of its own.
    """
    if method in _STATED:
        return method
    lowered = name.lower()
    # In the engine's order.
    signs = {
        "eagle": "eagle-" in lowered,
        "eagle3": "eagle3" in lowered,
        "dflash": "dflash" in lowered or "MuseGlimmerAssistantModel" in names,
        "dspark": "dspark" in lowered or not _DSPARK.isdisjoint(names),
        "mtp": is_mtp,
        "draft_model": method == "draft_model",
    }
    return next((found for found, seen in signs.items() if seen), None)


def head_names(method: str, config: HfConfig, modules: Modules | None) -> Sequence[str]:
    """The engine's classes for a head with ``config``, in its order."""
    stated = [str(name) for name in config.list("architectures")]
    # The engine names this one last, whatever it made of the type.
    as_stated = modules is None or stated[:1] == ["MistralLarge3ForCausalLM"]
    names = stated if as_stated or modules is None else [modules.architecture]
    if config.optional_text("model_type") == "speculators":
        return names  # named by the engine already
    if method == "eagle":
        return [name if name.startswith("Eagle") else f"Eagle{name}" for name in names]
    if method == "eagle3":
        own = [name.startswith("Eagle3") or name.endswith("Eagle3") for name in names]
        return [n if known else f"Eagle3{n}" for n, known in zip(names, own, strict=True)]
    if method == "dflash":
        return [
            name
            if name.startswith("DFlash") or name.endswith("DFlash") or name == "LiLiCorrDraftModel"
            else f"DFlash{name}"
            for name in names
        ]
    return _dspark_names(stated, config.optional_text("model_type"))


def _dspark_names(stated: list[str], model_type: str | None) -> list[str]:
    if "DSparkDraftModel" in stated and model_type == "qwen3":
        return ["Qwen3DSparkModel"]
    if not _OWN_DSPARK.isdisjoint(stated):
        return stated
    return ["DSparkV41DraftModel" if model_type == "deepseek_v41" else "DSparkDraftModel"]
