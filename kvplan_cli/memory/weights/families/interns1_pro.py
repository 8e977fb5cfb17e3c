"""The language model of Intern-S1 Pro: Qwen3's mixture, rotated by learned Fourier series.

Source: vLLM 0.33.0 ``models/interns1_pro.py``, ``layers/rotary_embedding/fope.py``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.mixtures import QWEN3_MOE
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.rope import MAX_POSITIONS, no_rope, parameters_of
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors

_THETA: Final = 10000.0


def _frequencies(config: HfConfig, scaling: HfConfig, rotary: int) -> int:
    """How many of the frequencies are kept: as many as told, or those that turn full circle."""
    told = scaling.optional_integer("num_inv_freq", minimum=0)
    if told is not None:
        return min(told, rotary // 2)
    theta = float(parameters_of(config).get("rope_theta") or _THETA)
    least = 2.0 * math.pi / MAX_POSITIONS(config)
    return sum(theta ** -(at / rotary) > least for at in range(0, rotary, 2))


def _fourier(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """Frequencies, a square of cosines and one of sines for each KV head, and their table."""
    head_size = config.optional_integer("head_dim", minimum=1)
    if head_size is None:
        head_size = size(config, "hidden_size") // config.positive("num_attention_heads")
    kept = _frequencies(config, config.section("rope_scaling"), head_size)
    kv_heads = site.kv_heads(config.positive("num_key_value_heads"))
    return (
        *site.vector("rotary_emb.inv_freq", kept, FLOAT32),
        *site.vector("rotary_emb.coef", kv_heads * kept * kept) * 2,
        *site.vector("rotary_emb.cos_sin_cache", MAX_POSITIONS(config) * kv_heads * 2 * head_size),
    )


INTERNS1_PRO: Final[Decoder] = replace(QWEN3_MOE, rope=no_rope, extras=_fourier)
