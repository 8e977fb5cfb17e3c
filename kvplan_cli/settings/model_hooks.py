"""What the engine changes for single architectures while it resolves settings.

Source: vLLM 0.33.0 ``vllm/model_executor/models/config.py:MODELS_CONFIG_MAP``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.gpus import Gpu, runs_flash_attention_4
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.registry import model_shape
from kvplan_cli.models.shape import AttentionLayer
from kvplan_cli.models.state_wrappers import decides_causally, retrieves_causally
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.refusal import refuses

_DIFFUSION_GEMMA: Final = "DiffusionGemmaForBlockDiffusion"
_EMBEDDING_GEMMA2: Final = "EmbeddingGemma2Model"
_EMBEDDING_GEMMA2_LENGTH: Final = 8192
UNLIMITED_OCR: Final = "UnlimitedOCRForCausalLM"
# Source: vLLM 0.33.0 ``vllm/v1/attention/backends/registry.py``.
BACKEND_CLASSES: Final = {
    "FLEX_ATTENTION": "vllm.v1.attention.backends.flex_attention.FlexAttentionBackend",
    "FLASHINFER": "vllm.v1.attention.backends.flashinfer.FlashInferBackend",
    "TURBOQUANT": "vllm.v1.attention.backends.turboquant_attn.TurboQuantAttentionBackend",
}
GEMMA4_KIN: Final = frozenset(
    {
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
        _EMBEDDING_GEMMA2,
        _DIFFUSION_GEMMA,
    }
)
# Elements of the widest head that FlashAttention 4 takes.
LONGEST_FLASH_HEAD: Final = 512
_ALICE_AI: Final = "AliceAIForCausalLM"
_QWEN4_EXP: Final = ("Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration")
_GLM5_NEXT: Final = ("Glm5NextForCausalLM", "Glm5NextForConditionalGeneration")
# Embedding models whose hook makes an encoder of a decoder.
_LLAMA_BIDIRECTIONAL: Final = frozenset(
    {"LlamaBidirectionalForSequenceClassification", "LlamaBidirectionalModel"}
)
_BIDIRECTIONAL: Final = _LLAMA_BIDIRECTIONAL | frozenset(
    {
        "LlamaNemotronVLForSequenceClassification",
        "LlamaNemotronVLModel",
        "VoyageQwen3BidirectionalEmbedModel",
    }
)
# The engine cannot tell its own default from the user's number, and takes any number from
# its stock default on for the former.
_LOOKS_LIKE_DEFAULT: Final = 128
_DIFFUSION_MAX_NUM_SEQS: Final = 8


def is_causal(architecture: str, config: HfConfig) -> bool:
    """Whether tokens attend to earlier ones only, as far as pooling asks."""
    if architecture == "Gemma3TextModel":
        return not config.raw("use_bidirectional_attention")
    if architecture in _BIDIRECTIONAL:
        return False
    if architecture == "D3ForSequenceClassification":
        return decides_causally(config)
    if architecture == "ColQwen3_5":
        return retrieves_causally(config)
    if architecture == "JinaEmbeddingsV5Model" and config.raw("is_decoder") is False:
        return False
    return config.optional_boolean("is_causal") is not False


def check_pooling(architecture: str, config: HfConfig) -> None:
    """Raises EngineRefusalError where a bidirectional Llama does not say how it pools."""
    if architecture not in _LLAMA_BIDIRECTIONAL:
        return
    pooling = config.raw("pooling")
    if pooling is None:
        raise refuses(
            "This bidirectional model requires a 'pooling' field in its HF config (one of 'avg', "
            "'cls', 'last'), but none was found. Unlike the VL variants, no default is assumed "
            "here because silently picking a pooling for an embedding model can produce wrong "
            "embeddings.",
            way_out='give it with --hf-overrides \'{"pooling": "avg"}\'',
        )
    if pooling not in ("avg", "cls", "last"):
        raise refuses(f"pool_type {pooling!r} not supported")


def check_config(architecture: str, config: HfConfig) -> None:
    """Raises EngineRefusalError for what an architecture's hook rejects of the config alone."""
    if architecture != _ALICE_AI:
        return
    if config.raw("kda_allow_negative_eigenvalues") is not False:
        raise refuses(
            "AliceAI requires kda_allow_negative_eigenvalues=false",
            error_type="NotImplementedError",
        )
    if config.raw("router_score_function") != "sigmoid":
        raise refuses("AliceAI requires router_score_function='sigmoid'")
    if config.raw("router_bias_correction") is not True:
        raise refuses("AliceAI requires router_bias_correction=true")


def check_pipeline(architecture: str, config: HfConfig, pipeline_parallel_size: int) -> None:
    """Raises EngineRefusalError where a hook allows a single pipeline stage."""
    if pipeline_parallel_size == 1:
        return
    if architecture == _ALICE_AI:
        raise refuses(
            "AliceAI does not support pipeline parallelism; pipeline_parallel_size=1 is required",
            error_type="NotImplementedError",
        )
    if architecture in _QWEN4_EXP and text_config(config).raw("ple_layer_ids"):
        raise refuses(
            "Qwen4Exp N-gram PLE embedding requires pipeline_parallel_size=1 because non-first "
            "pipeline ranks do not receive the raw input_ids it needs. Please run with PP=1.",
            error_type="NotImplementedError",
        )


