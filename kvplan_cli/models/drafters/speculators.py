"""Draft checkpoints in the speculators format: the config that the engine reads from one.

Source: vLLM 0.33.0 ``vllm/transformers_utils/configs/speculators/{base,algos}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.errors import EngineRefusalError, Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig

_EAGLE3: Final[Mapping[str, str]] = {
    "qwen3": "Eagle3Qwen3ForCausalLM",
    "llama": "Eagle3LlamaForCausalLM",
}
_PEAGLE: Final[Mapping[str, str]] = {
    "qwen3": "PeagleQwen3ForCausalLM",
    "llama": "PeagleLlamaForCausalLM",
}
_DSPARK: Final = ("Qwen3DSparkModel", "Qwen3OmniDSparkModel")
_CARRIED: Final = (
    *("draft_vocab_size", "target_hidden_size", "block_size", "mask_token_id", "norm_before_fc"),
    *("norm_before_residual", "eagle_aux_hidden_state_layer_ids", "fc_norm"),
    *("markov_rank", "enable_confidence_head", "confidence_head_with_markov"),
)
_CODEBOOKS: Final = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")


def is_speculators(config: HfConfig) -> bool:
    """Whether a config.json is of this format."""
    return config.has("speculators_config") or config.has("speculators_model_type")


def as_plain(config: HfConfig) -> HfConfig:
    """The draft's layers as a config of their own, named by the engine's class.

    Raises EngineRefusalError for a base that the engine has no class for, UnplannableError
    for an algorithm without a row.
    """
    layers = config.optional_section("transformer_layer_config")
    values: dict[str, Any] = dict(layers.values) if layers is not None else {}
    values |= {key: config.raw(key) for key in _CARRIED if config.has(key)}
    values |= _algorithm(config, str(values.get("model_type", "llama")))
    # The engine's class for them adds nothing to what the file states.
    values["model_type"] = "speculators"
    return HfConfig(values, config.origin, config.path)


def _algorithm(config: HfConfig, model_type: str) -> Mapping[str, Any]:
    kind = config.optional_text("speculators_model_type")
    if kind in ("eagle3", "peagle"):
        classes, title = (_EAGLE3, "Eagle3") if kind == "eagle3" else (_PEAGLE, "PEagle")
        if model_type not in classes:
            raise EngineRefusalError(
                stage="config_error",
                error_type="ValidationError",
                message=f"Unsupported model_type {model_type} for {title} speculator",
            )
        return {"architectures": [classes[model_type]]}
    if kind in ("dflash", "dflash2"):
        name = "DFlashDraftModel" if kind == "dflash" else "DFlash2DraftModel"
        causal = config.optional_boolean("sliding_window_non_causal") is False
        codebooks = {key: config.raw(key) for key in _CODEBOOKS if config.has(key)}
        section = {"causal": causal, **codebooks}
        return {"architectures": [name], "dflash_config": section, **_read_layers(config)}
    if kind == "dspark":
        stated = [name for name in config.optional_list("architectures") or () if name in _DSPARK]
        anchored = bool(config.optional_boolean("sample_from_anchor"))
        names = stated or [_DSPARK[0]]
        return {"architectures": names, "sample_from_anchor": anchored, **_read_layers(config)}
    raise UnplannableError(
        Problem(
            where=f"{config.origin}: {config.where('speculators_model_type')}",
            reason=f"kvplan knows no speculators algorithm {kind}",
            way_out="leave --speculative-config out to plan the model alone",
        )
    )


def _read_layers(config: HfConfig) -> Mapping[str, Any]:
    """Layers of the target whose states a block drafter reads, under the engine's name."""
    listed = config.optional_list("aux_hidden_state_layer_ids")
    return {} if listed is None else {"eagle_aux_hidden_state_layer_ids": listed}
