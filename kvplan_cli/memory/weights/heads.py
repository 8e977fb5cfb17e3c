"""Heads of pooling models: small linears over the hidden states, in a dtype of their own.

Source: vLLM 0.33.0 ``models/{adapters,bert,roberta,modernbert,colbert,qwen2_rm,internlm2}.py``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Extras, Stage
from kvplan_cli.memory.weights.layers import Size, size
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.text import text_config

# What ``transformers`` takes for a config that names no labels.
_LABELS: Final = 2


def labels(config: HfConfig) -> int:
    """Classes that the config names; source: transformers ``PreTrainedConfig.num_labels``."""
    names = config.optional_section("id2label")
    if names is not None:
        return len(names.values)
    return config.optional_integer("num_labels", minimum=1) or _LABELS


def labels_of_parts(config: HfConfig, text: HfConfig) -> int:
    """The same of a config with parts: the whole's where it names any, else its language part's.
    A head made of the vocabulary's rows has one for each word, or one for two.

    Source: vLLM 0.33.0 ``models/adapters.py:{_resolve_num_labels,SequenceClassificationConfig}``.
    """
    tokens = config.optional_list("classifier_from_token")
    if tokens is None:
        tokens = text.optional_list("classifier_from_token")
    if tokens is not None:
        method = config.optional_text("method") or text.optional_text("method")
        return 1 if method == "from_2_way_softmax" else len(tokens)
    own = labels(config)
    return own if own != _LABELS else labels(text)


def head_site(site: Site, config: HfConfig) -> Site:
    """The place of a pooling head: never quantized, in fp32 unless the config says otherwise.

    Source: vLLM 0.33.0 ``config/model.py:_get_head_dtype``.
    """
    name, plain = config.optional_text("head_dtype"), site.unquantized()
    if name == "model":
        return plain
    if name is None:
        return replace(plain, itemsize=FLOAT32)
    try:
        return replace(plain, itemsize=DType.from_name(name.lower()).itemsize)
    except ValueError:
        raise config.wrong("head_dtype", "'model', or the name of a dtype") from None


def linear(name: str, outputs: Size, *, bias: bool = True) -> Extras:
    """One linear from the hidden states, on every stage."""

    def tensors(site: Site, config: HfConfig, stage: Stage) -> Tensors:
        hidden = size(config, "hidden_size")
        return head_site(site, config).plain(name, hidden, outputs(config), bias=bias)

    return tensors


def hidden_size(config: HfConfig) -> int:
    return size(config, "hidden_size")


def one(config: HfConfig) -> int:
    return 1


CLASSIFIER: Final = linear("classifier", labels)


def dense_then(name: str, outputs: Size, *, shared_out: bool = False) -> Extras:
    """A square layer, then one to the outputs. shared_out: over the ranks."""

    def tensors(site: Site, config: HfConfig, stage: Stage) -> Tensors:
        place, hidden = head_site(site, config), hidden_size(config)
        if not shared_out:
            place = place.replicated_site()
        return (
            *place.column(f"{name}.dense", hidden, hidden, bias=True),
            *place.row(f"{name}.out_proj", hidden, outputs(config), bias=True),
        )

    return tensors


def masked_words(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """BERT's head over its vocabulary, whole and in the model dtype."""
    hidden = hidden_size(config)
    return (
        *site.plain("mlm_head.dense", hidden, hidden, bias=True),
        *Norm.WITH_BIAS.at(site, hidden, "mlm_head.layer_norm"),
        *site.plain("mlm_head.decoder", hidden, config.positive("vocab_size"), bias=True),
    )


_LATE_DIMENSIONS: Final = ("colbert_dim", "dim", "projection_dim")


def late_interaction(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    """ColBERT's linear, where the config has its width; else it comes with the checkpoint.

    Source: vLLM 0.33.0 ``models/colbert.py:ColBERTMixin.get_colbert_dim_from_config``.
    """
    for key in _LATE_DIMENSIONS:
        width = config.optional_integer(key, minimum=1)
        if width is not None:
            place, hidden = head_site(site, config), hidden_size(config)
            return place.plain("colbert_linear", hidden, width)
    return ()


def score(site: Site, config: HfConfig, text: HfConfig) -> Tensors:
    """What the engine puts on a generating model that is served as a classifier."""
    outputs = labels_of_parts(config, text)
    return head_site(site, config).plain("score", hidden_size(text), outputs)


def label_scores(site: Site, config: HfConfig) -> Tensors:
    """A linear over the labels, of a class that pools."""
    return score(site, config, text_config(config))


def text_label_scores(site: Site, config: HfConfig) -> Tensors:
    """The same over the labels of the language part, whatever the whole config's.

    Source: vLLM 0.33.0 ``models/nemotron_vl.py:LlamaNemotronVLForSequenceClassification``.
    """
    text = text_config(config)
    return head_site(site, config).plain("score", hidden_size(text), labels(text))


def jina_scorer(site: Site, config: HfConfig) -> Tensors:
    """Jina's ranking head over images and texts: one score, shared out over the ranks.

    Source: vLLM 0.33.0 ``models/jina_vl.py:JinaVLScorer``.
    """
    place, hidden = head_site(site, config), hidden_size(text_config(config))
    return (
        *place.column("score.dense", hidden, hidden, bias=True),
        *place.row("score.out_proj", hidden, 1, bias=True),
    )
