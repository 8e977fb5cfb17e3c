"""The engine's settings after it has resolved flags, config and card."""

from __future__ import annotations

from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.settings.drafter import Drafter
from kvplan_cli.values import dataclass

# Source: vLLM 0.33.0 ``vllm/config/cache.py:CacheConfig.DEFAULT_BLOCK_SIZE``.
DEFAULT_BLOCK_SIZE: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSettings:
    """Names and meaning as in the vectors' ``resolved`` (vLLM 0.33.0 ``VllmConfig``).

    max_model_len: tokens; the derived or given limit (before auto-fit).
    original_max_model_len: -1 when auto-fit was asked for, else None or as given.
    cache_dtype: the resolved KV dtype string (``auto``, ``fp8``, ...).
    has_kv_cache_scheme: the checkpoint has a KV cache scheme that the engine reads only when
        it builds the layers.
    mamba_cache_dtype, mamba_ssm_cache_dtype: element types of convolution windows and of
        recurrent states; ``auto`` for the model's type, and for the window's.
    drafter: of speculative decoding.
    block_size: as given by the user, None when the engine chooses (see backends).
    """

    architecture: str
    runner_type: RunnerType
    is_encoder_decoder: bool
    is_hybrid: bool
    use_mla: bool
    max_model_len: int
    original_max_model_len: int | None
    dtype: DType
    cache_dtype: str
    quantization: str | None
    block_size: int | None
    tensor_parallel_size: int
    pipeline_parallel_size: int
    decode_context_parallel_size: int
    prefill_context_parallel_size: int
    enable_expert_parallel: bool
    max_num_batched_tokens: int
    max_num_seqs: int
    max_num_encoder_input_tokens: int
    max_concurrent_batches: int
    max_in_flight_tokens: int
    enable_chunked_prefill: bool
    enable_prefix_caching: bool
    async_scheduling: bool
    use_v2_model_runner: bool
    disable_hybrid_kv_cache_manager: bool
    mamba_cache_mode: str
    mamba_block_size: int | None
    num_gpu_blocks_override: int | None
    gpu_memory_utilization: float
    attention_backend: str | None
    num_speculative_tokens: int
    num_prefill_lookahead_tokens: int
    speculative_method: str | None
    mamba_cache_dtype: str = "auto"
    mamba_ssm_cache_dtype: str = "auto"
    has_kv_cache_scheme: bool = False
    drafter: Drafter | None = None

    @property
    def auto_fit(self) -> bool:
        """Whether the engine shall find the longest length that fits."""
        return self.original_max_model_len == -1

    @property
    def cache_block_size(self) -> int:
        """Tokens a block, as given or by default, before backends have a word."""
        return DEFAULT_BLOCK_SIZE if self.block_size is None else self.block_size

    @property
    def layer_cache_dtype(self) -> str:
        """The KV dtype string that attention layers take: the scheme's where ``auto`` is left.

        Source: vLLM 0.33.0 ``layers/attention/attention.py:Attention.__init__``.
        """
        return (
            "fp8" if self.has_kv_cache_scheme and self.cache_dtype == "auto" else self.cache_dtype
        )