def hooked_max_model_len(architecture: str, max_model_len: int, asked: int | None) -> int:
    """EmbeddingGemma 2 starts with a shorter length unless one is asked for."""
    if architecture == _EMBEDDING_GEMMA2 and asked in (None, AUTO_MAX_MODEL_LEN):
        return min(max_model_len, _EMBEDDING_GEMMA2_LENGTH)
    return max_model_len


def hooked_backend(
    architecture: str, config: HfConfig, gpu: Gpu, attention_backend: str | None
) -> str | None:
    """The backend that a hook chooses where the user does not.

    Gemma 4's kin take Triton where FlashAttention 4 cannot serve all of their head sizes;
    Unlimited-OCR's window needs version 4 or Triton.
    """
    if architecture == UNLIMITED_OCR:
        return _reference_window_backend(gpu, attention_backend)
    if architecture not in GEMMA4_KIN or attention_backend is not None:
        return attention_backend
    if architecture == _EMBEDDING_GEMMA2:
        return "TRITON_ATTN"
    head_sizes = {
        layer.head_size for layer in model_shape(config).layers if isinstance(layer, AttentionLayer)
    }
    fits = runs_flash_attention_4(gpu.capability) and max(head_sizes) <= LONGEST_FLASH_HEAD
    return None if len(head_sizes) <= 1 or fits else "TRITON_ATTN"


def _reference_window_backend(gpu: Gpu, attention_backend: str | None) -> str:
    newest = runs_flash_attention_4(gpu.capability)
    if attention_backend is None:
        return "FLASH_ATTN" if newest else "TRITON_ATTN"
    if attention_backend == "FLASH_ATTN" and not newest:
        raise refuses(
            "Unlimited-OCR: --attention-config backend=FLASH_ATTN requires FA4 "
            "(rswa_mask_mod), but FA4 is not available on this device/installation. Use "
            "backend=TRITON_ATTN or FLEX_ATTENTION, or upgrade vllm-flash-attn.",
            error_type="RuntimeError",
        )
    if attention_backend not in ("FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION"):
        raise refuses(
            f"Unlimited-OCR: unsupported attention backend {_shown(attention_backend)} for R-SWA. "
            "Use FLASH_ATTN (FA4), TRITON_ATTN or FLEX_ATTENTION."
        )
    return attention_backend


def _shown(attention_backend: str) -> str:
    """A backend as Python prints the engine's enumeration, where its class is known."""
    path = BACKEND_CLASSES.get(attention_backend)
    name = f"AttentionBackendEnum.{attention_backend}"
    return name if path is None else f"<{name}: '{path}'>"


def hooked_prefix_caching(architecture: str, enable_prefix_caching: bool) -> bool:
    """Unlimited-OCR's generated tokens cannot be shared: its hook switches the caching off."""
    return enable_prefix_caching and architecture != UNLIMITED_OCR


def diffusion_canvas_length(architecture: str, config: HfConfig) -> int:
    """Tokens that a block-diffusion model denoises at once; 0 for all others.

    The engine counts them as speculative tokens.
    """
    return config.positive("canvas_length") if architecture == _DIFFUSION_GEMMA else 0


def hooked_cache_dtype(architecture: str, config: HfConfig, gpu: Gpu, cache_dtype: str) -> str:
    """Sparse latent models: FP8 on Blackwell by default; bfloat16 is their plain cache."""
    if architecture == "DeepseekV32ForCausalLM" and cache_dtype == "bfloat16":
        return "auto"
    if cache_dtype != "auto" or gpu.capability[0] != 10:
        return cache_dtype
    if architecture == "GlmMoeDsaForCausalLM":
        return "fp8_e4m3"
    if architecture in _GLM5_NEXT and text_config(config).has("index_topk"):
        return "fp8"
    return cache_dtype


def hooked_max_num_seqs(architecture: str, max_num_seqs: int) -> int:
    """Diffusion samples whole canvases: more than a few sequences would not fit the card."""
    if architecture == _DIFFUSION_GEMMA and max_num_seqs >= _LOOKS_LIKE_DEFAULT:
        return _DIFFUSION_MAX_NUM_SEQS
    return max_num_seqs


def check_backend(architecture: str, attention_backend: str | None) -> None:
    """Raises EngineRefusalError for a backend that the architecture's hook rejects."""
    if architecture == _DIFFUSION_GEMMA and attention_backend == "FLASHINFER":
        raise refuses(
            "FlashInfer does not support DiffusionGemma's mixed causal/bidirectional "
            "attention. Use --attention-backend FLASH_ATTN or TRITON_ATTN instead."
        )


def attention_chunk_size(config: HfConfig) -> int | None:
    """Tokens of a local attention chunk, None for none.

    MiMo-V2 states one that its attention does not use; the engine drops it.
    Source: ``vllm/transformers_utils/model_arch_config_convertor.py``.
    """
    if config.optional_text("model_type") in ("mimo_v2", "mimo_v2_flash"):
        return None
    return text_config(config).optional_integer("attention_chunk_size")
