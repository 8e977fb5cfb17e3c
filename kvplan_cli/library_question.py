"""What a question may hold, by keyword."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

Model = str | Path
Size = int | str
Sizes = Size | Sequence[Size]


class Question(TypedDict, total=False):
    """The keywords of a question beside its model; None counts as not given.

    command: a serve command in place of the model, as a text or as words. kv_mem, gpu_mem,
    weights: bytes, or texts such as ``"40GiB"``; lists for unequal ranks. env: the engine's
    variables; those of this process are not read. environment, deployment, service: which part
    of a file is meant. The rest are kvplan's own options and the engine's flags, by Python name;
    the engine's other flags are taken too, and say in the answer what becomes of them.
    """

    command: str | Sequence[str]
    kv_mem: Sizes | None
    gpu: str | None
    gpu_mem: Size | None
    weights: Sizes | None
    from_log: Model | None
    profile: str | None
    save_profile: str | None
    engine_version: str | None
    env: Mapping[str, str] | None
    environment: str | None
    deployment: str | None
    service: str | None
    tensor_parallel_size: int | None
    pipeline_parallel_size: int | None
    decode_context_parallel_size: int | None
    cp_kv_cache_interleave_size: int | None
    prefill_context_parallel_size: int | None
    data_parallel_size: int | None
    enable_expert_parallel: bool | None
    all2all_backend: str | None
    max_model_len: int | str | None
    dtype: str | None
    quantization: str | None
    kv_cache_dtype: str | None
    kv_cache_dtype_skip_layers: Sequence[str] | None
    block_size: int | None
    gpu_memory_utilization: float | None
    kv_cache_memory_bytes: int | str | None
    num_gpu_blocks_override: int | None
    max_num_batched_tokens: int | str | None
    max_num_seqs: int | None
    performance_mode: str | None
    enable_chunked_prefill: bool | None
    enable_prefix_caching: bool | None
    prefix_match_unit: int | None
    async_scheduling: bool | None
    disable_hybrid_kv_cache_manager: bool | None
    attention_backend: str | None
    enforce_eager: bool | None
    optimization_level: int | None
    compilation_config: Mapping[str, Any] | None
    mamba_cache_mode: str | None
    mamba_block_size: int | None
    mamba_cache_dtype: str | None
    mamba_ssm_cache_dtype: str | None
    gdn_prefill_backend: str | None
    runner: str | None
    model_impl: str | None
    speculative_config: Mapping[str, Any] | None
    hf_overrides: Mapping[str, Any] | None
    limit_mm_per_prompt: Mapping[str, Any] | None
    language_model_only: bool | None
    skip_mm_profiling: bool | None
    disable_chunked_mm_input: bool | None
    disable_sliding_window: bool | None
    enable_lora: bool | None
    max_loras: int | None
    max_lora_rank: int | None
    lora_dtype: str | None
    fully_sharded_loras: bool | None
    max_cpu_loras: int | None
    revision: str | None
