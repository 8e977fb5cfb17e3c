"""Block-quantized FP8 weights that tensor parallelism cannot cut along their blocks.

Merged projections (queries with keys, gate with up) may be cut anywhere; what a rank sums over
may not, and experts are cut finer only where Triton's FP8 kernels run.
Source: vLLM 0.33.0 ``layers/quantization/utils/fp8_utils.py:validate_fp8_block_shape``,
``layers/fused_moe/oracle/fp8.py:refine_fp8_moe_block_shape``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import AttentionLayer, ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.parallel_rules import has_experts
from kvplan_cli.settings.resolved import ResolvedSettings

# Blocks below this many elements have no kernel.
_SMALLEST_BLOCK = 32
_FIRST_FP8_TENSOR_CORES = (8, 9)
_NOT_CONVERTED = ("modules_to_not_convert", "ignored_layers", "ignore")


def check_fp8_blocks(
    shape: ModelShape,
    settings: ResolvedSettings,
    args: EngineArgs,
    gpu: Gpu,
    config: HfConfig,
    quantization: Mapping[str, Any],
) -> None:
    """Refuse a tensor parallel size that cuts blocks; in the engine's order of layers."""
    block = quantization.get("weight_block_size")
    if settings.quantization != "fp8" or not isinstance(block, list) or len(block) != 2:
        return
    tp = settings.tensor_parallel_size
    text = text_config(config)
    names = [str(name) for key in _NOT_CONVERTED for name in quantization.get(key) or ()]
    layer = next((one for one in shape.layers if isinstance(one, AttentionLayer)), None)
    if layer is not None and not _left_out("o_proj", names):
        _check_summed(layer.num_attention_heads * layer.head_size_v, tp, block[1])
    experts = has_experts(text)
    dense_first = bool(text.raw("first_k_dense_replace"))
    if (not experts or dense_first) and not _left_out("down_proj", names):
        dense = text.optional_integer("intermediate_size", minimum=1)
        if dense is not None:
            _check_summed(dense, tp, block[1])
    if experts and not _left_out("experts", names):
        _check_experts(text, 1 if args.enable_expert_parallel else tp, block, gpu)


def _left_out(module: str, names: list[str]) -> bool:
    """Whether the checkpoint leaves the first layer's ``module`` unquantized."""
    return any(
        name == module or (module in name.split(".") and ("0" in name.split(".") or "*" in name))
        for name in names
    )


def _check_summed(size: int, tensor_parallel_size: int, block: int) -> None:
    share = size // tensor_parallel_size
    if tensor_parallel_size > 1 and share % block:
        raise model_refusal(
            "ValueError",
            f"Weight input_size_per_partition = {share} is not divisible by weight "
            f"quantization block_k = {block}.",
        )


def _check_experts(text: HfConfig, tensor_parallel_size: int, block: list[int], gpu: Gpu) -> None:
    size = text.optional_integer("moe_intermediate_size", minimum=1)
    if size is None:
        size = text.optional_integer("intermediate_size", minimum=1)
    if size is None:
        return
    share = size // tensor_parallel_size
    whole = share % block[0] == 0 and (tensor_parallel_size == 1 or share % block[1] == 0)
    if whole:
        return
    finer = math.gcd(block[0], block[1], share, text.positive("hidden_size"))
    if finer >= _SMALLEST_BLOCK:
        if gpu.capability < _FIRST_FP8_TENSOR_CORES:
            raise model_refusal(
                "NotImplementedError",
                "No FP8 MoE backend supports the deployment configuration.",
            )
        return
    if share % block[0]:
        raise model_refusal(
            "ValueError",
            f"The output_size of gate's and up's weight = {share} is not divisible by weight "
            f"quantization block_n = {block[0]}.",
        )
    raise model_refusal(
        "ValueError",
        f"The input_size of down's weight = {share} is not divisible by weight quantization "
        f"block_k = {block[1]}.",
    )
