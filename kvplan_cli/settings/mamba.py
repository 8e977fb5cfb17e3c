"""How layers with recurrent states cache them: mode, block size, element types.

Source: vLLM 0.33.0 ``vllm/model_executor/models/config.py`` (``MambaModelConfig``,
``NemotronHForCausalLMConfig``, ``Qwen3_5ForConditionalGenerationConfig``) and
``vllm/config/vllm.py:validate_mamba_block_size``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.refusal import check_one_of, check_positive, refuses
from kvplan_cli.values import dataclass

AUTO: Final = "auto"
_DTYPES: Final = (AUTO, "float32", "float16", "bfloat16")
# Architectures whose config has a word on the recurrent state's type, and its key there.
_NEMOTRON_H: Final = frozenset(
    {"NemotronHForCausalLM", "NemotronHPuzzleForCausalLM", "NemotronH_Nano_VL_V2"}
)
_QWEN3_5: Final = frozenset(
    {
        "ColQwen3_5",
        "D3ForSequenceClassification",
        "Qwen3_5ForCausalLM",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen4ExpForCausalLM",
        "Qwen4ExpForConditionalGeneration",
    }
)
# Hybrids whose config class has no list of layers with "full_attention" in it.
_UNLISTED_ATTENTION: Final = frozenset(
    {
        "falcon_h1",
        "glm5_next",
        "glm5_next_text",
        "kimi_k3",
        "kimi_linear",
        "qwen4_exp",
        "qwen4_exp_text",
        "zamba2",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaCache:
    """mamba_cache_mode: ``align`` caches states at block ends, ``none`` does not cache.

    mamba_block_size: tokens a state block stands for; None where nothing sets it.
    mamba_cache_dtype, mamba_ssm_cache_dtype: element types of the convolution window and of
    the recurrent state, ``auto`` for the model's and for the window's.
    """

    mamba_cache_mode: str
    mamba_block_size: int | None
    mamba_cache_dtype: str
    mamba_ssm_cache_dtype: str


def mamba_cache(
    args: EngineArgs,
    *,
    architecture: str,
    config: HfConfig,
    keeps_states: bool,
    enable_prefix_caching: bool,
    block_size: int,
    max_model_len: int,
) -> MambaCache:
    """The mode follows prefix caching; the engine ignores ``--mamba-cache-mode``.

    keeps_states: the model is a hybrid or free of attention.
    """
    check_positive("mamba_block_size", args.mamba_block_size)
    check_one_of("mamba_cache_dtype", args.mamba_cache_dtype, _DTYPES)
    check_one_of("mamba_ssm_cache_dtype", args.mamba_ssm_cache_dtype, _DTYPES)
    mode, given = "none", args.mamba_block_size
    if keeps_states:
        mode = "align" if enable_prefix_caching else "none"
        unset = block_size if enable_prefix_caching else max_model_len
        given = unset if given is None else given
    return MambaCache(
        mamba_cache_mode=mode,
        mamba_block_size=given,
        mamba_cache_dtype=args.mamba_cache_dtype or AUTO,
        mamba_ssm_cache_dtype=_ssm_cache_dtype(architecture, config, args.mamba_ssm_cache_dtype),
    )


def check_packed_cache(cache_dtype: str, config: HfConfig) -> None:
    """Caches of packed keys and values need layers that the config calls attention.

    Source: vLLM 0.33.0 ``quantization/turboquant/config.py:get_boundary_skip_layers``.
    """
    packed = cache_dtype.startswith("turboquant_") or cache_dtype == "ultraquant_4bit"
    if packed and config.optional_text("model_type") in _UNLISTED_ATTENTION:
        raise refuses(
            "TurboQuant KV cache requires identifiable full-attention layers, but none were found "
            "in the hybrid model config.",
            error_type="NotImplementedError",
        )


def _ssm_cache_dtype(architecture: str, config: HfConfig, flag: str | None) -> str:
    """What the user wants, else the config, where the architecture's hook asks it."""
    if flag not in (None, AUTO):
        return str(flag)
    text = text_config(config)
    if architecture in _NEMOTRON_H:
        return _known(text, "mamba_ssm_cache_dtype") or "float32"
    if architecture in _QWEN3_5:
        return _known(text, "mamba_ssm_dtype") or AUTO
    return AUTO


def _known(text: HfConfig, key: str) -> str | None:
    value = text.optional_text(key)
    if value is not None and value not in _DTYPES:
        raise text.wrong(key, f"one of {', '.join(_DTYPES)}")
    return value


def check_chunked_prefill(*, mamba_cache_mode: str, enable_chunked_prefill: bool) -> None:
    """Raises EngineRefusalError: states are cached at the ends of prefill chunks."""
    if mamba_cache_mode == "align" and not enable_chunked_prefill:
        raise refuses(
            "Chunked prefill is required for Mamba prefix caching.",
            way_out="leave --no-enable-chunked-prefill out, or add --no-enable-prefix-caching",
        )


def check_mamba_block_size(
    args: EngineArgs, *, enable_prefix_caching: bool, max_model_len: int
) -> None:
    """Raises EngineRefusalError: without prefix caching a state stands for the whole length."""
    given = args.mamba_block_size
    if given not in (None, max_model_len) and not enable_prefix_caching:
        raise refuses("--mamba-block-size can only be set with --enable-prefix-caching")
