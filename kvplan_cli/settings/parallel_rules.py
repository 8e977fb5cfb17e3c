"""Which ways of sharing a model out over cards the engine allows.

Source: vLLM 0.33.0 ``vllm/config/parallel.py:_validate_parallel_config`` and
``vllm/config/model.py:verify_with_parallel_config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import ArchitectureTraits
from kvplan_cli.settings.heads import total_attention_heads, total_kv_heads
from kvplan_cli.settings.refusal import check_at_least, refuses

# Names of the number of experts, in the engine's order.
_EXPERT_KEYS: Final = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
# Language config classes that have experts even where the file does not say how many.
# Source: transformers 5.20.2, class defaults.
_EXPERTS_BY_DEFAULT: Final = frozenset(
    {
        "afmoe",
        "aria_text",
        "beam",
        "cohere2_moe",
        "ernie4_5_moe",
        "exaone_moe",
        "flex_olmo",
        "glm4_moe",
        "glm4v_moe_text",
        "gpt_oss",
        "granitemoe",
        "granitemoe_swa",
        "granitemoehybrid",
        "granitemoeshared",
        "hunyuan_v1_moe",
        "jamba",
        "kolibri1",
        "laguna",
        "lfm2_moe",
        "llama4_text",
        "mellum",
        "mimo_v2_flash",
        "minimax_m2",
        "mixtral",
        "nemotron_h",
        "olmoe",
        "phimoe",
        "qwen2_moe",
        "qwen3_5_moe_text",
        "qwen3_moe",
        "qwen3_next",
        "qwen3_omni_moe_text",
        "qwen3_vl_moe_text",
        "step3p5",
    }
)


def check_sizes(args: EngineArgs) -> None:
    """Sizes by themselves, before the model has a word."""
    for field in (
        "pipeline_parallel_size",
        "tensor_parallel_size",
        "prefill_context_parallel_size",
        "data_parallel_size",
        "decode_context_parallel_size",
    ):
        check_at_least(field, getattr(args, field), 1)
    tp, pcp = args.tensor_parallel_size, args.prefill_context_parallel_size
    dcp = args.decode_context_parallel_size
    if pcp == 1:
        if tp % dcp:
            raise refuses(f"tp_size={tp} must be divisible by dcp_size={dcp}.")
    elif dcp not in (1, pcp, tp * pcp):
        raise refuses(
            "When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full "
            f"TP x PCP axis. Got TP={tp}, PCP={pcp}, DCP={dcp}; valid DCP sizes are "
            f"{sorted({1, pcp, tp * pcp})}."
        )


def check_model_fits(
    args: EngineArgs, traits: ArchitectureTraits, config: HfConfig, text: HfConfig, *, use_mla: bool
) -> None:
    """Sizes against the model. text: the language part of ``config``."""
    tp, dcp = args.tensor_parallel_size, args.decode_context_parallel_size
    if tp > 1 and not traits.is_attention_free:
        _check_heads(total_attention_heads(text), tp)
    if args.enable_expert_parallel and not has_experts(text):
        raise refuses(
            "Number of experts in the model must be greater than 0 when expert parallelism is "
            "enabled."
        )
    if args.pipeline_parallel_size > 1 and not traits.supports_pp:
        raise refuses(
            "Pipeline parallelism is not supported for this model. Supported models implement "
            "the `SupportsPP` interface.",
            error_type="NotImplementedError",
        )
    if dcp > 1 and not use_mla:
        _check_grouped_dcp(args, total_attention_heads(text), total_kv_heads(config, text))


def _check_heads(heads: int, tensor_parallel_size: int) -> None:
    if heads % tensor_parallel_size:
        raise refuses(
            f"Total number of attention heads ({heads}) must be divisible by tensor parallel "
            f"size ({tensor_parallel_size}).",
            way_out=f"sizes that divide it: {_divisors(heads)}",
        )


def has_experts(text: HfConfig) -> bool:
    """Whether a language config has experts at all."""
    for key in _EXPERT_KEYS:
        if text.has(key):
            value = text.raw(key)
            count = value[0] if isinstance(value, list) and value else value
            return bool(count)
    blocks = text.raw("block_configs")
    if isinstance(blocks, list | tuple) and any(map(_is_expert_block, blocks)):
        return True
    return (text.optional_text("model_type") or "") in _EXPERTS_BY_DEFAULT


def _is_expert_block(block: object) -> bool:
    """A layer with experts of a model whose layers differ (Nemotron-H Puzzle)."""
    return isinstance(block, Mapping) and block.get("block_type") == "moe"


def _check_grouped_dcp(args: EngineArgs, heads: int, kv_heads: int) -> None:
    """Decode context parallelism uses the ranks that would hold copies of a KV head."""
    tp, dcp = args.tensor_parallel_size, args.decode_context_parallel_size
    if tp <= kv_heads:
        raise refuses(
            f"Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` ({tp}) "
            f"to be greater than the model's total number of KV heads ({kv_heads}). Increase "
            "`--tensor-parallel-size` or set `--decode-context-parallel-size 1`."
        )
    largest = tp // kv_heads
    if dcp > largest:
        raise refuses(
            f"`--decode-context-parallel-size` ({dcp}) exceeds the maximum supported value "
            f"({largest}) for `--tensor-parallel-size` ({tp}) and {kv_heads} model KV heads."
        )
    queries = heads // kv_heads
    if queries % dcp:
        raise refuses(
            f"The model's number of query heads per KV head ({queries}) must be divisible by "
            f"`--decode-context-parallel-size` ({dcp}) for GQA/MQA."
        )


def _divisors(count: int) -> str:
    return ", ".join(str(size) for size in range(1, count + 1) if count % size == 0)
