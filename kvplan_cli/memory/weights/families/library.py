"""Models that the engine runs by the Transformers library's classes, by the config's type.

Their modules are those of the engine's own class of the model, but rotary positions need no
table, a stage holds only what it uses, and most routers are in the model dtype.
Source: vLLM 0.33.0 ``models/transformers/{base,moe,causal}.py`` and transformers 5.20.2 ``models``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.attention import Attention, qk_norm
from kvplan_cli.memory.weights.decoder import Decoder
from kvplan_cli.memory.weights.families.elder import ELDER
from kvplan_cli.memory.weights.families.gemma import GEMMAS
from kvplan_cli.memory.weights.families.library_bert import LIBRARY_CLASSIFIERS
from kvplan_cli.memory.weights.families.library_others import LIBRARY_OTHERS, SIGMOID_EXPERTS
from kvplan_cli.memory.weights.families.llama_like import ATTENTION_BIAS, HEAD_NORM, LLAMA_LIKE
from kvplan_cli.memory.weights.families.mixtures import (
    LLAMA4_DENSE,
    LLAMA4_EXPERTS,
    MIXTURES,
    SMALL,
    after_dense,
    llama4_sparse,
    times,
)
from kvplan_cli.memory.weights.families.mixtures_windowed import WINDOWED_MIXTURES
from kvplan_cli.memory.weights.families.transformers_backend import TRANSFORMERS_BACKEND
from kvplan_cli.memory.weights.feed_forward import GATED, Gated
from kvplan_cli.memory.weights.layers import (
    LayerFacts,
    Part,
    always,
    sized,
    together,
    where,
)
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.norms import QkNorm
from kvplan_cli.memory.weights.rope import InverseFrequencies
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors

_OWN: Final[Mapping[str, Decoder]] = {
    **ELDER,
    **GEMMAS,
    **LLAMA_LIKE,
    **MIXTURES,
    **WINDOWED_MIXTURES,
    **TRANSFORMERS_BACKEND,
}
# Types whose modules are those of the engine's own class, by that class.
_ONE_ROTATION: Final[Mapping[str, str]] = {
    "apertus": "Apertus",
    "arcee": "Arcee",
    "cohere": "Cohere",
    "cohere2": "Cohere2",
    "cohere2_moe": "Cohere2Moe",
    "cwm": "Cwm",
    "ernie4_5": "Ernie4_5",
    "ernie4_5_moe": "Ernie4_5_Moe",
    "exaone4": "Exaone4",
    "exaone_moe": "ExaoneMoe",
    "flex_olmo": "FlexOlmo",
    "gemma": "Gemma",
    "gemma2": "Gemma2",
    "glm": "Glm",
    "gpt_neox": "GPTNeoX",
    "granite": "Granite",
    "granitemoe": "GraniteMoe",
    "helium": "Llama",
    "llama": "Llama",
    "ministral3": "Ministral3",
    "mistral": "Mistral",
    "mixtral": "Mixtral",
    "olmo2": "Olmo2",
    "olmoe": "Olmoe",
    "phi": "Phi",
    "qwen2": "Qwen2",
    "qwen2_5_vl_text": "Qwen2",
    "qwen2_moe": "Qwen2Moe",
    "qwen2_vl_text": "Qwen2",
    "qwen3": "Qwen3",
    "qwen3_moe": "Qwen3Moe",
    "qwen3_vl_moe_text": "Qwen3Moe",
    "qwen3_vl_text": "Qwen3",
    "seed_oss": "SeedOss",
    "smollm3": "SmolLM3",
    "stablelm": "StableLm",
    "starcoder2": "Starcoder2",
}
# The same with a rotation for each type of layer.
_ROTATION_BY_TYPE: Final[Mapping[str, str]] = {
    "gemma3_text": "Gemma3",
    "granite_swa": "GraniteSWA",
    "granitemoe_swa": "GraniteMoeSWA",
    "olmo3": "Olmo3",
}
_FREQUENCIES: Final = InverseFrequencies()
_BY_TYPE: Final = InverseFrequencies(by_type=True)


def _corrected(experts: Experts) -> Part:
    """Experts whose correction is in the model dtype."""

    def correction(facts: LayerFacts) -> Tensors:
        return facts.site.vector("e_score_correction_bias", experts.count(facts.config))

    return together(experts, correction)


_GPT2: Final = ELDER["GPT2LMHeadModel"]


def _gpt2_part(part: Part) -> Part:
    """GPT-2's matrices are of a class that is neither shared out nor quantized."""
    return lambda facts: part(replace(facts, site=facts.site.replicated_site().unquantized()))


