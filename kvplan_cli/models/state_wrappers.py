"""Models around those with recurrent states: they see, embed or decide.

Source: vLLM 0.33.0 ``models/{bailing_moe_v3_vl,clef_flash,colbert,colqwen3_5,d3,lfm2,lfm2_vl}.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models import state_dims
from kvplan_cli.models.architecture import Architecture, Decoder, Wrapped
from kvplan_cli.models.bailing import BAILING_3
from kvplan_cli.models.flags import never
from kvplan_cli.models.heads import split_heads
from kvplan_cli.models.hybrid import HybridLayout, Part, parts_by_layer_types
from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import unwindowed
from kvplan_cli.models.recurrent import ShortConvState
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.models.states import LFM2, QWEN3_NEXT
from kvplan_cli.models.text import text_config

_CONTRACT: Final = "retrieval_attention_contract"


def _either_lfm2(language: Language) -> ShortConvState:
    mixture = language.config.optional_text("model_type") == "lfm2_moe"
    return state_dims.lfm2_moe(language) if mixture else state_dims.lfm2(language)


# Its blocks are sized by the hidden size, whichever of the two is inside.
_LFM2_VL: Final = replace(LFM2, state=_either_lfm2, block_state=state_dims.lfm2_moe)
_BARE: Final = Decoder(heads=split_heads, reach=unwindowed, layer_name=".layers.{}.self_attn.attn")
_BARE_LFM2: Final = replace(LFM2, state_name=".layers.{}.short_conv", attention=_BARE)


def _attention_only(language: Language) -> Sequence[Part]:
    """Convolutions over whole sequences keep nothing."""
    return [
        part if part is Part.ATTENTION else Part.NOTHING for part in parts_by_layer_types(language)
    ]


_BIDIRECTIONAL: Final = HybridLayout(
    parts=_attention_only,
    state=state_dims.lfm2,
    state_name="",
    attention=replace(_BARE, causal=never),
)


def decides_causally(config: HfConfig) -> bool:
    """Decision 3.0: by the attention mode of its ``decision_config``."""
    mode = config.section("decision_config").optional_text("attention_mode") or "causal"
    if mode not in ("causal", "noncausal_full_attention"):
        raise _refused(f"unsupported decision_config.json attention_mode {mode!r}")
    return mode == "causal"


def retrieves_causally(config: HfConfig) -> bool:
    """ColQwen3.5: by the contract that whole config or language part declares."""
    declared = [
        part.raw(_CONTRACT) for part in (config, text_config(config)) if part.has(_CONTRACT)
    ]
    if not declared:
        raise _refused(
            "ColQwen3.5 checkpoints must declare retrieval_attention_contract as 'causal' or "
            "'bidirectional'"
        )
    if len(set(map(str, declared))) > 1 or declared[0] not in ("causal", "bidirectional"):
        raise _refused(
            "unsupported or conflicting ColQwen3.5 retrieval_attention_contract declarations: "
            f"{declared!r}"
        )
    return bool(declared[0] == "causal")


def _refused(message: str) -> EngineRefusalError:
    return EngineRefusalError(stage="config_error", error_type="ValidationError", message=message)


def _deciding_part(config: HfConfig) -> HfConfig:
    return text_config(config).with_value("is_causal", decides_causally(config))


def _retrieving_part(config: HfConfig) -> HfConfig:
    return text_config(config).with_value("is_causal", retrieves_causally(config))


_POOLING: Final = Architecture(name="", is_hybrid=True, runner_type=RunnerType.POOLING)
_SEEING: Final = replace(_POOLING, is_multimodal=True)

ROWS: Final[Sequence[Architecture]] = (
    Architecture(
        name="Lfm2VlForConditionalGeneration",
        model=Wrapped(inner=_LFM2_VL, prefix="language."),
        is_hybrid=True,
        is_multimodal=True,
    ),
    Architecture(
        name="BailingMoeV3VLForConditionalGeneration",
        model=Wrapped(inner=BAILING_3),
        is_hybrid=True,
        is_multimodal=True,
    ),
    replace(
        _POOLING,
        name="ColBERTLfm2Model",
        model=_BARE_LFM2,
        default_seq_pooling_type="CLS",
        supports_pp=False,
    ),
    replace(
        _POOLING,
        name="Lfm2BidirectionalModel",
        model=_BIDIRECTIONAL,
        is_hybrid=False,
        attn_type="encoder_only",
        default_seq_pooling_type="CLS",
        supports_pp=False,
    ),
    replace(_SEEING, name="ClefFlashForJointSchema", model=Wrapped(inner=QWEN3_NEXT)),
    replace(
        _SEEING,
        name="D3ForSequenceClassification",
        model=Wrapped(inner=QWEN3_NEXT, part=_deciding_part),
    ),
    replace(
        _SEEING,
        name="ColQwen3_5",
        model=Wrapped(inner=QWEN3_NEXT, part=_retrieving_part),
        default_seq_pooling_type="CLS",
    ),
)
