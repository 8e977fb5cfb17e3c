"""StepFun's text models: queries through a narrow inner vector.

Source: vLLM 0.33.0 ``models/step3_text.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.mixtures_windowed import step_sparse
from kvplan_cli.memory.weights.feed_forward import Gated
from kvplan_cli.memory.weights.layers import LayerFacts, sized, together, where
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import Tensors


def _inner_queries(facts: LayerFacts) -> Tensors:
    """Every rank holds the inner queries and the one key and value whole."""
    layer, config, site = facts.attention, facts.config, facts.site.at("self_attn")
    head_size = layer.head_size
    inner = config.optional_integer("share_q_dim", minimum=0) or head_size
    wide = layer.num_attention_heads * head_size
    return (
        *site.replicated("qkv_proj", facts.hidden_size, inner + 2 * head_size),
        *site.row("o_proj", wide, facts.hidden_size),
        *site.vector("inter_norm", inner),
        *site.column("wq", inner, wide),
        *cache_scales(site),
    )


STEP: Final[Mapping[str, Decoder]] = {
    "Step3TextForCausalLM": Decoder(
        attention=_inner_queries,
        feed_forward=where(
            step_sparse,
            together(
                Experts(path="moe", count=sized("moe_num_experts")),
                Gated(path="share_expert", intermediate=sized("share_expert_dim")),
            ),
            Gated(),
        ),
        rope=RopeTables(positions=sized("max_position_embedding")),
    ),
}
