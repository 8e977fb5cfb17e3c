"""Settings, cards and sizes for memory tests; a test states only what it is about."""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any, Final

from kvplan_cli.dtypes import DType
from kvplan_cli.memory.sizes import ProfileSizes
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.settings.resolved import ResolvedSettings

DATA: Final = Path(__file__).parent.parent / "data" / "memory"

_SETTINGS: Final[dict[str, Any]] = {
    "architecture": "LlamaForCausalLM",
    "runner_type": RunnerType.GENERATE,
    "is_encoder_decoder": False,
    "is_hybrid": False,
    "use_mla": False,
    "max_model_len": 8192,
    "original_max_model_len": None,
    "dtype": DType.BFLOAT16,
    "cache_dtype": "auto",
    "quantization": None,
    "block_size": None,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "decode_context_parallel_size": 1,
    "prefill_context_parallel_size": 1,
    "enable_expert_parallel": False,
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 1024,
    "max_num_encoder_input_tokens": 8192,
    "max_concurrent_batches": 2,
    "max_in_flight_tokens": 16384,
    "enable_chunked_prefill": True,
    "enable_prefix_caching": True,
    "async_scheduling": True,
    "use_v2_model_runner": True,
    "disable_hybrid_kv_cache_manager": False,
    "mamba_cache_mode": "none",
    "mamba_block_size": None,
    "num_gpu_blocks_override": None,
    "gpu_memory_utilization": 0.92,
    "attention_backend": None,
    "num_speculative_tokens": 0,
    "num_prefill_lookahead_tokens": 0,
    "speculative_method": None,
}

LLAMA: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "num_hidden_layers": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}
LLAMA_SIZES: Final = ProfileSizes(hidden_size=4096, vocab_size=128256, intermediate_size=14336)


def settings(**changes: Any) -> ResolvedSettings:
    """Settings of a plain start, with ``changes``."""
    return ResolvedSettings(**{**_SETTINGS, **changes})


@cache
def engine_weights() -> tuple[dict[str, Any], ...]:
    """The table of weights that the engine built."""
    text = lzma.decompress((DATA / "weights.jsonl.xz").read_bytes()).decode()
    return tuple(json.loads(line) for line in text.splitlines())


@cache
def quantized_weights() -> tuple[dict[str, Any], ...]:
    cases = json.loads((DATA / "synthetic.json").read_text())["cases"]
    return tuple(cases)


@cache
def startups() -> tuple[dict[str, Any], ...]:
    points = json.loads((DATA / "startups.json").read_text())["points"]
    return tuple(points)
