"""What block drafters keep of their weights a second time, once loaded.

Source: vLLM 0.33.0 ``model_executor/models/qwen3_dflash.py:_build_context_kv_buffers``: all
layers' projections to keys and values side by side, for one product over the target's states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.weights.drafters.place import DraftPlace
from kvplan_cli.memory.weights.quantization import Scheme
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import AttentionLayer

# Keys and values, or keys alone where they serve as both.
_COPIED: Final[Mapping[str, int]] = {
    **dict.fromkeys(
        (
            *("DFlash2DraftModel", "DFlashDraftModel", "DFlashLagunaForCausalLM"),
            *("DFlashMuseGlimmerAssistantModel", "DFlashQwen3XPressModel", "LiLiCorrDraftModel"),
            *("Qwen3DSparkModel", "Qwen3OmniDSparkModel", "Qwen3XPressModel"),
        ),
        2,
    ),
    "Gemma4DSparkModel": 1,
}


def context_copies(name: str, place: DraftPlace) -> Tensors:
    """The copies of the drafter ``name``; quantized projections are not copied."""
    parts, site = _COPIED.get(name, 0), place.site
    if not parts or type(site.scheme) is not Scheme:
        return ()
    rows = sum(
        site.kv_heads(layer.num_kv_heads) * layer.head_size
        for block in place.blocks
        for layer in block
        if isinstance(layer, AttentionLayer)
    )
    return site.vector("fused_kv_weight", parts * rows * place.hidden_size)
