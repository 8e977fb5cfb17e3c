"""BERT and its kin by the Transformers library's classes: only queries, keys, values and the table
of words are shared out.

Source: vLLM 0.33.0 ``models/transformers/{base,pooling}.py`` and transformers 5.20.2
``models/{bert,roberta}/modeling_<type>.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.decoder import Decoder, Stage, all_of
from kvplan_cli.memory.weights.families.encoders import BERT
from kvplan_cli.memory.weights.feed_forward import Plain
from kvplan_cli.memory.weights.heads import CLASSIFIER, dense_then, labels
from kvplan_cli.memory.weights.layers import always, size
from kvplan_cli.memory.weights.library_tables import library_table
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import INT64, Tensors


def _bert_embeddings(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden, positions = size(config, "hidden_size"), config.positive("max_position_embeddings")
    return (
        *library_table(site, config, "position_embeddings", positions, hidden),
        *library_table(
            site, config, "token_type_embeddings", config.positive("type_vocab_size"), hidden
        ),
        *Norm.WITH_BIAS.at(site, hidden, "embeddings.LayerNorm"),
        *site.vector("position_ids", positions, INT64),
        *site.vector("token_type_ids", positions, INT64),
    )


def _bert_pooler(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    hidden = size(config, "hidden_size")
    return site.replicated("pooler.dense", hidden, hidden, bias=True)


_BERT: Final = replace(
    BERT,
    attention=Attention(path="attention", qkv_bias=always, output_bias=always, whole_output=True),
    feed_forward=Plain(bias=always, sharded=False),
    everywhere=False,
    extras=_bert_embeddings,
)
_POOLED_BERT: Final = replace(_BERT, extras=all_of(_bert_embeddings, _bert_pooler))
_DENSE_CLASSIFIER: Final = replace(
    _BERT, extras=all_of(_BERT.extras, dense_then("classifier", labels))
)
LIBRARY_BERTS: Final[Mapping[str, Decoder]] = {
    "bert": _POOLED_BERT,
    "roberta": _POOLED_BERT,
    "xlm-roberta": _POOLED_BERT,
}
# The same with their heads for classification, which are more than a linear without a bias.
LIBRARY_CLASSIFIERS: Final[Mapping[str, Decoder]] = {
    "bert": replace(_POOLED_BERT, extras=all_of(_POOLED_BERT.extras, CLASSIFIER)),
    "roberta": _DENSE_CLASSIFIER,
    "xlm-roberta": _DENSE_CLASSIFIER,
}
