"""Encoders: layers that attend both ways and keep no cache.

Source: vLLM 0.33.0 ``models/{bert,bert_with_rope,roberta,modernbert,colbert,colmodernvbert,
colultravbert,siglip,openai_privacy_filter}.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.models.architecture import Architecture, Decoder, Layout, Wrapped
from kvplan_cli.models.flags import always_sink, never
from kvplan_cli.models.heads import equal_heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach, by_layer_types, windows
from kvplan_cli.models.shape import RunnerType

_CLS: Final = "CLS"


def inclusive_windows(language: Language) -> Sequence[Reach]:
    """ModernBERT: ``local_attention`` tokens, half to either side and the token itself."""
    kinds = language.layer_types or ()
    window = language.config.positive("local_attention") // 2 + 1
    return windows(language, [window if kind == "sliding_attention" else None for kind in kinds])


def _encoders(
    model: Layout | Wrapped,
    *names: str,
    pooling: str = _CLS,
    attn_type: str = "decoder",
    is_multimodal: bool = False,
) -> list[Architecture]:
    """Rows of encoders. pooling: what the class takes of a sequence by default."""
    return [
        Architecture(
            name=name,
            model=model,
            runner_type=RunnerType.POOLING,
            supports_pp=False,
            is_multimodal=is_multimodal,
            attn_type=attn_type,
            default_seq_pooling_type=pooling,
        )
        for name in names
    ]


BERT: Final = Decoder(
    layer_name="model.encoder.layer.{}.attention.output.attn", heads=equal_heads, causal=never
)
# Layers with rotary positions are named alike; the letters between count for nothing.
_ROTARY: Final = replace(BERT, layer_name="model.encoder.layer.{}.attention.attn")
MODERN: Final = Decoder(
    layer_name="{}.attn",
    heads=equal_heads,
    reach=inclusive_windows,
    causal=never,
    ignores_cache_config=True,
)
_ULTRA: Final = Decoder(
    layer_name="layers.{}.self_attn.attn",
    reach=by_layer_types,
    causal=never,
    ignores_cache_config=True,
)
_SIGLIP: Final = Decoder(
    layer_name="encoder.layers.{}.self_attn.attn",
    heads=equal_heads,
    causal=never,
    ignores_cache_config=True,
)
_PRIVACY_FILTER: Final = Decoder(
    layer_name="model.layers.{}.attn.attn",
    reach=by_layer_types,
    sink=always_sink,
    causal=never,
)

ROWS: Final[Sequence[Architecture]] = (
    *_encoders(
        BERT,
        "BertForSequenceClassification",
        "BertModel",
        "BertSpladeSparseEmbeddingModel",
        "BgeM3EmbeddingModel",
        "HF_ColBERT",
        "RobertaForMaskedLM",
        "RobertaForSequenceClassification",
        "RobertaModel",
        "XLMRobertaForSequenceClassification",
        "XLMRobertaModel",
    ),
    *_encoders(
        BERT,
        "BertForMaskedLM",
        "BertForTokenClassification",
        "RobertaForTokenClassification",
        "XLMRobertaForTokenClassification",
        pooling="LAST",
        attn_type="encoder_only",
    ),
    *_encoders(
        _ROTARY,
        "ColBERTJinaRobertaModel",
        "GteModel",
        "GteNewForSequenceClassification",
        "GteNewModel",
        "NomicBertModel",
    ),
    *_encoders(
        MODERN,
        "ColBERTModernBertModel",
        "ModernBertForSequenceClassification",
        "ModernBertModel",
    ),
    *_encoders(
        MODERN,
        "ModernBertForTokenClassification",
        pooling="LAST",
        attn_type="encoder_only",
    ),
    *_encoders(
        Wrapped(inner=MODERN, prefix=""),
        "ColModernVBertForRetrieval",
        "ModernVBertModel",
        is_multimodal=True,
    ),
    *_encoders(
        Wrapped(inner=_ULTRA, prefix="text_model."),
        "ColUltraVBertForRetrieval",
        is_multimodal=True,
    ),
    *_encoders(Wrapped(inner=_SIGLIP, prefix="text_model."), "SiglipModel", is_multimodal=True),
    *_encoders(
        _PRIVACY_FILTER,
        "OpenAIPrivacyFilterForTokenClassification",
        pooling="LAST",
        attn_type="encoder_only",
    ),
)
