"""Small models, settings and cards for the backends' tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvplan_cli.backends.facts import CurrentConfig, Facts
from kvplan_cli.backends.plan import BackendPlan, layer_specs
from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import (
    AttentionKind,
    AttentionLayer,
    CacheLayer,
    ModelShape,
    RunnerType,
)
from kvplan_cli.settings.resolved import ResolvedSettings

CARDS = {
    "A100": ((8, 0), "NVIDIA A100-SXM4-80GB"),
    "L4": ((8, 9), "NVIDIA L4"),
    "H100": ((9, 0), "NVIDIA H100 80GB HBM3"),
    "B200": ((10, 0), "NVIDIA B200"),
    "RTX5090": ((12, 0), "NVIDIA GeForce RTX 5090"),
}


def gpu(card: str = "H100") -> Gpu:
    capability, name = CARDS[card]
    return Gpu(name=name, capability=capability, total_memory_bytes=80 << 30)


def facts(card: str = "H100", **config: Any) -> Facts:
    """A card, and the engine's config of a model of 8 heads of 128 in 4 KV heads."""
    capability, name = CARDS[card]
    known: dict[str, Any] = {
        "head_size": 128,
        "num_attention_heads": 8,
        "num_kv_heads": 4,
        "cache_dtype": "auto",
    }
    current = CurrentConfig(**(known | config))
    return Facts(capability=capability, device_name=name, config=current)


def layer(index: int = 0, **changes: Any) -> AttentionLayer:
    """A full-attention layer of 8 heads of 128 in 4 KV heads."""
    plain = AttentionLayer(
        name=f"model.layers.{index}.self_attn.attn",
        decoder_layer=index,
        kind=AttentionKind.FULL,
        num_attention_heads=8,
        num_kv_heads=4,
        head_size=128,
        head_size_v=128,
    )
    if "head_size" in changes:
        changes.setdefault("head_size_v", changes["head_size"])
    return replace(plain, **changes)


def sliding(index: int = 0, window: int = 1024, **changes: Any) -> AttentionLayer:
    return layer(index, kind=AttentionKind.SLIDING, sliding_window=window, **changes)


def chunked(index: int = 0, chunk: int = 8192, **changes: Any) -> AttentionLayer:
    return layer(index, kind=AttentionKind.CHUNKED, attention_chunk_size=chunk, **changes)


def settings(**changes: Any) -> ResolvedSettings:
    plain = ResolvedSettings(
        architecture="LlamaForCausalLM",
        runner_type=RunnerType.GENERATE,
        is_encoder_decoder=False,
        is_hybrid=False,
        use_mla=False,
        max_model_len=4096,
        original_max_model_len=None,
        dtype=DType.BFLOAT16,
        cache_dtype="auto",
        quantization=None,
        block_size=None,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        decode_context_parallel_size=1,
        prefill_context_parallel_size=1,
        enable_expert_parallel=False,
        max_num_batched_tokens=8192,
        max_num_seqs=1024,
        max_num_encoder_input_tokens=8192,
        max_concurrent_batches=2,
        max_in_flight_tokens=16384,
        enable_chunked_prefill=True,
        enable_prefix_caching=True,
        async_scheduling=True,
        use_v2_model_runner=True,
        disable_hybrid_kv_cache_manager=False,
        mamba_cache_mode="none",
        mamba_block_size=None,
        num_gpu_blocks_override=None,
        gpu_memory_utilization=0.92,
        attention_backend=None,
        num_speculative_tokens=0,
        num_prefill_lookahead_tokens=0,
        speculative_method=None,
    )
    return replace(plain, **changes)


def plan(
    *layers: CacheLayer,
    card: str = "H100",
    architecture: str = "LlamaForCausalLM",
    args: EngineArgs | None = None,
    config: dict[str, Any] | None = None,
    extra_files: dict[str, dict[str, Any]] | None = None,
    modalities: tuple[str, ...] = (),
    **changes: Any,
) -> BackendPlan:
    """The plan of a model of ``layers``; changes: settings that are not the plain ones."""
    shape = ModelShape(
        architecture=architecture,
        num_hidden_layers=len(layers),
        layers=layers,
        modalities=modalities,
    )
    return layer_specs(
        shape,
        settings(architecture=architecture, **changes),
        args or EngineArgs(),
        gpu(card),
        HfConfig({"vocab_size": 32000, **(config or {})}),
        extra_files,
    )
