"""MiMo V2 Omni's encoder of sound, whole on every rank.

Source: vLLM 0.33.0 ``models/mimo_audio.py:MimoAudioEncoder``, transformers 5.20.2 ``models/qwen2``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.encoder import frequencies

# The section for the tokenizer's own config, from the file that the engine reads.
TOKENIZER: Final = "audio_tokenizer_config"
# Of the library's class for the layers inside, whose words are never asked for.
_WORDS = 151936
_WIDER = 4


def _codes(part: HfConfig) -> int:
    """Rows of all tables of codes: a number for each channel, or one for all."""
    channels, sizes = part.positive("audio_channels"), part.raw("speech_vocab_size")
    if isinstance(sizes, str) and "-" in sizes:
        return sum(int(size) for size in sizes.split("-")[:channels])
    return int(sizes) * channels


def _projection(site: Site, part: HfConfig, merged: int) -> Tensors:
    outputs, layers = part.positive("out_hidden_size"), part.positive("projection_layers")
    if layers == 1:
        return site.plain("projection", merged, outputs)
    inner = _WIDER * merged
    return site.plain("projection.0", merged, inner) + site.plain("projection.2", inner, outputs)


def ears(site: Site, config: HfConfig) -> Tensors:
    """Tables of codes, a small Qwen 2 over groups of them, and a projection."""
    part = config.optional_section("audio_config")
    if part is None:
        return ()
    if config.has(TOKENIZER):
        raise unknown("the audio tokenizer of MiMo V2 Omni is not described", config.origin)
    width, inner = part.positive("input_local_dim"), part.positive("input_local_intermediate_size")
    layer = (
        *site.plain("self_attn.qkv", width, 3 * width, bias=True),
        *site.plain("self_attn.o_proj", width, width),
        *site.plain("mlp.gate_up_proj", width, 2 * inner),
        *site.plain("mlp.down_proj", inner, width),
        *Norm.ONE.at(site, width) * 2,
    )
    normed = part.optional_boolean("add_post_norm") is True
    return (
        *site.vector("embed_tokens", _WORDS * width),
        *layer * part.positive("input_local_layers"),
        *(Norm.ONE.at(site, width) if normed else ()),
        *frequencies(site, width // part.positive("input_local_attn_heads") // 2),
        *site.vector("speech_embeddings", _codes(part) * width),
        *_projection(site, part, width * part.positive("group_size")),
    )
