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
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import AttentionLayer, ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.parallel_rules import has_experts
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass

# Blocks below this many elements have no kernel.
_SMALLEST_BLOCK = 32
_FIRST_FP8_TENSOR_CORES = (8, 9)
_NOT_CONVERTED = ("modules_to_not_convert", "ignored_layers", "ignore")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fp8Blocks:
    """A checkpoint's blocks: rows by columns, and the modules it leaves unquantized."""

    rows: int
    columns: int
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: ResolvedSettings, quantization: Mapping[str, Any]) -> Fp8Blocks | None:
        """None where the checkpoint has no blocks."""
        block = quantization.get("weight_block_size")
        if settings.quantization != "fp8" or not isinstance(block, list) or len(block) != 2:
            return None
        names = [str(name) for key in _NOT_CONVERTED for name in quantization.get(key) or ()]
        return cls(rows=block[0], columns=block[1], left_out=tuple(names))


def check_attention_blocks(
    blocks: Fp8Blocks | None, shape: ModelShape, tensor_parallel_size: int
) -> None:
    """Refuse a size that cuts the output projection of the first layer, built before it."""
    layer = next((one for one in shape.layers if isinstance(one, AttentionLayer)), None)
    if blocks is None or layer is None or _left_out("o_proj", blocks.left_out):
        return
    size = layer.num_attention_heads * layer.head_size_v
    _check_summed(size, tensor_parallel_size, blocks.columns)


def check_feed_forward_blocks(
    blocks: Fp8Blocks | None, settings: ResolvedSettings, gpu: Gpu, config: HfConfig
) -> None:
    """Refuse a size that cuts feed-forward weights or experts, built after attention."""
    if blocks is None:
        return
    text = text_config(config)
    experts = has_experts(text)
    dense_first = bool(text.raw("first_k_dense_replace"))
    if (not experts or dense_first) and not _left_out("down_proj", blocks.left_out):
        dense = text.optional_integer("intermediate_size", minimum=1)
        if dense is not None:
            _check_summed(dense, settings.tensor_parallel_size, blocks.columns)
    if experts and not _left_out("experts", blocks.left_out):
        whole = settings.enable_expert_parallel
        _check_experts(text, 1 if whole else settings.tensor_parallel_size, blocks, gpu)


def _left_out(module: str, names: tuple[str, ...]) -> bool:
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


def _check_experts(text: HfConfig, tensor_parallel_size: int, blocks: Fp8Blocks, gpu: Gpu) -> None:
    size = text.optional_integer("moe_intermediate_size", minimum=1)
    if size is None:
        size = text.optional_integer("intermediate_size", minimum=1)
    if size is None:
        return
    share = size // tensor_parallel_size
    whole = share % blocks.rows == 0 and (tensor_parallel_size == 1 or share % blocks.columns == 0)
    if whole:
        return
    finer = math.gcd(blocks.rows, blocks.columns, share, text.positive("hidden_size"))
    if finer >= _SMALLEST_BLOCK:
        if gpu.capability < _FIRST_FP8_TENSOR_CORES:
            raise model_refusal(
                "NotImplementedError",
                "No FP8 MoE backend supports the deployment configuration.",
            )
        return
    if share % blocks.rows:
        raise model_refusal(
            "ValueError",
            f"The output_size of gate's and up's weight = {share} is not divisible by weight "
            f"quantization block_n = {blocks.rows}.",
        )
    raise model_refusal(
        "ValueError",
        f"The input_size of down's weight = {share} is not divisible by weight quantization "
        f"block_k = {blocks.columns}.",
    )
