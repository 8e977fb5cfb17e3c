"""Gemma: tied and scaled embeddings, four norms a layer, two rotations.

Source: vLLM 0.33.0 ``models/gemma{,2,3}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS, HEAD_NORM
from kvplan_cli.memory.weights.layers import always, given
from kvplan_cli.memory.weights.norms import layer_norms
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import RopeTables
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.models.shape import AttentionKind, AttentionLayer

# Thetas of Gemma 3's classes; here they only tell whether two rotations are one.
_LOCAL_THETA: Final = 10_000.0
_GLOBAL_THETA: Final = 1_000_000.0
TIED: Final = given("tie_word_embeddings", absent=True)


def normalizer(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """The factor that scales the embedding."""
    return site.vector("normalizer", 1)


def two_rotations(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    """Sliding layers rotate by a theta of their own and are never scaled, in older configs."""
    section = config.optional_section("rope_parameters")
    if section is not None and section.has("full_attention"):
        return parameters
    if layer.kind is AttentionKind.SLIDING:
        local = config.optional_number("rope_local_base_freq")
        return {"rope_type": "default", "rope_theta": _LOCAL_THETA if local is None else local}
    return {"rope_theta": _GLOBAL_THETA, **parameters}


_BIASED: Final = Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS)
GEMMA: Final = Decoder(attention=Attention(), tied=TIED, everywhere=True, extras=normalizer)
GEMMA2: Final = Decoder(
    attention=_BIASED, norms=layer_norms(4), tied=always, everywhere=True, extras=normalizer
)
GEMMA3: Final = Decoder(
    attention=Attention(qkv_bias=ATTENTION_BIAS, output_bias=ATTENTION_BIAS, qk_norm=HEAD_NORM),
    norms=layer_norms(4),
    rope=RopeTables(by_type=True, adjust=two_rotations),
    tied=TIED,
    everywhere=True,
    extras=normalizer,
)

GEMMAS: Final[Mapping[str, Decoder]] = {
    "GemmaForCausalLM": GEMMA,
    "Gemma2ForCausalLM": GEMMA2,
    "Gemma2Model": GEMMA2,
    "Gemma3ForCausalLM": GEMMA3,
    "Gemma3TextModel": GEMMA3,
}
