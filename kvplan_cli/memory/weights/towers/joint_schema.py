"""The head of Clef's decision models: it reads all hidden states and scores a schema's options.

Source: vLLM 0.33.0 ``models/clef_joint_schema.py``, torch 2.13 ``nn.TransformerDecoderLayer``.
"""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors

_PROJECTIONS = 6
_QUESTION_TYPES = 3
_SCALARS = 3
_COMPARED = 4


def _attention(site: Site, width: int) -> Tensors:
    packed = site.plain("attention.in_proj", width, 3 * width, bias=True)
    return packed + site.plain("attention.out_proj", width, width, bias=True)


def _layer(site: Site, width: int, inner: int, attentions: int) -> Tensors:
    """Attentions, a feed-forward, three norms."""
    return (
        *_attention(site, width) * attentions,
        *site.plain("linear1", width, inner, bias=True),
        *site.plain("linear2", inner, width, bias=True),
        *Norm.WITH_BIAS.at(site, width) * 3,
    )


def joint_schema_head(site: Site, config: HfConfig) -> Tensors:
    """Projections, layers that route evidence, decoder layers and a scorer; never quantized."""
    part, place = config.section("joint_head_config"), site.unquantized()
    hidden, width = part.positive("hidden_size"), part.positive("width")
    inner = part.positive("feedforward")
    return (
        *Norm.WITH_BIAS.at(place, hidden, "hidden_norm"),
        *place.plain("projection", hidden, width) * _PROJECTIONS,
        *place.vector("type_embedding", _QUESTION_TYPES * width),
        *_layer(place, width, inner, 1) * part.integer("routing_layers"),
        *_layer(place, width, inner, 2) * part.integer("layers"),
        *Norm.WITH_BIAS.at(place, width) * 3,
        *place.plain("residual_scorer.0", _COMPARED * width, width, bias=True),
        *place.plain("residual_scorer.3", width, 1, bias=True),
        *place.vector("scalar", 1) * _SCALARS,
    )
