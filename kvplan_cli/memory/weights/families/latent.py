"""Attention with low-rank projections that keeps plain keys and values in its cache.

Source: vLLM 0.33.0 ``models/minicpm3.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.memory.weights.attention import cache_scales
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.layers import LayerFacts, given, sized
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import Tensors


def _minicpm3_attention(facts: LayerFacts) -> Tensors:
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("self_attn")
    heads = facts.attention.num_attention_heads
    q_rank, kv_rank = config.positive("q_lora_rank"), config.positive("kv_lora_rank")
    nope, rope = config.positive("qk_nope_head_dim"), config.positive("qk_rope_head_dim")
    value = config.optional_integer("v_head_dim", minimum=1) or hidden // heads
    return (
        *site.replicated("q_a_proj", hidden, q_rank),
        *site.vector("q_a_layernorm", q_rank),
        *site.column("q_b_proj", q_rank, heads * (nope + rope)),
        *site.replicated("kv_a_proj_with_mqa", hidden, kv_rank + rope),
        *site.vector("kv_a_layernorm", kv_rank),
        *site.column("kv_b_proj", kv_rank, heads * (nope + value)),
        *site.row("o_proj", heads * value, hidden),
        *cache_scales(site),
    )


LATENT: Final[Mapping[str, Decoder]] = {
    "MiniCPM3ForCausalLM": Decoder(
        attention=_minicpm3_attention,
        rope=RopeTables(head_size=sized("qk_rope_head_dim")),
        tied=given("tie_word_embeddings", absent=True),
        everywhere=True,
    )
}
