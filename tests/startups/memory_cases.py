"""Memory breakdowns as questions: configs made from a model's sizes, and each rank's ladder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import UnplannableError
from kvplan_cli.gpus import H100_80GB, Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.catalogue import find_model
from kvplan_cli.logs.releases import release_of
from kvplan_cli.memory.budget import RankBudget
from kvplan_cli.memory.ladder import rank_budgets
from kvplan_cli.memory.releases import memory_rules
from kvplan_cli.memory.weights.count import count_weights
from kvplan_cli.resolution import resolve
from kvplan_cli.units import GIB
from kvplan_cli.values import dataclass
from tests.startups.cases import memory_points

_ARCHITECTURES: Final = (
    ("llama", "LlamaForCausalLM", "llama"),
    ("codellama", "LlamaForCausalLM", "llama"),
    ("qwen2.5", "Qwen2ForCausalLM", "qwen2"),
    ("kimi-dev", "Qwen2ForCausalLM", "qwen2"),
    ("qwen3-30b", "Qwen3MoeForCausalLM", "qwen3_moe"),
    ("qwen3-235b", "Qwen3MoeForCausalLM", "qwen3_moe"),
    ("qwen3", "Qwen3ForCausalLM", "qwen3"),
    ("mixtral", "MixtralForCausalLM", "mixtral"),
    ("phi-4", "Phi3ForCausalLM", "phi3"),
    ("granite", "GraniteForCausalLM", "granite"),
    ("gemma2", "Gemma2ForCausalLM", "gemma2"),
    ("deepseek-v2", "DeepseekV2ForCausalLM", "deepseek_v2"),
)
# Models with a vision tower or a format of their own: their whole configs are bundled.
_BUNDLED: Final = {
    "gemma3-4b": "gemma-3-4b",
    "gemma3-12b": "gemma-3-12b",
    "gemma3-27b": "gemma-3-27b",
    "gpt-oss-20b": "gpt-oss-20b",
    "gpt-oss-120b": "gpt-oss-120b",
}
_CARDS: Final = (
    ("A100", "NVIDIA A100-SXM4-80GB", (8, 0)),
    ("sm75", "Tesla T4", (7, 5)),
    ("L40S", "NVIDIA L40S", (8, 9)),
    ("PRO 6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0)),
    ("16GB", "NVIDIA GeForce RTX 4080", (8, 9)),
    ("H100", "NVIDIA H100 80GB HBM3", (9, 0)),
)
_CHANNEL: Final = {"num_bits": 8, "strategy": "channel", "symmetric": True}
_TOKEN: Final = {"num_bits": 8, "strategy": "token", "symmetric": True, "dynamic": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCase:
    """One breakdown and the ladder that is predicted for it.

    plain_text: no vision tower, no state layers, no drafter. budget: of the rank that printed.
    """

    id: str
    point: Mapping[str, Any]
    plain_text: bool
    budget: RankBudget


def memory_cases() -> Iterator[MemoryCase]:
    """Every breakdown of a model whose sizes are known, on a card whose memory is."""
    points, models = memory_points()
    for point in points:
        sizes, card = models.get(str(point.get("cfg"))), _card(point)
        if sizes is None or "weights" not in point:
            continue
        config = _config(point["cfg"], sizes, point.get("quant"))
        if config is None:
            continue
        try:
            yield _case(point, config, card or H100_80GB)
        except UnplannableError:
            continue  # weights that are not described yet


def _case(point: Mapping[str, Any], config: Mapping[str, Any], card: Gpu) -> MemoryCase:
    args = _args(point)
    hf_config = HfConfig(config, point["id"])
    model = resolve(hf_config, {}, args, card)
    weights = count_weights(
        hf_config, model.shape, model.settings, args, capability=card.capability
    )
    release = release_of(point["version"].replace("x", "0"))
    budgets = rank_budgets(
        card,
        hf_config,
        model.shape,
        model.traits,
        model.settings,
        args,
        weights,
        memory_rules(release),
    )
    return MemoryCase(
        id=point["id"],
        point=point,
        plain_text=not model.traits.is_multimodal,
        budget=budgets[-1] if point.get("last_rank", True) else budgets[0],
    )


def _args(point: Mapping[str, Any]) -> EngineArgs:
    args = EngineArgs(
        tensor_parallel_size=point["tp"],
        pipeline_parallel_size=point.get("pp", 1),
        gpu_memory_utilization=point.get("util", 0.9),
        max_num_batched_tokens=point.get("T"),
        max_num_seqs=point.get("R"),
        enable_expert_parallel=bool(point.get("ep")),
        enforce_eager="eager" in point["model"],
        quantization="fp8" if point.get("quant") == "fp8_tensor" else None,
        dtype="float16" if "fp16" in point["model"] else "auto",
        max_model_len=4096,
    )
    return replace(args, skip_mm_profiling=True)


def _card(point: Mapping[str, Any]) -> Gpu | None:
    words = point["gpu"]
    size = re.search(r"(\d+\.\d+)", words)
    for part, name, capability in _CARDS:
        if part in words and size is not None:
            total = int(float(size.group(1)) * GIB)
            return Gpu(name=name, capability=capability, total_memory_bytes=total)
    return None


def has_total(case: MemoryCase) -> bool:
    """Whether the start-up tells what the card has and all that shapes the ladder."""
    told = all(case.point.get(key) is not None for key in ("util", "T", "R", "avail"))
    return told and _card(case.point) is not None


def _config(name: str, sizes: Mapping[str, Any], quant: str | None) -> dict[str, Any] | None:
    if name in _BUNDLED:
        bundled = find_model(_BUNDLED[name])
        return None if bundled is None else dict(bundled.config)
    for prefix, architecture, model_type in _ARCHITECTURES:
        if name.startswith(prefix):
            config = {"architectures": [architecture], "model_type": model_type, **_sizes(sizes)}
            return {**config, **_special(model_type, sizes), **_quantization(quant)}
    return None


def _sizes(sizes: Mapping[str, Any]) -> dict[str, Any]:
    config = {
        "num_hidden_layers": sizes["L"],
        "hidden_size": sizes["H"],
        "intermediate_size": sizes["I"],
        "num_attention_heads": sizes["heads"],
        "num_key_value_heads": sizes["kv"],
        "head_dim": sizes["hd"],
        "vocab_size": sizes["V"],
        "tie_word_embeddings": sizes["tied"],
        "max_position_embeddings": sizes["rope_len"],
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
    }
    if "E" in sizes:
        config |= {
            "num_experts": sizes["E"],
            "num_local_experts": sizes["E"],
            "num_experts_per_tok": sizes["topk"],
            "moe_intermediate_size": sizes["moeI"],
        }
    return config


def _special(model_type: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
    if model_type == "deepseek_v2":
        mla = sizes["mla"]
        return {
            "n_routed_experts": sizes["E"],
            "n_shared_experts": sizes["shared"],
            "first_k_dense_replace": sizes["first_dense"],
            "moe_layer_freq": 1,
            "kv_lora_rank": mla["kv_lora"],
            "q_lora_rank": mla["q_lora"],
            "qk_nope_head_dim": mla["nope"],
            "qk_rope_head_dim": mla["rope"],
            "v_head_dim": mla["v"],
        }
    if model_type == "gemma2":
        return {
            "sliding_window": 4096,
            "query_pre_attn_scalar": 256,
            "hidden_activation": "gelu_pytorch_tanh",
            "attn_logit_softcapping": 50.0,
            "final_logit_softcapping": 30.0,
            "layer_types": ["sliding_attention", "full_attention"] * (sizes["L"] // 2),
        }
    if model_type in ("qwen3_moe",):
        return {"decoder_sparse_step": 1, "mlp_only_layers": []}
    return {}


def _quantization(quant: str | None) -> dict[str, Any]:
    config: dict[str, Any]
    if quant == "fp8_block":
        config = {
            "quant_method": "fp8",
            "fmt": "e4m3",
            "activation_scheme": "dynamic",
            "weight_block_size": [128, 128],
        }
    elif quant == "awq_g128":
        config = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    elif quant in ("fp8_channel", "int8_channel"):
        kind = "float" if quant == "fp8_channel" else "int"
        config = {
            "quant_method": "compressed-tensors",
            "format": "float-quantized" if kind == "float" else "int-quantized",
            "ignore": ["lm_head"],
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {**_CHANNEL, "type": kind},
                    "input_activations": {**_TOKEN, "type": kind},
                }
            },
        }
    else:
        return {}
    return {"quantization_config": config}
