"""Alice AI: Kimi's delta attention beside Qwen's gated attention, over Qwen's experts.

Source: vLLM 0.33.0 ``models/alice_ai.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.delta import kimi_delta
from kvplan_cli.memory.weights.families.llama_like import HEAD_NORM
from kvplan_cli.memory.weights.families.states import QWEN3_NEXT, QWEN_EXPERTS, by_cache
from kvplan_cli.memory.weights.layers import LayerFacts, always, size
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors


def _residuals(facts: LayerFacts) -> Tensors:
    """Attention over earlier blocks: a norm and a row before each half, but the very first."""
    return facts.site.vector("res", facts.hidden_size) * (4 if facts.index else 2)


def _last_residual(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    return site.vector("attnres_final", size(config, "hidden_size")) * 2


ALICE: Final[Mapping[str, Decoder]] = {
    "AliceAIForCausalLM": replace(
        QWEN3_NEXT,
        attention=by_cache(kimi_delta, Attention(qk_norm=HEAD_NORM, doubled=always)),
        feed_forward=replace(QWEN_EXPERTS, correction=always, tensorrt=always),
        beside=_residuals,
        extras=_last_residual,
    )
}
