"""Models that the engine runs by the Transformers library's classes, whatever names them.

The engine builds the library's base class of the ``model_type`` and puts a cache of its own
beside each module that dispatches through the library's attention interface. Heads and sizes are
the config's as a whole, windows those of ``layer_types``.
Source: vLLM 0.33.0 ``models/transformers/base.py:_create_attention_instances``,
``vllm/config/model.py:_get_transformers_backend_cls`` and
``model_executor/models/registry.py:_try_resolve_transformers``; transformers 5.20.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError, Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models import transformers_backend
from kvplan_cli.models.architecture import Architecture, Decoder, Layout, Wrapped
from kvplan_cli.models.flags import (
    always_sink,
    granite_sink,
    never,
    soft_capped,
    soft_capped_by_default,
)
from kvplan_cli.models.gemma import gemma4_heads
from kvplan_cli.models.heads import equal_heads, multi_query_heads
from kvplan_cli.models.language import Language
from kvplan_cli.models.mla import LatentDecoder
from kvplan_cli.models.shape import CacheLayer, RunnerType, WholeModelDims
from kvplan_cli.models.text import text_config
from kvplan_cli.models.transformers_backend import dispatched, undispatched
from kvplan_cli.models.windowed import config_dims
from kvplan_cli.values import dataclass

_PLAIN: Final = Decoder(
    layer_name="layers.{}.self_attn.attn", reach=dispatched, soft_cap=soft_capped
)
_GPT: Final = replace(_PLAIN, layer_name="h.{}.attn.attn")
_BERT: Final = replace(
    _PLAIN,
    layer_name="encoder.layer.{}.attention.self.attn",
    heads=equal_heads,
    causal=never,
)
_LATENT: Final = LatentDecoder(layer_name="layers.{}.self_attn", can_unfold=True)

# Types whose modules were seen to dispatch, with the names that are theirs.
_PLAIN_TYPES: Final = """
afmoe apertus arcee aria_text biogpt bitnet cohere cohere2 cohere2_moe cwm doge
ernie4_5 ernie4_5_moe exaone4 exaone_moe flex_olmo gemma gemma3_text glm glm4 glm4_moe
glm4v_moe_text glm4v_text granite granitemoe granitemoehybrid helium llama llama4_text minimax_m2
ministral3 mistral mixtral nanochat olmo2 olmo3 olmoe phi phi3 phimoe qwen2 qwen2_5_vl_text
qwen2_moe qwen2_vl_text qwen3 qwen3_5_text qwen3_moe qwen3_next qwen3_vl_moe_text qwen3_vl_text
seed_oss smollm3 solar_open stablelm starcoder2
"""
_BERT_TYPES: Final = "bert camembert electra ernie roberta xlm-roberta"
_OTHER_MODULES: Final = "albert diffllama distilbert layoutlm nomic_bert"
_WRAPPER_TYPES: Final = """
aya_vision cohere2_vision deepseek_vl gemma3 gemma4 glm4v glm4v_moe got_ocr2 internvl janus lfm2_vl
llava llava_next llava_onevision ovis2 paligemma qwen2_5_vl qwen2_audio qwen2_vl qwen3_vl
qwen3_vl_moe voxtral
"""
LAYOUTS: Final[Mapping[str, Layout]] = {
    **dict.fromkeys(_PLAIN_TYPES.split(), _PLAIN),
    **dict.fromkeys(("axk1", "deepseek_v3", "glm4_moe_lite", "youtu"), _LATENT),
    **dict.fromkeys(_BERT_TYPES.split(), _BERT),
    **dict.fromkeys(_OTHER_MODULES.split(), replace(_PLAIN, reach=undispatched)),
    "gemma2": replace(_PLAIN, soft_cap=soft_capped_by_default),
    "gemma4_text": replace(_PLAIN, heads=gemma4_heads, dims=config_dims),
    "gpt2": _GPT,
    "gpt_bigcode": replace(_GPT, heads=multi_query_heads),
    "gpt_neox": replace(_PLAIN, layer_name="layers.{}.attention.attn", heads=equal_heads),
    "gpt_oss": replace(_PLAIN, sink=always_sink),
    "granite_swa": replace(_PLAIN, sink=granite_sink),
    "granitemoe_swa": replace(_PLAIN, sink=granite_sink),
    "jetmoe": replace(_PLAIN, layer_name="layers.{}.self_attention.attn"),
    "opt": replace(_PLAIN, layer_name="decoder.layers.{}.self_attn.attn"),
}
# Where multimodal classes have their language model, by type.
_INSIDE: Final = "model.language_model."
WRAPPERS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_WRAPPER_TYPES.split(), _INSIDE),
    "idefics3": "model.text_model.",
    "llama4": f"{_INSIDE}model.",
    "smolvlm": "model.text_model.",
}
# Types whose classes follow the library's standard for modules that predict further tokens.
_PREDICTING: Final = frozenset({"deepseek_v3", "glm4_moe"})
# Types whose classes neither dispatch through the interface nor say that they could.
_INCOMPATIBLE: Final = """
big_bird bloom codegen cpmant deberta-v2 falcon gpt_neo gptj mpnet nemotron
"""


@dataclass(frozen=True, slots=True)
class LibraryLayout:
    """The layout of the library's class for the language config's type."""

    def layers(self, language: Language) -> tuple[CacheLayer, ...]:
        """All layers with a cache, in the engine's order, unsharded."""
        return _layout(language.config).layers(language)

    def whole_model(self, language: Language) -> WholeModelDims | None:
        """What the engine takes for the whole model; None, the largest of the layers."""
        return _layout(language.config).whole_model(language)

    def num_decoder_layers(self, language: Language) -> int:
        """Decoder layers that pipeline stages share out."""
        return _layout(language.config).num_decoder_layers(language)


