"""What the engine changes for single architectures while it resolves settings.

Source: vLLM 0.33.0 ``vllm/model_executor/models/config.py:MODELS_CONFIG_MAP``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.refusal import refuses

_DIFFUSION_GEMMA: Final = "DiffusionGemmaForBlockDiffusion"
# The engine cannot tell its own default from the user's number, and takes any number from
# its stock default on for the former.
_LOOKS_LIKE_DEFAULT: Final = 128
_DIFFUSION_MAX_NUM_SEQS: Final = 8


def is_causal(architecture: str, config: HfConfig) -> bool:
    """Whether tokens attend to earlier ones only, as far as pooling asks."""
    if architecture == "Gemma3TextModel":
        return not config.raw("use_bidirectional_attention")
    return config.optional_boolean("is_causal") is not False


def diffusion_canvas_length(architecture: str, config: HfConfig) -> int:
    """Tokens that a block-diffusion model denoises at once; 0 for all others.

    The engine counts them as speculative tokens.
    """
    return config.positive("canvas_length") if architecture == _DIFFUSION_GEMMA else 0


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
