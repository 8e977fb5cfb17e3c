"""How state layers beside attention cache their states.

Source: vLLM 0.33.0 ``vllm/model_executor/models/config.py:MambaModelConfig`` and
``vllm/config/vllm.py:validate_mamba_block_size``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.settings.refusal import check_one_of, check_positive, refuses
from kvplan_cli.values import dataclass

_DTYPES: Final = ("auto", "float32", "float16", "bfloat16")
_ATTENTION_ONLY: Final = ("attention", "full_attention")


@dataclass(frozen=True, slots=True, kw_only=True)
class MambaCache:
    """mamba_cache_mode: ``align`` caches states at block ends, ``none`` does not cache.

    mamba_block_size: tokens a state block stands for; None where nothing sets it.
    """

    mamba_cache_mode: str
    mamba_block_size: int | None


def has_state_layers(is_hybrid: bool, config: HfConfig) -> bool:
    """Whether a hybrid architecture is one in this config, too.

    Source: vLLM 0.33.0 ``vllm/config/model.py:ModelConfig.is_hybrid``.
    """
    kinds = config.optional_list("layer_types")
    return is_hybrid and (kinds is None or any(kind not in _ATTENTION_ONLY for kind in kinds))


def mamba_cache(
    args: EngineArgs,
    *,
    is_hybrid: bool,
    enable_prefix_caching: bool,
    block_size: int,
    max_model_len: int,
) -> MambaCache:
    """The mode follows prefix caching; the engine ignores ``--mamba-cache-mode``."""
    check_positive("mamba_block_size", args.mamba_block_size)
    check_one_of("mamba_cache_dtype", args.mamba_cache_dtype, _DTYPES)
    check_one_of("mamba_ssm_cache_dtype", args.mamba_ssm_cache_dtype, _DTYPES)
    given = args.mamba_block_size
    if given is not None and given != max_model_len and not enable_prefix_caching:
        raise refuses("--mamba-block-size can only be set with --enable-prefix-caching")
    if not is_hybrid:
        return MambaCache(mamba_cache_mode="none", mamba_block_size=given)
    unset = block_size if enable_prefix_caching else max_model_len
    return MambaCache(
        mamba_cache_mode="align" if enable_prefix_caching else "none",
        mamba_block_size=unset if given is None else given,
    )