def _layout(text: HfConfig) -> Layout:
    layout = LAYOUTS.get(text.optional_text("model_type") or "")
    if layout is None:
        raise _unknown(text, f"type {text.raw('model_type')}")
    return layout


def library_module(language: Language, module: int) -> Sequence[CacheLayer]:
    """The cache of a module that predicts a further token: that of one of the model's layers.

    Source: vLLM 0.33.0 ``models/transformers/mtp.py:MTPMixin``.
    """
    config = language.config
    if config.optional_text("model_type") not in _PREDICTING:
        raise _unknown(config, f"drafting modules of type {config.raw('model_type')}")
    first = _layout(config).layers(language)[0]
    name = f"model.layers.{module}.mtp_block.{first.name.removeprefix('layers.0.')}"
    return [replace(first, name=name, decoder_layer=0)]


def _inside(config: HfConfig) -> str:
    model_type = config.optional_text("model_type") or ""
    if model_type not in WRAPPERS:
        raise _unknown(config, f"multimodal type {model_type}")
    return WRAPPERS[model_type]


def _whole(config: HfConfig) -> HfConfig:
    return config


def _unknown(config: HfConfig, named: str) -> UnplannableError:
    return UnplannableError(
        Problem(
            where=f"{config.origin}: {config.where('model_type')}",
            reason=f"kvplan does not know which modules attend in the Transformers library's "
            f"class for {named}",
            way_out="leave --model-impl transformers out, or give the layer specs in a plan file",
        )
    )


def is_known(config: HfConfig) -> bool:
    """Whether the library's class for this config has a row here."""
    text = text_config(config)
    wraps = not text.path or config.optional_text("model_type") in WRAPPERS
    return wraps and text.optional_text("model_type") in LAYOUTS


def check_compatible(config: HfConfig, architecture: str) -> None:
    """Raises EngineRefusalError where the library's class cannot take the engine's attention,
    UnplannableError where the class stands in the checkpoint's own code."""
    model_type = text_config(config).optional_text("model_type")
    if model_type in _INCOMPATIBLE.split():
        raise EngineRefusalError(
            stage="config_error",
            error_type="ValidationError",
            message=f"The Transformers implementation of {architecture!r} is not compatible with "
            "vLLM.",
            way_out="leave --model-impl transformers out",
        )
    if model_type not in LAYOUTS and config.has("auto_map"):
        raise UnplannableError(
            Problem(
                where=f"{config.origin}: {config.where('auto_map')}",
                reason="the class stands in the checkpoint's own code, which kvplan never runs",
                way_out="leave --model-impl transformers out, or give the layer specs in a plan "
                "file",
            )
        )


_SERVED: Final = LibraryLayout()
_TEXT: Final = Wrapped(inner=_SERVED, prefix="model.", part=_whole)
_SEEING: Final = Wrapped(inner=_SERVED, prefix=_inside)
_POOLED: Final = ("EmbeddingModel", "ForSequenceClassification")


def generic_name(*, is_multimodal: bool, has_experts: bool, ending: str) -> str:
    """The engine's class for a model of the library. ending: the task's, as ``ForCausalLM``."""
    seeing, experts = "MultiModal" * is_multimodal, "MoE" * has_experts
    return f"Transformers{seeing}{experts}{ending}"


def _rows() -> Sequence[Architecture]:
    made = []
    for is_multimodal, has_experts, ending in (
        *((seeing, experts, "ForCausalLM") for seeing in (False, True) for experts in (0, 1)),
        *((False, experts, ending) for experts in (0, 1) for ending in _POOLED),
        *((True, 0, ending) for ending in _POOLED),
    ):
        pools = ending in _POOLED
        row = Architecture(
            name=generic_name(
                is_multimodal=is_multimodal, has_experts=bool(has_experts), ending=ending
            ),
            model=_SEEING if is_multimodal else _TEXT,
            is_multimodal=is_multimodal,
            runner_type=RunnerType.POOLING if pools else RunnerType.GENERATE,
            default_seq_pooling_type="CLS" if pools else "LAST",
        )
        made.append(row)
    return made


ROWS: Final[Sequence[Architecture]] = tuple(_rows())
LIBRARY_CLASSES: Final = frozenset(row.name for row in ROWS)
# Text models that its classes run by whatever name.
LIBRARY_TEXT: Final = frozenset(
    row.name
    for row in (*ROWS, *transformers_backend.ROWS)
    if row.runner_type is RunnerType.GENERATE and not row.is_multimodal
)
