"""Embedding and ranking models around a decoder, causal or not.

Source: vLLM 0.33.0 ``models/{colpali,colqwen3,jina,jina_vl,nemotron_vl,qwen3_asr_forced_aligner,
voyage,clef_omni}.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.models.architecture import Architecture, Decoder, Wrapped, pooling
from kvplan_cli.models.flags import never
from kvplan_cli.models.language import Language
from kvplan_cli.models.llama_like import GROUPED, QWEN2, QWEN3
from kvplan_cli.models.reach import Reach, by_layer_types, qwen_wide
from kvplan_cli.models.shape import RunnerType


def _decodes(language: Language) -> bool:
    """Jina 5 is a Qwen3 decoder, or with ``is_decoder: false`` an encoder built like Llama."""
    return language.config.optional_boolean("is_decoder") is not False


def _jina_reach(language: Language) -> Sequence[Reach]:
    return qwen_wide(language) if _decodes(language) else by_layer_types(language)


def _multimodal_pooling(
    model: Wrapped, *names: str, default_seq_pooling_type: str = "LAST"
) -> list[Architecture]:
    return [
        Architecture(
            name=name,
            model=model,
            runner_type=RunnerType.POOLING,
            is_multimodal=True,
            default_seq_pooling_type=default_seq_pooling_type,
        )
        for name in names
    ]


ROWS: Final[Sequence[Architecture]] = (
    *pooling(Decoder(reach=_jina_reach, causal=_decodes), "JinaEmbeddingsV5Model"),
    *pooling(QWEN3, "JinaForRanking", supports_pp=False),
    *pooling(replace(QWEN3, causal=never), "VoyageQwen3BidirectionalEmbedModel", supports_pp=False),
    *_multimodal_pooling(Wrapped(), "ColPaliForRetrieval", default_seq_pooling_type="CLS"),
    *_multimodal_pooling(
        Wrapped(inner=QWEN3),
        "ColQwen3",
        "OpsColQwen3Model",
        "Qwen3VLNemotronEmbedModel",
        default_seq_pooling_type="CLS",
    ),
    *_multimodal_pooling(
        Wrapped(inner=QWEN2, prefix="qwen2_vl.language_model."), "JinaVLForRanking"
    ),
    *_multimodal_pooling(
        Wrapped(inner="LlamaBidirectionalModel"),
        "LlamaNemotronVLForSequenceClassification",
        "LlamaNemotronVLModel",
    ),
    *_multimodal_pooling(Wrapped(inner=QWEN3), "Qwen3ASRForcedAlignerForTokenClassification"),
    *_multimodal_pooling(Wrapped(inner=GROUPED), "ClefOmniForJointSchema"),
)
