"""What single model classes refuse while the engine builds them.

Source: vLLM 0.33.0 ``models/{dory,bert,roberta,rnj1,alice_ai}.py``,
``models/transformers/base.py``, ``vllm/models/{flint/model,{beam,muse_spark}/nvidia}`` and
``layers/attention/attention.py:Attention.__init__``.
"""

from __future__ import annotations

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.divisibility import check_vocabulary
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.library import LIBRARY_CLASSES
from kvplan_cli.models.shape import AttentionKind, AttentionLayer
from kvplan_cli.settings.expert_parallel import shares_out_tokens
from kvplan_cli.settings.resolved import ResolvedSettings

# Encoders that shard their position and type embeddings as they do their vocabulary.
_SHARDED_POSITIONS = frozenset(
    {
        "BertForMaskedLM",
        "BertForSequenceClassification",
        "BertForTokenClassification",
        "BertModel",
        "BertSpladeSparseEmbeddingModel",
        "BgeM3EmbeddingModel",
        "HF_ColBERT",
        "RobertaForMaskedLM",
        "RobertaForSequenceClassification",
        "RobertaForTokenClassification",
        "RobertaModel",
        "XLMRobertaForSequenceClassification",
        "XLMRobertaForTokenClassification",
        "XLMRobertaModel",
    }
)
# Where the architecture keeps the number of experts, which ranks may not outnumber.
_EXPERTS = {
    "Cohere2MoeForCausalLM": "num_experts",
    "Ernie4_5_MoeForCausalLM": "moe_num_experts",
    "ExaoneMoEForCausalLM": "num_experts",
    "ExaoneMoeForCausalLM": "num_experts",
    "HYV3ForCausalLM": "num_experts",
    "InternS1ProForConditionalGeneration": "num_experts",
    "K2HorizonForCausalLM": "num_experts",
    "LagunaForCausalLM": "num_experts",
    "Lfm2MoeForCausalLM": "num_experts",
    "MiMoV2FlashForCausalLM": "n_routed_experts",
    "MiMoV2ForCausalLM": "n_routed_experts",
    "MiniMaxM2ForCausalLM": "num_local_experts",
    "Qwen2MoeForCausalLM": "num_experts",
    "Qwen3MoeForCausalLM": "num_experts",
    "Qwen3NextForCausalLM": "num_experts",
    "Qwen3OmniMoeForConditionalGeneration": "num_experts",
    "Qwen3VLMoeForConditionalGeneration": "num_experts",
    "Step3TextForCausalLM": "moe_num_experts",
    "Step3p5ForCausalLM": "moe_num_experts",
    "Step5ForCausalLM": "moe_num_experts",
    "Step5ForConditionalGeneration": "moe_num_experts",
}
# Types of the library whose class has its list of layers in a module of its own.
_LAYERLESS = {
    "bert": "bert.modeling_bert.BertModel",
    "llama4": "llama4.modeling_llama4.Llama4ForCausalLM",
    "roberta": "roberta.modeling_roberta.RobertaModel",
}
_TIES_ITS_HEAD_ANYWHERE = ("Ernie4_5_MoeForCausalLM", "Ernie4_5_VLMoeForConditionalGeneration")
_PLAIN_BFLOAT16 = ("auto", "bfloat16")


def check_model(architecture: str, settings: ResolvedSettings, config: HfConfig) -> None:
    """Refusals that come before any attention layer is built, and before the vocabulary's."""
    tensor_parallel_size = settings.tensor_parallel_size
    if architecture == "DoryForCausalLM" and tensor_parallel_size != 1:
        raise model_refusal("ValueError", "Dory currently supports tensor_parallel_size=1 only")
    if architecture in LIBRARY_CLASSES:
        _check_library(settings, config)
    if architecture in _SHARDED_POSITIONS and tensor_parallel_size > 1:
        for key in ("vocab_size", "max_position_embeddings", "type_vocab_size"):
            check_vocabulary(config.positive(key), tensor_parallel_size)


