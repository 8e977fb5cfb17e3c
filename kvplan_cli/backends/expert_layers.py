"""Pipeline stages without a layer of experts, which some model classes cannot do without.

The class looks for one of its own layers of experts once it is built, stage by stage.
Source: vLLM 0.33.0 ``vllm/model_executor/models/{afmoe,glm4_moe,hy_v3,interns1_pro,lfm2_moe,
openpangu,qwen3_moe,qwen3_next,qwen3_vl_moe,sarvam}.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.values import dataclass

# Whether the layer of an index has experts.
HasExperts = Callable[[HfConfig, int], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    has_experts: HasExperts
    message: str


def _behind(key: str, *, experts: str | None = None) -> HasExperts:
    """All layers behind the first ``key``, where the config names ``experts`` at all."""

    def has_experts(text: HfConfig, index: int) -> bool:
        if experts is not None and text.raw(experts) is None:
            return False
        return index >= text.integer(key)

    return has_experts


def _sparse_step(text: HfConfig, index: int) -> bool:
    if index in (text.optional_list("mlp_only_layers") or ()):
        return False
    step = text.positive("decoder_sparse_step")
    return text.integer("num_experts") > 0 and (index + 1) % step == 0


def _sarvam(text: HfConfig, index: int) -> bool:
    first = text.optional_integer("first_k_dense_replace", minimum=0)
    behind = index - (1 if first is None else first)
    step = text.optional_integer("moe_layer_freq", minimum=1) or 1
    return text.raw("num_experts") is not None and behind >= 0 and behind % step == 0


def _pangu() -> _Rule:
    return _Rule(
        has_experts=_behind("first_k_dense_replace", experts="n_routed_experts"),
        message="No MOE layer found in model.layers.",
    )


def _glm4() -> _Rule:
    return _Rule(
        has_experts=_behind("first_k_dense_replace", experts="n_routed_experts"),
        message="No Glm4MoE layer found in model.layers.",
    )


_RULES: Final = {
    "Glm4MoeForCausalLM": _glm4(),
    "Glm4vMoeForConditionalGeneration": _glm4(),
    "HYV3ForCausalLM": _Rule(
        has_experts=_behind("first_k_dense_replace"),
        message="No MoE layer found in model.layers.",
    ),
    "InternS1ProForConditionalGeneration": _Rule(
        has_experts=_sparse_step,
        message="No InternS1ProMoe layer found in the language_model.",
    ),
    "Lfm2MoeForCausalLM": _Rule(
        has_experts=_behind("num_dense_layers"),
        message="No Lfm2MoeSparseMoeBlock layer found in the model.layers.",
    ),
    "PanguProMoEV2ForCausalLM": _pangu(),
    "PanguUltraMoEForCausalLM": _pangu(),
    "Qwen3MoeForCausalLM": _Rule(
        has_experts=_sparse_step,
        message="No Qwen3MoE layer found in the model.layers.",
    ),
    "Qwen3NextForCausalLM": _Rule(
        has_experts=_sparse_step,
        message="No Qwen3Next layer found in the model.layers.",
    ),
    "Qwen3VLMoeForConditionalGeneration": _Rule(
        has_experts=_sparse_step,
        message="No Qwen3Moe layer found in the language_model.",
    ),
    "SarvamMLAForCausalLM": _Rule(
        has_experts=_sarvam,
        message="No SarvamMLAMoE layer found in model.layers.",
    ),
}
_AFMOE: Final = _Rule(
    has_experts=_behind("num_dense_layers"),
    message="No AfmoeMoE layer found in model.layers.",
)


def check_expert_layers(architecture: str, text: HfConfig, stages: Iterable[Iterable[int]]) -> None:
    """Refuse a stage without experts where the class must have one on each.

    stages: the decoder layers of each pipeline stage. Raises: EngineRefusalError (stage
    ``model_error``), MissingFieldError.
    """
    rule = _RULES.get(architecture)
    if architecture == "AfmoeForCausalLM":
        # A model without experts at all is fine there.
        rule = (
            _AFMOE
            if text.positive("num_hidden_layers") > text.integer("num_dense_layers")
            else None
        )
    if rule is None:
        return
    for layers in stages:
        if not any(rule.has_experts(text, index) for index in layers):
            raise model_refusal(
                "RuntimeError",
                rule.message,
                way_out="every pipeline stage needs a layer of experts: use fewer stages, or move "
                "the bounds with VLLM_PP_LAYER_PARTITION",
            )
