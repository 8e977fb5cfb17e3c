"""The engine's flags as the user gave them, before the engine resolves anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum
from typing import Any

from kvplan_cli.values import dataclass

AUTO_MAX_MODEL_LEN = -1


class UsageContext(Enum):
    """Who starts the engine; batch limits default by it."""

    OPENAI_API_SERVER = "OPENAI_API_SERVER"
    LLM_CLASS = "LLM_CLASS"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineArgs:
    """Flags by the engine's Python names. None: not given, the engine decides.

    max_model_len: tokens, or -1 for the longest that fits. env: the engine's environment
    variables that matter here (``VLLM_KV_CACHE_LAYOUT``, ``VLLM_PP_LAYER_PARTITION``,
    ``VLLM_ALLOW_LONG_MAX_MODEL_LEN``, ``VLLM_USE_V2_MODEL_RUNNER``, ...).
    speculative_config: ``model`` is the draft model's config.json by now; draft_name is how it
    was named, draft_files what stands beside it, by file name.
    Source: vLLM 0.33.0 ``vllm/engine/arg_utils.py:EngineArgs``.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    cp_kv_cache_interleave_size: int | None = None
    prefill_context_parallel_size: int = 1
    data_parallel_size: int = 1
    enable_expert_parallel: bool = False
    all2all_backend: str = "allgather_reducescatter"
    max_model_len: int | None = None
    dtype: str = "auto"
    quantization: str | None = None
    kv_cache_dtype: str = "auto"
    kv_cache_dtype_skip_layers: tuple[str, ...] = ()
    block_size: int | None = None
    gpu_memory_utilization: float = 0.92
    kv_cache_memory_bytes: int | None = None
    num_gpu_blocks_override: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    performance_mode: str = "balanced"
    enable_chunked_prefill: bool | None = None
    enable_prefix_caching: bool | None = None
    prefix_match_unit: int | None = None
    async_scheduling: bool | None = None
    disable_hybrid_kv_cache_manager: bool | None = None
    attention_backend: str | None = None
    enforce_eager: bool = False
    optimization_level: int = 2
    compilation_config: Mapping[str, Any] | None = None
    mamba_cache_mode: str | None = None
    mamba_block_size: int | None = None
    mamba_cache_dtype: str | None = None
    mamba_ssm_cache_dtype: str | None = None
    gdn_prefill_backend: str | None = None
    runner: str = "auto"
    model_impl: str = "auto"
    speculative_config: Mapping[str, Any] | None = None
    draft_name: str = ""
    draft_files: Mapping[str, Any] = field(default_factory=dict)
    hf_overrides: Mapping[str, Any] | None = None
    limit_mm_per_prompt: Mapping[str, Any] | None = None
    language_model_only: bool = False
    skip_mm_profiling: bool = False
    disable_chunked_mm_input: bool = False
    disable_sliding_window: bool = False
    revision: str | None = None
    enable_lora: bool = False
    max_loras: int = 1
    max_lora_rank: int = 16
    lora_dtype: str = "auto"
    fully_sharded_loras: bool = False
    max_cpu_loras: int | None = None
    usage_context: UsageContext = UsageContext.OPENAI_API_SERVER
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def num_gpus(self) -> int:
        """Cards of the whole deployment."""
        return (
            self.tensor_parallel_size
            * self.pipeline_parallel_size
            * self.prefill_context_parallel_size
            * self.data_parallel_size
        )

    def serves(self, modality: str) -> bool:
        """Whether a prompt may hold an item of a modality; without a limit it may.

        Source: vLLM 0.33.0 ``config/multimodal.py:get_limit_per_prompt``.
        """
        limit = (self.limit_mm_per_prompt or {}).get(modality)
        count = limit.get("count") if isinstance(limit, Mapping) else limit
        return not self.language_model_only and count != 0