def _gpt2_attention(facts: LayerFacts) -> Tensors:
    scales = facts.site.scheme.attention_scales(facts.site.itemsize)
    return _gpt2_part(_GPT2.attention)(facts) + scales


def _named(names: Mapping[str, str], rope: InverseFrequencies) -> Mapping[str, Decoder]:
    return {
        model_type: replace(_OWN[f"{name}ForCausalLM"], rope=rope, everywhere=False)
        for model_type, name in names.items()
    }


_GLM4_MOE: Final = replace(
    _OWN["Glm4MoeForCausalLM"],
    feed_forward=where(after_dense("first_k_dense_replace"), SIGMOID_EXPERTS, GATED),
    rope=_FREQUENCIES,
)
_GLM4: Final = replace(_OWN["Glm4ForCausalLM"], feed_forward=Gated(single=True), rope=_FREQUENCIES)
LIBRARY: Final[Mapping[str, Decoder]] = {
    **LIBRARY_OTHERS,
    **_named(_ONE_ROTATION, _FREQUENCIES),
    **_named(_ROTATION_BY_TYPE, _BY_TYPE),
    "afmoe": replace(
        _OWN["AfmoeForCausalLM"],
        attention=Attention(
            qk_norm=HEAD_NORM,
            gate=lambda layer: layer.num_attention_heads * layer.head_size,
            whole_output=True,
        ),
        feed_forward=where(
            after_dense("num_dense_layers"),
            _corrected(Experts(shared=times("num_shared_experts", SMALL), linear_router=True)),
            GATED,
        ),
        rope=_FREQUENCIES,
    ),
    "glm4_moe": _GLM4_MOE,
    "glm4v_moe_text": _GLM4_MOE,
    "glm4": _GLM4,
    "glm4v_text": replace(_GLM4, attention=Attention(qkv_bias=always)),
    "gpt2": replace(
        _GPT2,
        attention=_gpt2_attention,
        feed_forward=_gpt2_part(_GPT2.feed_forward),
        everywhere=False,
        norm_everywhere=False,
    ),
    "gpt_bigcode": ELDER["GPTBigCodeForCausalLM"],
    "llama4_text": replace(
        _OWN["Llama4ForCausalLM"],
        feed_forward=where(
            llama4_sparse, replace(LLAMA4_EXPERTS, linear_router=True), LLAMA4_DENSE
        ),
        rope=_FREQUENCIES,
    ),
    "minimax_m2": Decoder(
        attention=Attention(qkv_bias=ATTENTION_BIAS, qk_norm=qk_norm(QkNorm.WHOLE, always)),
        feed_forward=_corrected(
            Experts(count=sized("num_local_experts"), intermediate=sized("intermediate_size"))
        ),
        rope=_FREQUENCIES,
    ),
    "phi3": replace(
        _OWN["Phi3ForCausalLM"],
        attention=Attention(single=True),
        feed_forward=Gated(single=True),
        rope=_FREQUENCIES,
    ),
    "solar_open": Decoder(feed_forward=SIGMOID_EXPERTS, rope=_FREQUENCIES),
}


def library_decoder(text: HfConfig) -> Decoder:
    """The description for the language config's type; UnplannableError where there is none."""
    model_type = text.optional_text("model_type") or ""
    decoder = LIBRARY.get(model_type)
    if decoder is None:
        raise unknown(
            f"the Transformers library's modules for type {model_type} are not described",
            f"{text.origin}: {text.where('model_type')}",
        )
    return decoder


def library_classifier(text: HfConfig) -> Decoder | None:
    """The same with the class's own head for labels; None where that is a linear without a bias."""
    return LIBRARY_CLASSIFIERS.get(text.optional_text("model_type") or "")