# Classes whose experts take no tokens that ranks share out.
_TAKE_WHOLE_STEPS = {
    "AliceAIForCausalLM": "AliceAI does not support sequence-parallel MoE",
    "BeamForCausalLM": "Beam has not been validated with sequence-parallel MoE (data parallelism "
    "with expert parallelism).",
}


def check_shared_experts(architecture: str, args: EngineArgs, gpu: Gpu) -> None:
    """Refuse copies of the engine that share experts, for classes that cannot."""
    message = _TAKE_WHOLE_STEPS.get(architecture)
    if message is not None and shares_out_tokens(args):
        raise model_refusal(
            "NotImplementedError", message, way_out="leave --enable-expert-parallel out"
        )
    # Data-centre Blackwell has another kernel for its experts.
    alone = architecture == "MuseSparkForConditionalGeneration" and gpu.capability[0] != 10
    if alone and args.data_parallel_size > 1:
        raise model_refusal(
            "NotImplementedError",
            "MuseSpark1x Triton/Marlin currently requires DP1 and PCP1.",
            way_out="leave --data-parallel-size at 1, and start more engines",
        )


def _check_library(settings: ResolvedSettings, config: HfConfig) -> None:
    """What the Transformers library's classes cannot do in the engine's hands."""
    way_out = "leave --model-impl transformers out"
    if settings.quantization in ("mxfp4", "gpt_oss_mxfp4"):
        raise model_refusal(
            "NotImplementedError",
            "Transformers modeling backend does not support MXFP4 quantization yet.",
            way_out=way_out,
        )
    layerless = _LAYERLESS.get(config.optional_text("model_type") or "")
    if settings.pipeline_parallel_size > 1 and layerless is not None:
        raise model_refusal(
            "ValueError",
            f"Could not find `ModuleList` in <class 'transformers.models.{layerless}'>",
            way_out=way_out,
        )


def check_experts(architecture: str, text: HfConfig, tensor_parallel_size: int) -> None:
    """Refuse more ranks than experts; the engine finds out when it builds the first experts."""
    key = _EXPERTS.get(architecture)
    experts = None if key is None else text.raw(key)
    if isinstance(experts, int) and 0 < experts < tensor_parallel_size:
        raise model_refusal(
            "ValueError",
            f"Tensor parallel size {tensor_parallel_size} is greater than the number of experts "
            f"{experts}.",
        )


def check_head(architecture: str, text: HfConfig, pipeline_parallel_size: int) -> None:
    """Refuse tied embeddings over stages where the class ties a head that its stage has not."""
    if architecture not in _TIES_ITS_HEAD_ANYWHERE or pipeline_parallel_size == 1:
        return
    if text.boolean("tie_word_embeddings"):
        raise model_refusal(
            "AttributeError",
            "'PPMissingLayer' object has no attribute 'tie_weights'",
            way_out="leave --pipeline-parallel-size at 1: its embeddings are tied",
        )


def check_layer(
    architecture: str, layer: AttentionLayer, backend: Backend, settings: ResolvedSettings
) -> None:
    """Refusals of a layer for the backend that was selected for it."""
    if architecture == "FlintForCausalLM":
        _check_flint(backend, settings)
    looks_back = architecture == "Rnj1ForCausalLM" and layer.kind is AttentionKind.SLIDING
    if looks_back and backend.name != "TRITON_ATTN":
        raise model_refusal(
            "AssertionError",
            f"Chunked attention with lookback requires the Triton backend, but got {backend.name}.",
            way_out="use --attention-backend TRITON_ATTN",
        )


def _check_flint(backend: Backend, settings: ResolvedSettings) -> None:
    if backend.name != "FLASHINFER":
        raise model_refusal(
            "AssertionError",
            "Flint requires FlashInfer attention",
            way_out="use --attention-backend FLASHINFER",
        )
    if settings.dtype is not DType.BFLOAT16 or settings.cache_dtype not in _PLAIN_BFLOAT16:
        raise model_refusal("AssertionError", "")
